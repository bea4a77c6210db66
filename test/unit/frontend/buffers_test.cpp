// SPDX-License-Identifier: Apache-2.0
//
// Which initializers of a model that trains are parameters. The graphs are those that torch 2.15 exports, cut down to the initializer and
// what reads it; the notes are its dynamo exporter's.

#include "test/unit/frontend/onnx_model.h"

#include "mlir/IR/Diagnostics.h"

#include <cmath>
#include <limits>

namespace ashlar::test::buffers_test {

using frontend::ImportOptions;
using onnx::TensorProto;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

const std::string kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
const std::string kFolded = "pkg.onnxscript.optimizer.folded_from";

// What an import says, without the path, and the module.
struct Said {
  std::vector<std::string> notes;
  std::string module;
};

Said importToTrain(const OnnxModel &model, ImportOptions options = {}) {
  Said said;
  options.training = true;
  mlir::ScopedDiagnosticHandler handler(&context(), [&](mlir::Diagnostic &diagnostic) {
    CHECK(diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark);
    std::string text = diagnostic.str();
    said.notes.push_back(text.substr(text.find(".onnx: ") + 7));
    return mlir::success();
  });
  said.module = print(*import(model, options));
  return said;
}

// A layer y = x w + b with six columns, in front of which a test puts what it is about. Its weights are no pattern.
OnnxModel layer(const std::string &input, const std::string &result) {
  OnnxModel model(18);
  model.input("x", {2, 6}).initializer("fc.weight", TensorProto::FLOAT, {6, 6}, {});
  TensorProto *weight = model.proto.mutable_graph()->mutable_initializer(0);
  for (int i = 0; i < 36; ++i) {
    weight->add_float_data(static_cast<float>((i * 7919 % 101) / 100.0 - 0.5));
  }
  return model.node("MatMul", {input, "fc.weight"}, {result});
}

// y = op(x fc.weight, name).
OnnxModel afterLayer(const std::string &op, const std::string &name, std::vector<double> values, std::vector<int64_t> dims = {6}) {
  return layer("x", "h").initializer(name, TensorProto::FLOAT, std::move(dims), std::move(values)).node(op, {"h", name}, {"y"}).output("y");
}

// Writes what torch's exporter notes of a value.
OnnxModel &note(OnnxModel &model, const std::string &name, const std::string &key, const std::string &value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  onnx::ValueInfoProto *info = model.proto.mutable_graph()->add_value_info();
  info->set_name(name);
  info->mutable_unknown_fields()->AddLengthDelimited(4, entry.SerializeAsString());
  return model;
}

bool isTrained(const Said &said, const std::string &name) {
  return said.module.find("nn.variable @" + name + " trainable") != std::string::npos ||
         said.module.find("nn.variable @\"" + name + "\" trainable") != std::string::npos;
}

const std::vector<double> kOther = {0.1, -0.7, 0.3, 0.9, -0.2, 0.4};

} // namespace

TEST_CASE("buffers: weights of layers are trained, whatever they hold", "[frontend][buffers]") {
  Said said = importToTrain(afterLayer("Add", "fc.bias", kOther));
  CHECK(said.notes.empty());
  CHECK(isTrained(said, "fc.weight"));
  CHECK(isTrained(said, "fc.bias"));
  // First values: zeros of biases, ones of scales, an identity, a scale of layers.
  CHECK(isTrained(importToTrain(afterLayer("Add", "fc.bias", {0, 0, 0, 0, 0, 0})), "fc.bias"));
  CHECK(isTrained(importToTrain(afterLayer("Mul", "norm.weight", {1, 1, 1, 1, 1, 1})), "norm.weight"));
  CHECK(isTrained(importToTrain(afterLayer("Mul", "norm.weight", {1, 1.0001, 1, 1.0002, 0.9999, 1})), "norm.weight"));
  CHECK(isTrained(importToTrain(afterLayer("Mul", "norm.weight", {1, 1.0001, 1.0002, 1.0003, 1.0004, 1.0005})), "norm.weight"));
  CHECK(isTrained(importToTrain(afterLayer("Mul", "layer_scale", {1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6})), "layer_scale"));
  std::vector<double> identity(36);
  for (size_t i = 0; i < 36; i += 7) {
    identity[i] = 1;
  }
  CHECK(isTrained(importToTrain(afterLayer("MatMul", "rnn.weight", identity, {6, 6})), "rnn.weight"));
  CHECK(isTrained(importToTrain(afterLayer("Add", "b", {1, 2, 3, 4, 5}, {5, 1, 1})), "b")); // too short for a table
  CHECK(isTrained(importToTrain(afterLayer("MatMul", "probe", {1, 2, 3, 4, 5, 6}, {6, 1})), "probe"));
}

