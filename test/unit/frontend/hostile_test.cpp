// SPDX-License-Identifier: Apache-2.0
//
// Models that no exporter writes. Walks over every supported op: whatever its inputs, types, attributes and outputs are, the import ends
// with a module or with one line of ours; and over every op that can grow: no size overflows, and nothing large is computed at import.

#include "test/unit/frontend/onnx_model.h"

#include "compiler/frontend/node.h"
#include "compiler/frontend/registry.h"
#include "compiler/job/protobuf_log.h"

#include <catch2/catch.hpp>

#include <google/protobuf/stubs/logging.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include <sys/stat.h>

namespace ashlar::test::hostile_test {

using frontend::ImportOptions;
using onnx::TensorProto;

namespace {

constexpr int64_t kOpset = 28; // every op of the table is there

// How an op is called so that it imports. Inputs are those of `world`.
struct Call {
  std::vector<std::string> inputs = {"x"};
  std::vector<Attribute> attributes;
};

// Tensors of every kind: x and y floats, b bools, v a vector of floats, a signal of two channels, and integers known at import.
OnnxModel world() {
  OnnxModel model = OnnxModel(kOpset).input("x", {2, 2}).input("y", {2, 2}).input("b", {2, 2}, TensorProto::BOOL).input("v", {2});
  model.input("signal", {2, 2, 2}).input("image", {2, 4, 2, 2}).initializer("mask", TensorProto::BOOL, {2}, {0, 1});
  model.initializer("boxes", TensorProto::FLOAT, {1, 2, 4}, {0, 0, 1, 1, 0, 0, 2, 2})
      .initializer("scores", TensorProto::FLOAT, {1, 1, 2}, {1, 2});
  model.input("heads", {1, 2, 2, 2}).input("table", {1, 2, 1}).input("kernel", {2, 1, 2}).input("theta", {1, 2, 3});
  model.input("three gates", {1, 6, 2}).input("four gates", {1, 8, 2});
  model.input("regions", {2, 4}).initializer("quarter", TensorProto::FLOAT, {}, {0.25}).ints("grid", {1, 1, 2, 2});
  model.initializer("square", TensorProto::INT64, {2, 2}, {0, 1, 1, 0}).initializer("row", TensorProto::INT64, {2, 1}, {1, 0});
  model.initializer("bytes", TensorProto::INT8, {2, 2}, {1, 2, 3, 4});
  model.initializer("cube", TensorProto::INT64, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  return model.ints("i", {0, 1}).ints("one", {1}).ints("pads", {0, 1, 1, 0}).ints("shape", {2, 2}).ints("two", {2}).ints("three", {3});
}

std::vector<std::string> walkedOps() {
  std::vector<std::string> ops = frontend::supportedOps();
  // Collectives need a mesh; collective_test.cpp has them. BitShift of integers with a sign began with opset 28. Upsample ended with opset
  // 9 and Scatter with 10; resizing_test.cpp and indexing_test.cpp have them. Nodes that stand for others take graphs and sequences;
  // control_flow_test.cpp and sequence_test.cpp have them.
  auto isElsewhere = [](const std::string &op) {
    return op.find('.') != std::string::npos || op == "BitShift" || op == "Upsample" || op == "Scatter" || frontend::findOp(op)->expand;
  };
  ops.erase(std::remove_if(ops.begin(), ops.end(), isElsewhere), ops.end());
  return ops;
}

Call callOf(const std::string &op) {
  static const std::map<std::string, Call> calls = {
      {"Add", {{"x", "y"}}},
      {"AffineGrid", {{"theta", "grid"}}},
      {"And", {{"b", "b"}}},
      {"Attention", {{"heads", "heads", "heads"}}},
      {"AveragePool", {{"signal"}, {{"kernel_shape", std::vector<int64_t>{2}}}}},
      {"BatchNormalization", {{"x", "v", "v", "v", "v"}}},
      {"BitCast", {{"i"}, {{"to", int64_t(TensorProto::UINT64)}}}},
      {"BitwiseAnd", {{"i", "shape"}}},
      {"BitwiseNot", {{"i"}}},
      {"BitwiseOr", {{"i", "shape"}}},
      {"BitwiseXor", {{"i", "shape"}}},
      {"BlackmanWindow", {{"one"}}},
      {"Cast", {{"x"}, {{"to", int64_t(TensorProto::INT32)}}}},
      {"CastLike", {{"x", "i"}}},
      {"CenterCropPad", {{"x", "shape"}}},
      {"Col2Im", {{"signal", "three", "two"}}},
      {"Compress", {{"x", "mask"}}},
      {"CausalConvWithState", {{"signal", "kernel"}}},
      {"Concat", {{"x", "y"}, {{"axis", int64_t(0)}}}},
      {"Constant", {{}, {{"value_float", 1.0f}}}},
      {"ConstantOfShape", {{"shape"}}},
      {"Conv", {{"signal", "signal"}}},
      {"ConvTranspose", {{"signal", "signal"}}},
      {"CumProd", {{"x", "one"}}},
      {"CumSum", {{"x", "one"}}},
      {"DequantizeLinear", {{"bytes", "quarter"}}},
      {"DepthToSpace", {{"image"}, {{"blocksize", int64_t(2)}}}},
      {"DFT", {{"signal"}}},
      {"Div", {{"x", "y"}}},
      {"Einsum", {{"x", "y"}, {{"equation", std::string("ij,jk->ik")}}}},
      {"Equal", {{"x", "y"}}},
      {"Expand", {{"x", "shape"}}},
      {"GRU", {{"signal", "three gates", "three gates"}}},
      {"Gather", {{"x", "i"}}},
      {"GatherElements", {{"x", "square"}}},
      {"GatherND", {{"x", "i"}}},
      {"Gemm", {{"x", "y"}}},
      {"GlobalAveragePool", {{"signal"}}},
      {"GlobalLpPool", {{"signal"}}},
      {"GlobalMaxPool", {{"signal"}}},
      {"Greater", {{"x", "y"}}},
      {"GreaterOrEqual", {{"x", "y"}}},
      {"GridSample", {{"heads", "heads"}}},
      {"GroupNormalization", {{"x", "v", "v"}, {{"num_groups", int64_t(2)}}}},
      {"HammingWindow", {{"one"}}},
      {"HannWindow", {{"one"}}},
      {"InstanceNormalization", {{"signal", "v", "v"}}},
      {"LRN", {{"signal"}, {{"size", int64_t(3)}}}},
      {"LSTM", {{"signal", "four gates", "four gates"}}},
      {"LayerNormalization", {{"x", "v"}}},
      {"Less", {{"x", "y"}}},
      {"LessOrEqual", {{"x", "y"}}},
      {"LinearAttention",
       {{"signal", "signal", "signal", "", "signal", "signal"}, {{"q_num_heads", int64_t(2)}, {"kv_num_heads", int64_t(2)}}}},
      {"LpPool", {{"signal"}, {{"kernel_shape", std::vector<int64_t>{2}}}}},
      {"MatMul", {{"x", "y"}}},
      {"MaxPool", {{"signal"}, {{"kernel_shape", std::vector<int64_t>{2}}}}},
      {"MaxUnpool", {{"signal", "cube"}, {{"kernel_shape", std::vector<int64_t>{1}}}}},
      {"MelWeightMatrix", {{"one", "one", "one", "quarter", "quarter"}}},
      {"MeanVarianceNormalization", {{"x"}, {{"axes", std::vector<int64_t>{0}}}}},
      {"Mod", {{"i", "shape"}}},
      {"Mul", {{"x", "y"}}},
      {"NonMaxSuppression", {{"boxes", "scores"}}},
      {"NegativeLogLikelihoodLoss", {{"x", "i"}}},
      {"NonZero", {{"i"}}},
      {"Not", {{"b"}}},
      {"OneHot", {{"i", "one", "v"}}},
      {"Or", {{"b", "b"}}},
      {"PRelu", {{"x", "y"}}},
      {"Pad", {{"x", "pads"}}},
      {"Pow", {{"x", "y"}}},
      {"RMSNormalization", {{"x", "v"}}},
      {"RNN", {{"signal", "signal", "signal"}, {{"direction", std::string("bidirectional")}}}},
      {"RandomNormal", {{}, {{"shape", std::vector<int64_t>{2, 2}}}}},
      {"RandomUniform", {{}, {{"shape", std::vector<int64_t>{2, 2}}}}},
      {"QuantizeLinear", {{"x", "quarter"}}},
      {"Range", {{"one", "one", "one"}}},
      {"Reshape", {{"x", "shape"}}},
      {"Resize", {{"x", "", "", "shape"}}},
      {"ReverseSequence", {{"x", "i"}}},
      {"RoiAlign", {{"heads", "regions", "i"}, {{"sampling_ratio", int64_t(1)}}}},
      {"RotaryEmbedding", {{"heads", "table", "table"}}},
      {"STFT", {{"signal", "one"}, {{"onesided", int64_t(0)}}}},
      {"ScatterElements", {{"x", "square", "y"}}},
      {"ScatterND", {{"v", "row", "v"}}},
      {"Slice", {{"x", "i", "shape"}}},
      {"SpaceToDepth", {{"image"}, {{"blocksize", int64_t(2)}}}},
      {"SoftmaxCrossEntropyLoss", {{"x", "i"}}},
      {"Sub", {{"x", "y"}}},
      {"TensorScatter", {{"signal", "signal", "i"}}},
      {"Tile", {{"x", "shape"}}},
      {"SwiGLU", {{"x", "y"}}},
      {"TopK", {{"x", "one"}}},
      {"Unique", {{"i"}}},
      {"Unsqueeze", {{"x", "one"}}},
      {"Where", {{"b", "x", "y"}}},
      {"Xor", {{"b", "b"}}},
  };
  auto found = calls.find(op);
  return found == calls.end() ? Call() : found->second;
}

// Whether an error is a line for a user: no text of a verifier, of a container or of protobuf.
bool isPlain(const std::string &error) {
  if (error.rfind("no error", 0) == 0) {
    return true;
  }
  bool plain = error.rfind("model.onnx: ", 0) == 0 && error.find('\n') == std::string::npos;
  for (const char *foreign : {"'nn.", "'func.", "op operand", "op result", "op requires", "failed to", "max_size", "std::", "bad_alloc"}) {
    plain = plain && error.find(foreign) == std::string::npos;
  }
  return plain;
}

// The error of a model with one node more, whose first result is the output.
std::string nodeError(OnnxModel model, const std::string &op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                      std::vector<Attribute> attributes = {}) {
  std::string result = outputs.empty() || outputs[0].empty() ? "x" : outputs[0];
  return importError(model.node(op, std::move(inputs), std::move(outputs), std::move(attributes), "n").output(result));
}

} // namespace

// The walks below start from calls that are good: an op that none of them reaches would not be tested.
TEST_CASE("hostile: every op has a good call", "[frontend][hostile]") {
  for (const std::string &op : walkedOps()) {
    INFO(op);
    Call call = callOf(op);
    CHECK_THAT(nodeError(world(), op, call.inputs, {"out"}, call.attributes), Catch::StartsWith("no error"));
  }
}

// Every op with every element type in the place of each input, as a value and as a constant.
TEST_CASE("hostile: every op with every element type", "[frontend][hostile]") {
  const int32_t types[] = {TensorProto::FLOAT, TensorProto::DOUBLE, TensorProto::FLOAT16, TensorProto::BFLOAT16,
                           TensorProto::INT32, TensorProto::INT64,  TensorProto::BOOL};
  for (const std::string &op : walkedOps()) {
    for (int32_t type : types) {
      for (bool isConstant : {false, true}) {
        for (std::vector<int64_t> shape : {std::vector<int64_t>{2, 2}, std::vector<int64_t>{}}) {
          OnnxModel model = world();
          if (isConstant) { // Constant, since initializers of floats are parameters
            size_t count = shape.empty() ? 1 : 4;
            model.node("Constant", {}, {"t"}, {{"value", tensorProto("", type, shape, std::vector<double>(count, 1))}});
          } else {
            model.input("raw", std::vector<Dim>(shape.begin(), shape.end())).node("Cast", {"raw"}, {"t"}, {{"to", int64_t(type)}});
          }
          model.node("Cast", {"t"}, {"t32"}, {{"to", int64_t(TensorProto::FLOAT)}}).output("t32");
          Call call = callOf(op);
          for (size_t place = 0; place <= call.inputs.size(); ++place) { // the last: all of them
            std::vector<std::string> inputs = call.inputs;
            place < inputs.size() ? void(inputs[place] = "t") : std::fill(inputs.begin(), inputs.end(), "t");
            OnnxModel casted = model;
            casted.node(op, inputs, {"out"}, call.attributes, "n").node("Cast", {"out"}, {"end"}, {{"to", int64_t(TensorProto::FLOAT)}});
            std::string error = importError(casted.output("end"));
            INFO(op << " input " << place << " type " << type << (isConstant ? " constant" : " value") << ": " << error);
            CHECK(isPlain(error));
          }
        }
      }
    }
  }
}

TEST_CASE("hostile: what ops take is said in words of ONNX", "[frontend][hostile]") {
  OnnxModel ints = OnnxModel(17).input("x", {2}, TensorProto::INT32).input("b", {2}, TensorProto::BOOL);
  CHECK(nodeError(ints, "Relu", {"x"}, {"y"}) ==
        "model.onnx: node \"n\" (Relu, opset 17): input 0 is a tensor of i32, which the op does not take; its inputs are floats");
  CHECK_THAT(nodeError(ints, "ReduceSum", {"b"}, {"y"}),
             contains("input 0 is a tensor of bool, which the op does not take; its inputs are numbers"));
  CHECK_THAT(nodeError(ints, "And", {"x", "x"}, {"y"}),
             contains("input 0 is a tensor of i32, which the op does not take; its inputs are bools"));
  CHECK_THAT(nodeError(ints, "HardSigmoid", {"x"}, {"y"}), contains("its inputs are floats")); // 0.2 x of integers would be 0
}

// Nodes that lack what they need, in every place.
TEST_CASE("hostile: every op without inputs and outputs", "[frontend][hostile]") {
  for (const std::string &op : walkedOps()) {
    Call call = callOf(op);
    for (const std::vector<std::string> &outputs : {std::vector<std::string>{}, {""}, {"", ""}}) {
      std::string error = nodeError(world(), op, call.inputs, outputs, call.attributes);
      CHECK(error == "model.onnx: node \"n\" (" + op + ", opset 28): has no output");
    }
    for (size_t place = 0; place <= call.inputs.size(); ++place) {
      std::vector<std::string> fewer(call.inputs.begin(), call.inputs.begin() + place), unnamed = call.inputs;
      std::fill(unnamed.begin() + place, unnamed.end(), "");
      for (const auto &inputs : {fewer, unnamed}) {
        std::string error = nodeError(world(), op, inputs, {"out"}, call.attributes);
        INFO(op << " with " << place << " inputs: " << error);
        CHECK(isPlain(error));
        CHECK((place > 0 || call.inputs.empty() || error.rfind("no error", 0) != 0));
      }
    }
  }
  CHECK_THAT(nodeError(world(), "Split", {"x"}, {}), contains("node \"n\" (Split, opset 28): has no output"));
}

TEST_CASE("hostile: inputs that an op does not have", "[frontend][hostile]") {
  const std::vector<std::string> anyNumber = {"Concat", "Einsum", "Max", "Mean", "Min", "Sum"};
  for (const std::string &op : walkedOps()) {
    Call call = callOf(op);
    call.inputs.resize(8);
    call.inputs.push_back("shape"); // the ninth, with unnamed ones before
    std::string error = nodeError(world(), op, call.inputs, {"out"}, call.attributes);
    INFO(op << ": " << error);
    if (std::find(anyNumber.begin(), anyNumber.end(), op) == anyNumber.end()) {
      CHECK(error == "model.onnx: node \"n\" (" + op + ", opset 28): input 8 \"shape\" is not supported");
    } else {
      CHECK(isPlain(error));
    }
  }
  // An input of a later opset is none of an earlier one.
  OnnxModel old = OnnxModel(11).input("x", {2, 2}).ints("axes", {0});
  CHECK_THAT(nodeError(old, "ReduceMean", {"x", "axes"}, {"y"}), contains("input 1 \"axes\" is not supported"));
  // Folded nodes are no exception.
  CHECK_THAT(nodeError(world(), "Shape", {"x", "i"}, {"out"}), contains("input 1 \"i\" is not supported"));
  CHECK_THAT(nodeError(world(), "Add", {"i", "i", "i"}, {"out"}), contains("input 2 \"i\" is not supported"));
}

// Every attribute that some op has, with every type and with odd values.
TEST_CASE("hostile: every op with odd attributes", "[frontend][hostile]") {
  const std::vector<std::string> names = {"alpha",
                                          "allowzero",
                                          "approximate",
                                          "axes",
                                          "axis",
                                          "batch_axis",
                                          "beta",
                                          "blocksize",
                                          "dtype",
                                          "ends",
                                          "equation",
                                          "epsilon",
                                          "ignore_index",
                                          "k",
                                          "keepdims",
                                          "max",
                                          "min",
                                          "mode",
                                          "noop_with_empty_axes",
                                          "num_outputs",
                                          "output_datatype",
                                          "pads",
                                          "perm",
                                          "reduction",
                                          "saturate",
                                          "split",
                                          "start",
                                          "starts",
                                          "end",
                                          "stash_type",
                                          "strides",
                                          "time_axis",
                                          "to",
                                          "transA",
                                          "upper",
                                          "value",
                                          "value_floats",
                                          "value_int",
                                          "value_ints",
                                          "gamma",
                                          "seed",
                                          "ratio",
                                          "dtype",
                                          "padding_mode",
                                          "output_height",
                                          "sampling_ratio",
                                          "spatial_scale",
                                          "output_datatype",
                                          "onesided",
                                          "mode",
                                          "inverse",
                                          "align_corners",
                                          "is_causal",
                                          "kv_num_heads",
                                          "left_window_size",
                                          "low",
                                          "num_heads",
                                          "qk_matmul_output_mode",
                                          "right_window_size",
                                          "rotary_embedding_dim",
                                          "sample_size",
                                          "scale",
                                          "shape",
                                          "softcap",
                                          "softmax_precision",
                                          "update_rule",
                                          ""};
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  const std::vector<Attribute> values = {{"", int64_t(0)},
                                         {"", int64_t(-1)},
                                         {"", kLeast},
                                         {"", kMost},
                                         {"", 0.0f},
                                         {"", std::numeric_limits<float>::quiet_NaN()},
                                         {"", std::string("none\0x", 6)},
                                         {"", std::vector<int64_t>{}},
                                         {"", std::vector<int64_t>{0, 1}},
                                         {"", std::vector<int64_t>{kLeast, kMost}},
                                         {"", std::vector<float>{1}},
                                         {"", std::vector<std::string>{""}},
                                         {"", TensorProto()},
                                         {"", tensorProto("", TensorProto::INT64, {1}, {1})}};
  size_t asked = 0;
  for (const std::string &op : walkedOps()) {
    Call call = callOf(op);
    for (const std::string &name : names) {
      for (Attribute value : values) {
        value.name = name;
        std::vector<Attribute> attributes = call.attributes;
        attributes.insert(attributes.begin(), value);
        std::string error = nodeError(world(), op, call.inputs, {"out"}, attributes);
        INFO(op << " with " << name << ": " << error);
        CHECK(isPlain(error));
        if (error.find("attribute \"" + name + "\" is not supported") != std::string::npos) {
          break; // the op does not ask for it
        }
        ++asked;
      }
    }
    OnnxModel untyped = world();
    untyped.node(op, call.inputs, {"out"}, call.attributes).output("out");
    untyped.proto.mutable_graph()->mutable_node(0)->add_attribute()->set_name("axis");
    CHECK(isPlain(importError(untyped)));
  }
  CHECK(asked > 500);
}

namespace {

constexpr const char *kTooLarge = "bytes, the most that a tensor may have";

// x (2^20, 1), y (1, 2^20), z (2^20, 1, 1), and their bool twins; any two of them together are 2^40 elements, all three 2^60.
OnnxModel wide() {
  const int64_t n = 1 << 20;
  OnnxModel model = OnnxModel(kOpset).input("x", {n, 1, 1}).input("y", {1, n, 1}).input("z", {1, 1, n});
  model.input("bx", {n, 1, 1}, TensorProto::BOOL).input("by", {1, n, 1}, TensorProto::BOOL).input("bz", {1, 1, n}, TensorProto::BOOL);
  return model.node("Add", {"x", "y"}, {"xy"}).node("And", {"bx", "by"}, {"bxy"}).ints("far", {1 << 20, 1 << 20, 1 << 20});
}

} // namespace

// 2^60 elements: every op that broadcasts.
TEST_CASE("hostile: sizes after a broadcast are checked", "[frontend][hostile]") {
  for (const char *op :
       {"Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"}) {
    INFO(op);
    CHECK_THAT(nodeError(wide(), op, {"xy", "z"}, {"out"}), contains(std::string("node \"n\" (") + op) && contains(kTooLarge));
  }
  for (const char *op : {"And", "Or", "Xor"}) {
    INFO(op);
    CHECK_THAT(nodeError(wide(), op, {"bxy", "bz"}, {"out"}), contains(kTooLarge));
  }
  CHECK_THAT(nodeError(wide(), "Where", {"bxy", "z", "z"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(wide(), "Where", {"bx", "y", "z"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(wide(), "Expand", {"x", "far"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(wide(), "PRelu", {"xy", "z"}, {"out"}), contains("does not fit"));
}

// And every op that grows in another way. Each size fits into 64 bits before the last step.
TEST_CASE("hostile: sizes of what ops make are checked", "[frontend][hostile]") {
  const int64_t n = int64_t{1} << 32, most = int64_t{1} << 40;
  OnnxModel model = OnnxModel(kOpset).input("column", {n, 1}).input("row", {1, n}).input("vector", {most}).input("table", {2, n});
  model.input("indices", {n}, TensorProto::INT64).input("batch", {n, 1, 1}).input("matrix", {1, n}).input("empty", {most, 0});
  model.node("ConstantOfShape", {"sizes"}, {"zeros"}, {{"value", tensorProto("", TensorProto::INT64, {1}, {0})}});
  model.ints("sizes", {static_cast<double>(n)});
  CHECK_THAT(nodeError(model, "MatMul", {"column", "row"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(model, "MatMul", {"batch", "matrix"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(model, "Gemm", {"column", "row"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(model, "Gather", {"table", "indices"}, {"out"}, {{"axis", int64_t(0)}}), contains(kTooLarge));
  CHECK_THAT(nodeError(model, "Gather", {"table", "zeros"}, {"out"}, {{"axis", int64_t(0)}}), contains("handled at import"));
  CHECK_THAT(nodeError(model, "Concat", std::vector<std::string>(17, "vector"), {"out"}, {{"axis", int64_t(0)}}), contains(kTooLarge));
  CHECK_THAT(nodeError(model, "Concat", std::vector<std::string>(65, "empty"), {"out"}, {{"axis", int64_t(0)}}), contains(kTooLarge));
  model.ints("huge", {9e18, 9e18, 0}).ints("open", {9e18, -1});
  CHECK_THAT(nodeError(model, "Reshape", {"empty", "huge"}, {"out"}, {{"allowzero", int64_t(1)}}),
             contains("more elements than can be counted"));
  CHECK_THAT(nodeError(model, "Reshape", {"empty", "open"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(nodeError(model, "ConstantOfShape", {"huge"}, {"out"}), contains(kTooLarge));
  CHECK_THAT(importError(OnnxModel(17).input("x", {most, most}).node("Relu", {"x"}, {"y"}).output("y")),
             contains("input \"x\": ") && contains(kTooLarge));
  CHECK_THAT(importError(OnnxModel(17).input("x", {0, most, most}).node("Relu", {"x"}, {"y"}).output("y")), contains(kTooLarge));
  CHECK_THAT(importError(OnnxModel(17).initializer("w", TensorProto::FLOAT, {most, most}, {}).node("Relu", {"w"}, {"y"}).output("y")),
             contains("initializer \"w\": ") && contains(kTooLarge));
  // The largest tensor there is goes through.
  OnnxModel largest = OnnxModel(17).input("x", {int64_t{1} << 44}).node("Relu", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(largest), contains("tensor<17592186044416xf32>"));
}

// A few bytes that ask for gigabytes. What is computed at import is paid for from one account, so a chain is no way around it; what it does
// not cover is computed by the program.
TEST_CASE("hostile: what is folded at import is bounded", "[frontend][hostile]") {
  auto zeros = [](double count) {
    OnnxModel model = OnnxModel(kOpset).ints("sizes", {count});
    return model.node("ConstantOfShape", {"sizes"}, {"c"}, {{"value", tensorProto("", TensorProto::INT64, {1}, {0})}});
  };
  auto remains = [](const std::string &text, const char *op) {
    return text.rfind("no error", 0) == 0 && text.find(op) != std::string::npos;
  };
  OnnxModel model = zeros(1 << 24);
  CHECK(remains(nodeError(model, "Concat", std::vector<std::string>(64, "c"), {"out"}, {{"axis", int64_t(0)}}), "nn.concat"));
  OnnxModel rows = zeros(1 << 14).ints("row", {1, 1 << 14}).node("Reshape", {"c", "row"}, {"r"});
  CHECK(remains(nodeError(rows, "Gather", {"r", "c"}, {"out"}, {{"axis", int64_t(0)}}), "nn.gather"));
  CHECK_FALSE(remains(nodeError(zeros(1 << 20), "Gather", {"c", "c"}, {"out"}, {{"axis", int64_t(0)}}), "nn.gather"));
  OnnxModel square = zeros(1 << 14).ints("two", {1 << 14, 1 << 14}).node("Expand", {"c", "two"}, {"m"});
  CHECK(remains(nodeError(square, "Neg", {"m"}, {"out"}), "nn.neg"));
  const std::string over = "exceeds the " + std::to_string(frontend::ImportBudget::kElements) + " that are handled at import";
  CHECK_THAT(nodeError(zeros(1 << 27).input("table", {2, 1}), "Gather", {"table", "c"}, {"out"}), contains(over));
  for (const char *op : {"Abs", "Neg"}) { // each node is small enough, their sum is not
    OnnxModel chain = zeros(1 << 22);
    std::string last = "c";
    for (int i = 0; i < 40; ++i) {
      chain.node(op, {last}, {"c" + std::to_string(i)});
      last = "c" + std::to_string(i);
    }
    const std::string text = importError(chain.output(last));
    CHECK(remains(text, op == std::string("Abs") ? "nn.abs" : "nn.neg"));
    CHECK_FALSE(remains(text, "\"c0\"")); // the first ones are computed
  }
  // Of rank 1000 every element costs a thousand steps.
  OnnxModel deep = zeros(1 << 20).ints("shape", std::vector<double>(999, 1)).node("Neg", {"c"}, {"d"});
  CHECK(remains(nodeError(deep, "Expand", {"d", "shape"}, {"out"}), "nn.broadcast"));
  // What has to be known and is not, for that reason, is refused with it.
  OnnxModel needed = zeros(1 << 27).ints("one", {1}).input("x", {1, 1}).node("Neg", {"c"}, {"d"}, {}, "wide");
  CHECK_THAT(nodeError(needed.node("Slice", {"d", "sizes0", "one"}, {"e"}).ints("sizes0", {0}), "Reshape", {"x", "e"}, {"out"}),
             contains("has to be a list of integers known at compile time; node \"wide\" would take more than the ") &&
                 contains(" steps that are taken at import"));
}

TEST_CASE("hostile: opsets", "[frontend][hostile]") {
  auto only = [](const std::string &domain, int64_t version) {
    OnnxModel model = OnnxModel(17).input("x", {1}).node("Relu", {"x"}, {"y"}).output("y");
    model.proto.mutable_opset_import(0)->set_domain(domain);
    model.proto.mutable_opset_import(0)->set_version(version);
    return importError(model);
  };
  CHECK(only("ai.onnx.ml", 3) == "model.onnx: imports the opset of no domain but ai.onnx.ml 3; only models that import one of the default "
                                 "domain, ai.onnx, are supported");
  CHECK_THAT(only("ai.onnx.preview.training", 1), contains("no domain but ai.onnx.preview.training 1;"));
  CHECK(only("", 29) ==
        "model.onnx: opset 29 but the newest known is 28; export the model with that one, or convert it with ONNX's version "
        "converter");
  CHECK_THAT(only("ai.onnx", 28), Catch::StartsWith("no error"));
  CHECK_THAT(only("", std::numeric_limits<int64_t>::max()), contains("the newest known is 28"));
}

TEST_CASE("hostile: outputs that are declared as something else", "[frontend][hostile]") {
  auto declared = [](int32_t type, std::optional<std::vector<Dim>> dims) {
    OnnxModel model = OnnxModel(17).input("x", {4, 2}).node("Relu", {"x"}, {"y"}).output("y");
    OnnxModel other = OnnxModel(17).input("y", dims.value_or(std::vector<Dim>{}), type);
    *model.proto.mutable_graph()->mutable_output(0) = other.proto.graph().input(0);
    if (!dims) {
      model.proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    }
    return importError(model);
  };
  using Dims = std::vector<Dim>;
  for (const std::optional<Dims> &dims :
       {std::optional<Dims>(), std::optional<Dims>(Dims{4, 2}), std::optional<Dims>(Dims{std::string("n"), 2})}) {
    CHECK_THAT(declared(TensorProto::FLOAT, dims), Catch::StartsWith("no error"));
  }
  CHECK(declared(TensorProto::DOUBLE, Dims{4, 2}) ==
        "model.onnx: output \"y\" is declared with elements of f64 but the graph computes [4, 2] of f32");
  for (const Dims &dims : {Dims{4, 2, 1}, Dims{4, 3}}) { // a warning
    CHECK_THAT(declared(TensorProto::FLOAT, dims), Catch::StartsWith("no error"));
  }
  CHECK_THAT(declared(TensorProto::STRING, Dims{4, 2}), contains("element type STRING is not supported"));
  OnnxModel sequence = OnnxModel(17).input("x", {4, 2}).node("Relu", {"x"}, {"y"}).output("y");
  sequence.proto.mutable_graph()->mutable_output(0)->mutable_type()->mutable_sequence_type();
  CHECK_THAT(importError(sequence), contains("output \"y\" is declared as no tensor but the graph computes [4, 2] of f32"));
}

namespace {

// Where a model and its external data lie; gone with the object.
class Folder {
public:
  Folder() { REQUIRE(mkdtemp(path.data())); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/ashlar_test_XXXXXX";

  // The error of a model in `folder` whose parameter w, 4 floats, lies in `location`; the path of the model is left out.
  std::string error(const std::string &location, const std::string &offset = "0", const std::string &length = "16") const {
    OnnxModel model = OnnxModel(17).input("x", {4}).initializer("w", TensorProto::FLOAT, {4}, {});
    TensorProto *tensor = model.proto.mutable_graph()->mutable_initializer(0);
    tensor->set_data_location(TensorProto::EXTERNAL);
    for (auto [key, value] : {std::pair("location", location), std::pair("offset", offset), std::pair("length", length)}) {
      auto *entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    model.node("Add", {"x", "w"}, {"y"}).output("y");
    std::string file = path + "/model/model.onnx";
    std::filesystem::create_directories(path + "/model");
    std::ofstream(file, std::ios::binary) << model.proto.SerializeAsString();
    auto module = frontend::importOnnx(file, {}, &context());
    return module ? "no error" : llvm::toString(module.takeError()).substr(file.size() + 2);
  }
};

} // namespace

TEST_CASE("hostile: external data stays in the model's folder", "[frontend][hostile]") {
  Folder folder;
  std::filesystem::create_directories(folder.path + "/model/below");
  for (const char *file : {"/outside.bin", "/model/inside.bin", "/model/below/deep.bin"}) {
    std::ofstream(folder.path + file, std::ios::binary) << std::string(16, '\0');
  }
  namespace fs = std::filesystem;
  fs::create_symlink("../outside.bin", folder.path + "/model/link.bin");
  fs::create_symlink(folder.path, folder.path + "/model/up");
  fs::create_symlink("inside.bin", folder.path + "/model/within.bin");
  fs::create_symlink(folder.path + "/model/below", folder.path + "/model/same");
  fs::create_symlink("loop.bin", folder.path + "/model/loop.bin");
  fs::create_directories(folder.path + "/model2");
  std::ofstream(folder.path + "/model2/twin.bin", std::ios::binary) << std::string(16, '\0');
  fs::create_symlink("../model2/twin.bin", folder.path + "/model/twin.bin");
  REQUIRE(mkfifo((folder.path + "/model/pipe").c_str(), 0600) == 0);
  for (const char *good : {"inside.bin", "below/deep.bin", "./inside.bin", "within.bin", "same/deep.bin"}) {
    INFO(good);
    CHECK(folder.error(good) == "no error");
  }
  for (const char *bad : {"link.bin", "up/outside.bin", "twin.bin"}) {
    INFO(bad);
    CHECK_THAT(folder.error(bad), Catch::StartsWith("initializer \"w\": external data lies in \"" + std::string(bad) + "\", a link to ") &&
                                      contains("which is not below the model's folder; copy the file there"));
  }
  for (const std::string &bad : {std::string("../outside.bin"), folder.path + "/model/inside.bin", std::string("below/../../outside.bin"),
                                 std::string(), std::string("inside.bin\0x", 12)}) {
    INFO(bad);
    CHECK_THAT(folder.error(bad), contains("which is not below the model's folder"));
  }
  CHECK_THAT(folder.error("pipe"), contains("which is no regular file"));
  CHECK_THAT(folder.error("below"), contains("which is no regular file"));
  CHECK_THAT(folder.error("loop.bin"), contains("cannot be read: too many levels of symbolic links"));
  CHECK_THAT(folder.error("inside.bin", "18446744073709551615"), contains("offset 18446744073709551615 and 16 bytes are needed"));
  CHECK_THAT(folder.error("inside.bin", "18446744073709551616"), contains("which is not a number"));
  CHECK_THAT(folder.error("inside.bin", "-1"), contains("which is not a number"));
  CHECK_THAT(folder.error("inside.bin", "0", "18446744073709551615"), contains("has length 18446744073709551615 but"));
}

// Rules that reach nothing are a slip of the pen.
TEST_CASE("hostile: an init rule that matches nothing", "[frontend][hostile]") {
  OnnxModel model = OnnxModel(17).input("x", {4}).input("w", {4}).initializer("b", TensorProto::FLOAT, {4}, {1, 2, 3, 4});
  model.node("Mul", {"x", "w"}, {"h"}).node("Add", {"h", "b"}, {"y"}).output("y");
  auto rules = [](std::vector<std::string> globs) {
    ImportOptions options;
    options.dataInputs = {"x"};
    for (const std::string &glob : globs) {
      job::Init rule;
      rule.set_match(glob);
      rule.set_fill(0);
      options.init.push_back(rule);
    }
    return options;
  };
  CHECK_THAT(importError(model, rules({"w", "b", "*"})), Catch::StartsWith("no error")); // the last is for what there may be else
  CHECK(importError(model, rules({"w", "bias"})) == "model.onnx: init rule \"bias\": matches no parameter; nearest names: \"b\", \"w\"");
  CHECK(importError(model, rules({"x"})) == "model.onnx: init rule \"x\": matches no parameter; nearest names: \"b\"");
  OnnxModel empty = OnnxModel(17).input("x", {4}).initializer("w", TensorProto::FLOAT, {0, 3}, {}).node("Neg", {"w"}, {"y"}).output("y");
  ImportOptions xavier;
  xavier.init.emplace_back().set_match("w");
  xavier.init.back().mutable_xavier_uniform();
  CHECK_THAT(importError(empty, xavier), contains("init rule \"w\" for parameter \"w\" of rank 2: it has no elements"));
}

// Protobuf logs by itself where a file is broken; its words become part of ours, or are dropped.
TEST_CASE("hostile: protobuf prints nothing", "[frontend][hostile]") {
  job::ProtobufLog log;
  GOOGLE_LOG(ERROR) << "first";
  GOOGLE_LOG(ERROR) << "second";
  CHECK(log.text() == ": first");
}

} // namespace ashlar::test::hostile_test
