// SPDX-License-Identifier: Apache-2.0
//
// Templates of models: filled with the numbers that the model had they are the model again, whatever form its data had.

#include "compiler/frontend/weights/export_template.h"
#include "test/unit/frontend/onnx_model.h"

#include <map>

namespace ashlar::test::export_template_test {

using frontend::ExportTemplate;
using onnx::TensorProto;

namespace {

using Numbers = std::map<std::string, std::string>; // bytes by variable

ExportTemplate templateOf(const OnnxModel &model, const frontend::ImportOptions &options = {},
                          uint64_t mostBytes = frontend::kMostModelBytes) {
  TemporaryFile file(model.proto.SerializeAsString());
  frontend::ImportOptions training = options;
  training.training = true;
  mlir::OwningOpRef<mlir::ModuleOp> module = import(model, training);
  return llvm::cantFail(frontend::makeExportTemplate(file.getPath(), *module, "net", mostBytes));
}

// Puts numbers into the holes; `data` becomes the file beside the model.
onnx::ModelProto fill(const ExportTemplate &made, const Numbers &numbers, std::string &data) {
  std::string text;
  uint64_t taken = 0;
  for (const frontend::ExportHole &hole : made.holes) {
    text += made.text.substr(taken, hole.offset - taken);
    taken = hole.offset;
    INFO(hole.variable);
    REQUIRE(numbers.at(hole.variable).size() == hole.bytes);
    (made.dataFile.empty() ? text : data) += numbers.at(hole.variable);
  }
  onnx::ModelProto model;
  REQUIRE(model.ParseFromString(text + made.text.substr(taken)));
  return model;
}

std::string floats(std::vector<float> values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
}

const TensorProto &initializerOf(const onnx::ModelProto &model, const std::string &name) {
  for (const TensorProto &tensor : model.graph().initializer()) {
    if (tensor.name() == name) {
      return tensor;
    }
  }
  FAIL("no initializer " << name);
  return model.graph().initializer(0);
}

// y = x w + b, x (2, 2); a constant that is no parameter behind it.
OnnxModel layer() {
  OnnxModel model(17);
  model.input("x", {2, 2})
      .initializer("w", TensorProto::FLOAT, {2, 3}, {1, 2, 3, 4, 5, 6})
      .initializer("b", TensorProto::FLOAT, {3}, {7, 8, 9});
  model.node("MatMul", {"x", "w"}, {"h"}).node("Add", {"h", "b"}, {"s"}).ints("shape", {3, 2}).node("Reshape", {"s", "shape"}, {"y"});
  model.output("y");
  model.proto.mutable_graph()->mutable_initializer(0)->set_doc_string("kept");
  model.proto.set_producer_name("behind the graph");
  return model;
}

} // namespace

TEST_CASE("export: all but the numbers of variables stays", "[frontend][export]") {
  OnnxModel model = layer();
  ExportTemplate made = templateOf(model);
  CHECK(made.refusal.empty());
  CHECK(made.dataFile.empty());
  REQUIRE(made.holes.size() == 2);
  CHECK((made.holes[0].type.isF32() && made.holes[0].bytes == 24 && !made.holes[0].isTransposed));
  std::string data;
  onnx::ModelProto filled = fill(made, {{"w", floats({6, 5, 4, 3, 2, 1})}, {"b", floats({-1, -2, -3})}}, data);
  CHECK(data.empty());
  CHECK(initializerOf(filled, "w").raw_data() == floats({6, 5, 4, 3, 2, 1}));
  CHECK(initializerOf(filled, "w").float_data_size() == 0); // nothing of the first values is left
  CHECK(initializerOf(filled, "b").raw_data() == floats({-1, -2, -3}));
  for (const char *name : {"w", "b"}) { // what else there is, in its order
    for (onnx::ModelProto *each : {&filled, &model.proto}) {
      auto *tensor = const_cast<TensorProto *>(&initializerOf(*each, name));
      tensor->clear_raw_data();
      tensor->clear_float_data();
    }
  }
  CHECK(filled.SerializeAsString() == model.proto.SerializeAsString());
}

TEST_CASE("export: a model that is too large has its numbers in a file beside it", "[frontend][export]") {
  ExportTemplate made = templateOf(layer(), {}, /*mostBytes=*/64);
  CHECK(made.dataFile == "net.data");
  std::string data;
  onnx::ModelProto filled = fill(made, {{"w", floats({6, 5, 4, 3, 2, 1})}, {"b", floats({-1, -2, -3})}}, data);
  CHECK(data == floats({6, 5, 4, 3, 2, 1, -1, -2, -3}));
  const TensorProto &bias = initializerOf(filled, "b");
  CHECK(bias.data_location() == TensorProto::EXTERNAL);
  std::map<std::string, std::string> entries;
  for (const onnx::StringStringEntryProto &entry : bias.external_data()) {
    entries[entry.key()] = entry.value();
  }
  CHECK(entries == std::map<std::string, std::string>{{"location", "net.data"}, {"offset", "24"}, {"length", "12"}});
  CHECK(bias.raw_data().empty());
}

TEST_CASE("export: narrow types, tied weights and parameters without data", "[frontend][export]") {
  OnnxModel narrow(17);
  narrow.input("x", {2, 2}, TensorProto::FLOAT16).initializer("w", TensorProto::FLOAT16, {2, 2}, {1, 2, 3, 4});
  narrow.node("MatMul", {"x", "w"}, {"y"}).output("y");
  ExportTemplate made = templateOf(narrow);
  REQUIRE(made.holes.size() == 1);
  CHECK((made.holes[0].type.isF16() && made.holes[0].bytes == 8));

  // The second weight is the first one, transposed.
  std::vector<double> first(40 * 32), second(32 * 40);
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<double>(i * 7919 % 1009) / 1024;
    second[i % 32 * 40 + i / 32] = first[i];
  }
  OnnxModel tied(18);
  tied.input("tokens", {2}, TensorProto::INT64).initializer("wte", TensorProto::FLOAT, {40, 32}, first);
  tied.initializer("head", TensorProto::FLOAT, {32, 40}, second);
  tied.node("Gather", {"wte", "tokens"}, {"h"}).node("MatMul", {"h", "head"}, {"y"}).output("y");
  frontend::ImportOptions options;
  options.ties["head"] = "wte";
  made = templateOf(tied, options);
  REQUIRE(made.holes.size() == 2);
  CHECK((made.holes[0].variable == "wte" && !made.holes[0].isTransposed));
  CHECK((made.holes[1].variable == "wte" && made.holes[1].isTransposed));

  // An input that the job makes a parameter becomes an initializer, too.
  OnnxModel input(17);
  input.input("x", {2, 2}).input("w", {2, 3}).node("MatMul", {"x", "w"}, {"y"}).output("y");
  frontend::ImportOptions init;
  job::Init rule;
  rule.set_match("w");
  rule.set_fill(1);
  init.init.push_back(rule);
  made = templateOf(input, init);
  REQUIRE(made.holes.size() == 1);
  std::string data;
  onnx::ModelProto filled = fill(made, {{"w", floats({1, 2, 3, 4, 5, 6})}}, data);
  const TensorProto &weight = initializerOf(filled, "w");
  CHECK((weight.dims_size() == 2 && weight.dims(0) == 2 && weight.dims(1) == 3 && weight.data_type() == TensorProto::FLOAT));
  CHECK(weight.raw_data() == floats({1, 2, 3, 4, 5, 6}));
  CHECK(filled.graph().input_size() == 2);
}

} // namespace ashlar::test::export_template_test