TEST_CASE("buffers: what only decides a comparison has no gradient", "[frontend][buffers]") {
  // minGPT's causal mask, sliced to the length of the sequence.
  OnnxModel model = layer("x", "h").initializer("attn.bias", TensorProto::FLOAT, {1, 6}, {0.5, 0.25, 0, 0.75, 0, 0.125});
  model.initializer("zero", TensorProto::FLOAT, {}, {0}).initializer("low", TensorProto::FLOAT, {}, {-1e9});
  model.ints("begin", {0}).ints("end", {6}).ints("axis", {1});
  model.node("Slice", {"attn.bias", "begin", "end", "axis"}, {"part"}).node("Equal", {"part", "zero"}, {"hidden"});
  model.node("Where", {"hidden", "low", "h"}, {"y"}).output("y");
  Said said = importToTrain(model);
  CHECK(said.notes == std::vector<std::string>{"initializer \"attn.bias\" [1, 6] of f32 is not trained: no gradient reaches it: it only "
                                               "decides comparisons, roundings or integers"});
  CHECK_THAT(said.module, !contains("nn.compare") && !contains("attn.bias")); // the comparison is computed
  // The same mask is trained where something smooth reads it as well.
  model.node("Mul", {"y", "attn.bias"}, {"z"}).output("z");
  CHECK(isTrained(importToTrain(model), "attn.bias"));
  // A cast to integers, a rounding.
  OnnxModel cast = afterLayer("Mul", "scale", kOther).node("Cast", {"steps"}, {"i"}, {{"to", int64_t{TensorProto::INT64}}});
  cast.initializer("steps", TensorProto::FLOAT, {6}, kOther).node("Cast", {"i"}, {"f"}, {{"to", int64_t{TensorProto::FLOAT}}});
  CHECK(importToTrain(cast.node("Add", {"y", "f"}, {"z"}).output("z")).notes.size() == 1);
  OnnxModel bits = afterLayer("Mul", "scale", kOther).node("BitCast", {"steps"}, {"i"}, {{"to", int64_t{TensorProto::INT32}}});
  bits.initializer("steps", TensorProto::FLOAT, {6}, kOther).node("Cast", {"i"}, {"f"}, {{"to", int64_t{TensorProto::FLOAT}}});
  CHECK(importToTrain(bits.node("Add", {"y", "f"}, {"z"}).output("z")).notes.size() == 1);
}

// Dynamo's exporter writes the zeros that a module begins with, for a fixed batch; one state that is learned is expanded to the batch.
TEST_CASE("buffers: first states of zeros are no parameters", "[frontend][buffers]") {
  auto recurrent = [](const std::string &state, double value, bool isExpanded) {
    OnnxModel model =
        OnnxModel(18).input("x", {4, 2, 3}).initializer("w", TensorProto::FLOAT, {1, 3, 3}, {0.1, 0.7, -0.2, 0.3, 0.5, 0.9, 1, 2, 4});
    model.initializer(state, TensorProto::FLOAT, {1, isExpanded ? 1 : 2, 3}, std::vector<double>(isExpanded ? 3 : 6, value));
    if (isExpanded) {
      model.ints("shape", {1, 2, 3}).node("Expand", {state, "shape"}, {"expanded"});
    }
    return model.node("RNN", {"x", "w", "w", "", "", isExpanded ? "expanded" : state}, {"y"}).output("y");
  };
  Said said = importToTrain(recurrent("state", 0, false));
  CHECK(said.notes == std::vector<std::string>{"initializer \"state\" [1, 2, 3] of f32 is not trained: it is a first state of zeros, of a "
                                               "recurrent layer"});
  CHECK(isTrained(said, "w"));
  CHECK(isTrained(importToTrain(recurrent("state", 0.5, false)), "state"));
  CHECK(isTrained(importToTrain(recurrent("rnn.h0", 0, true)), "rnn.h0"));
  CHECK(!isTrained(importToTrain(recurrent("onnx::Expand_12", 0, true)), "onnx::Expand_12"));
}

// The outputs of such a model decide nothing, but the loss is of a tensor before them.
TEST_CASE("buffers: gradients begin at the loss", "[frontend][buffers]") {
  OnnxModel model = afterLayer("Add", "fc.bias", kOther).node("Floor", {"y"}, {"z"});
  model.proto.mutable_graph()->mutable_output(0)->set_name("z");
  CHECK(importToTrain(model).notes.size() == 2);
  ImportOptions options;
  options.loss = "y";
  Said said = importToTrain(model, options);
  CHECK(said.notes.empty());
  CHECK(isTrained(said, "fc.bias"));
}

TEST_CASE("buffers: the exporter's notes say what the module holds", "[frontend][buffers]") {
  OnnxModel model = afterLayer("Mul", "scale", kOther);
  note(model, "fc.weight", kKind, "PARAMETER");
  CHECK(isTrained(importToTrain(model), "scale"));
  note(model, "scale", kKind, "BUFFER");
  CHECK(importToTrain(model).notes ==
        std::vector<std::string>{
            "initializer \"scale\" [6] of f32 is not trained: the exporter notes that it is a buffer of the torch module"});
  // Computed from a literal of the module, from its rows of positions, and from nothing.
  OnnxModel folded = afterLayer("Mul", "clone", kOther);
  note(folded, "clone", kFolded, "['lifted_tensor_0', 'val_2']");
  CHECK_THAT(importToTrain(folded).notes.at(0), contains("the exporter computed it from constants of the torch module"));
  OnnxModel rows = afterLayer("Add", "embedding_1", kOther);
  note(rows, "embedding_1", kFolded, "['arange', 'transformer.wpe.weight', 'val_10']");
  CHECK(isTrained(importToTrain(rows), "embedding_1"));
  OnnxModel uniform = afterLayer("Mul", "unsqueeze", {2, 2, 2, 2, 2, 2});
  note(uniform, "fc.weight", kKind, "PARAMETER");
  note(uniform, "unsqueeze", kFolded, "['ones', 'val_0']");
  CHECK_THAT(importToTrain(uniform).notes.at(0), contains("the exporter computed it, and all its numbers are equal"));
  OnnxModel scale = afterLayer("Mul", "exp", {10, 10, 10, 10, 10, 10});
  note(scale, "exp", kFolded, "['clamp', 'attn.logit_scale']");
  CHECK(isTrained(importToTrain(scale), "exp"));
  // What it calls a parameter is one even where it looks like a mask of a layer.
  OnnxModel chosen = afterLayer("Mul", "gate", {0, 1, 0, 1, 1, 0});
  CHECK(!isTrained(importToTrain(chosen), "gate"));
  note(chosen, "gate", kKind, "PARAMETER");
  CHECK(isTrained(importToTrain(chosen), "gate"));
}

TEST_CASE("buffers: masks hold 0 and what hides", "[frontend][buffers]") {
  for (double low : {-kInf, -3.4028234663852886e38, -1e9, -100.0}) {
    CHECK(
        importToTrain(afterLayer("Add", "mask", {0, low, low, 0, 0, low})).notes ==
        std::vector<std::string>{"initializer \"mask\" [6] of f32 is not trained: it is a mask: every number is 0 or one of at most -100"});
  }
  CHECK(isTrained(importToTrain(afterLayer("Add", "mask", {0, -99, 0, -99, 0, 0})), "mask"));
  CHECK(isTrained(importToTrain(afterLayer("Add", "mask", {0, -kInf, 0, -1e9, 0, 0})), "mask"));
  Said said = importToTrain(afterLayer("Mul", "mask", {0, 1, 1, 0, 0, 1}));
  REQUIRE(said.notes.size() == 1);
  CHECK_THAT(said.notes[0], contains("every number is 0 or 1, and it is no weight of a layer"));
  CHECK(isTrained(importToTrain(afterLayer("PRelu", "act.weight", {0, 1, 1, 0, 0, 1})), "act.weight"));
}

TEST_CASE("buffers: tables are sines, cosines and progressions", "[frontend][buffers]") {
  auto table = [](int64_t rows, auto f) {
    std::vector<double> values;
    for (int64_t p = 0; p < rows; ++p) {
      for (int64_t i = 0; i < 6; ++i) {
        values.push_back(f(p, i));
      }
    }
    return values;
  };
  auto angle = [](int64_t p, int64_t i) { return p * std::pow(10000.0, -(i / 2) / 3.0); };
  // The positions of "Attention is all you need", eight of them; they are added to each of eight samples.
  std::vector<double> positions = table(8, [&](int64_t p, int64_t i) { return i % 2 ? std::cos(angle(p, i)) : std::sin(angle(p, i)); });
  auto with = [&](std::vector<double> values) {
    OnnxModel model = afterLayer("Add", "pos.pe", std::move(values), {8, 6});
    model.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(8);
    return importToTrain(model);
  };
  CHECK(with(positions).notes == std::vector<std::string>{"initializer \"pos.pe\" [8, 6] of f32 is not trained: it is a table: its numbers "
                                                          "are sines, cosines or progressions along dim 0"});
  positions[13] += 0.01; // trained
  CHECK(isTrained(with(positions), "pos.pe"));
  // A rotary table by f16 numbers, inverse frequencies, and slopes.
  CHECK(importToTrain(afterLayer("Mul", "inv_freq", {1, 0.1, 0.01, 0.001, 0.0001, 0.00001})).notes.size() == 1);
  CHECK(importToTrain(afterLayer("Mul", "slopes", {0, -1, -2, -3, -4, -5})).notes.size() == 1);
  CHECK(isTrained(importToTrain(afterLayer("Mul", "scale", {1, 0.1, 0.01, 0.001, 0.02, 0.00001})), "scale"));
}

TEST_CASE("buffers: numbers of every float type are read", "[frontend][buffers]") {
  OnnxModel model = OnnxModel(18).input("x", {2, 6}, TensorProto::FLOAT16);
  model.initializer("w", TensorProto::FLOAT16, {6}, {0x3c00, 0xb800, 0x3a00, 0x3555, 0x4000, 0x3800});
  model.initializer("mask", TensorProto::FLOAT16, {6}, {0, 0xfc00, 0, 0xfc00, 0, 0}); // -inf
  Said said = importToTrain(model.node("Mul", {"x", "w"}, {"h"}).node("Add", {"h", "mask"}, {"y"}).output("y"));
  CHECK(said.notes.size() == 1);
  CHECK(isTrained(said, "w"));
  OnnxModel wide = OnnxModel(18).input("x", {2, 6}, TensorProto::DOUBLE);
  wide.initializer("w", TensorProto::DOUBLE, {6}, {0, -1e300, 0, 0, -1e300, 0});
  CHECK(importToTrain(wide.node("Add", {"x", "w"}, {"y"}).output("y")).notes.size() == 1);
}

TEST_CASE("buffers: constants that the exporter lifted", "[frontend][buffers]") {
  CHECK(importToTrain(afterLayer("Mul", "onnx::Mul_12", {0.5}, {1})).notes.size() == 1);
  CHECK(importToTrain(afterLayer("Div", "_tensor_constant0", {3, 3}, {2, 1})).notes.size() == 1);
  CHECK(isTrained(importToTrain(afterLayer("Add", "onnx::Add_5063", kOther)), "onnx::Add_5063")); // rows of a table of the module
  CHECK(isTrained(importToTrain(afterLayer("MatMul", "onnx::MatMul_9", std::vector<double>(36, 0), {6, 6})), "onnx::MatMul_9"));
  CHECK(isTrained(importToTrain(afterLayer("Mul", "logit_scale", {0.5}, {1})), "logit_scale"));
}

TEST_CASE("buffers: what normalizes an input", "[frontend][buffers]") {
  OnnxModel model = layer("n", "y").output("y");
  model.initializer("mean", TensorProto::FLOAT, {6}, {0.485, 0.456, 0.406, 0.5, 0.1, 0.7});
  model.initializer("std", TensorProto::FLOAT, {6}, {0.229, 0.224, 0.225, 0.3, 0.2, 0.9});
  auto *nodes = model.node("Sub", {"x", "mean"}, {"s"}).node("Div", {"s", "std"}, {"n"}).proto.mutable_graph()->mutable_node();
  nodes->SwapElements(0, 1);
  nodes->SwapElements(1, 2);
  CHECK(importToTrain(model).notes.size() == 2);
  CHECK(isTrained(importToTrain(afterLayer("Sub", "shift", kOther)), "shift")); // of what a layer computed
}

TEST_CASE("buffers: the job decides", "[frontend][buffers]") {
  OnnxModel model = afterLayer("Add", "mask", {0, -kInf, 0, -kInf, 0, 0});
  ImportOptions options;
  options.trained = {"ma*"};
  CHECK(isTrained(importToTrain(model, options), "mask"));
  CHECK(importToTrain(model, options).notes.empty());
  options.trained = {"*mask*", "none"};
  options.training = true;
  CHECK(importError(model, options) == "model.onnx: trained \"none\": matches no parameter; nearest names: \"mask\", \"fc.weight\"");
  options.trained = {"mask"};
  options.frozen = {"m*"};
  CHECK(importError(model, options) ==
        "model.onnx: trained \"mask\": trains parameter \"mask\" but frozen \"m*\" freezes it; leave out one of the two in the job");
  options.trained = {};
  Said said = importToTrain(model, options);
  CHECK(said.notes.empty());
  CHECK_THAT(said.module, contains("nn.variable @mask :")); // it stays a tensor of its own
  ImportOptions first;
  first.init.emplace_back();
  first.init.back().set_match("mask");
  first.init.back().set_fill(1);
  CHECK(isTrained(importToTrain(model, first), "mask"));
  // A program that trains nothing has no need to know.
  CHECK_THAT(print(*import(model)), contains("nn.variable @mask trainable"));
}

TEST_CASE("buffers: running statistics are states", "[frontend][buffers]") {
  OnnxModel model =
      layer("x", "h").initializer("bn.weight", TensorProto::FLOAT, {6}, kOther).initializer("bn.bias", TensorProto::FLOAT, {6}, kOther);
  model.initializer("bn.running_mean", TensorProto::FLOAT, {6}, kOther)
      .initializer("bn.running_var", TensorProto::FLOAT, {6}, {1, 1, 1, 1, 1, 1});
  model.node("BatchNormalization", {"h", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}, {"y"}).output("y");
  note(model, "bn.running_mean", kKind, "BUFFER");
  note(model, "bn.running_var", kKind, "BUFFER");
  Said said = importToTrain(model);
  CHECK(said.notes.empty());
  CHECK_THAT(said.module, contains("nn.variable @bn.running_mean :") && contains("nn.variable @bn.weight trainable"));
}

} // namespace ashlar::test::buffers_test
