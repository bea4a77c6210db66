// SPDX-License-Identifier: Apache-2.0
//
// The module around the ops: parameters, names, locations, the batch, external data, first values, and every kind of broken model.

#include "test/unit/frontend/onnx_model.h"

#include "compiler/frontend/registry.h"
#include "compiler/frontend/weights/init_rules.h"
#include "compiler/reference/interpreter.h"
#include "dialects/nn/nn.h"
#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/write_model.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

namespace ashlar::test::import_test {

using frontend::ImportOptions;
using onnx::TensorProto;

namespace {

// y = relu(x W^T + b), W (3, 2).
OnnxModel dense(std::vector<Dim> input = {std::string("batch"), 2}) {
  OnnxModel model = OnnxModel(17).input("x", std::move(input));
  model.initializer("fc.weight", TensorProto::FLOAT, {3, 2}, {1, 2, 3, 4, 5, 6}).initializer("fc.bias", TensorProto::FLOAT, {3}, {1, 1, 1});
  model.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"h"}, {{"transB", int64_t(1)}}, "/layer1/fc").node("Relu", {"h"}, {"y"});
  return model.output("y");
}

ImportOptions withBatch(int64_t batch) {
  ImportOptions options;
  options.globalBatch = batch;
  return options;
}

job::Init initRule(const std::string &match, std::function<void(job::Init &)> set) {
  job::Init rule;
  rule.set_match(match);
  set(rule);
  return rule;
}

std::string importFileError(const std::string &contents) {
  TemporaryFile file(contents);
  auto module = frontend::importOnnx(file.getPath(), {}, &context());
  REQUIRE(!module);
  std::string message = llvm::toString(module.takeError());
  return message.substr(message.rfind(".onnx: ") + 1);
}

} // namespace

// The whole module of a dense layer, as later passes expect it.
TEST_CASE("import makes variables, names and paths", "[frontend]") {
  auto module = import(dense(), withBatch(4));
  std::string text = print(*module);
  CHECK_THAT(text, contains("module @test"));
  CHECK_THAT(text, contains("nn.variable @fc.weight trainable : tensor<3x2xf32> = dense<"));
  CHECK_THAT(text, contains("nn.variable @fc.bias trainable : tensor<3xf32> = dense<1.000000e+00>"));
  CHECK_THAT(text, contains("func.func @forward(%arg0: tensor<4x2xf32> {nn.name = \"x\"}) -> (tensor<4x3xf32> {nn.name = \"y\"})"));
  CHECK_THAT(text, contains("transpose_b : tensor<4x2xf32>, tensor<3x2xf32> -> tensor<4x3xf32>"));
  std::vector<std::string> paths, outputs;
  module->walk([&](mlir::Operation *op) {
    if (llvm::isa<nn::MatMulOp, nn::ReluOp, nn::ReadOp>(op)) {
      paths.push_back(nn::getPath(op->getLoc()).str());
    }
    if (auto names = op->getAttrOfType<mlir::ArrayAttr>(nn::kOutputsAttr)) {
      outputs.push_back(llvm::cast<mlir::StringAttr>(names[0]).str());
    }
  });
  CHECK(paths == std::vector<std::string>{"fc.weight", "layer1/fc", "fc.bias", "Relu_1"});
  CHECK(outputs == std::vector<std::string>{"h", "y"});
  CHECK(holds(evaluate(dense({1, 2}), {f32({1, 2}, {1, -1})})[0], {1, 3}, {0, 0, 0}));
  CHECK(holds(evaluate(dense({1, 2}), {f32({1, 2}, {1, 1})})[0], {1, 3}, {4, 8, 12}));
}

// Only float tensors with a shape are parameters; the rest are constants, and what nothing reads leaves no trace.
TEST_CASE("import tells parameters from constants", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2}).initializer("scale", TensorProto::FLOAT, {}, {3}).ints("unused", {1});
  model.initializer("unused.weight", TensorProto::FLOAT, {2}, {1, 2}).node("Mul", {"x", "scale"}, {"y"}).output("y");
  std::string text = print(*import(model));
  CHECK(text.find("nn.variable") == std::string::npos);
  CHECK(text.find("unused") == std::string::npos);
  CHECK_THAT(text, contains("nn.constant dense<3.000000e+00> : tensor<f32>"));
}

// A parameter that several nodes read is read once.
TEST_CASE("import shares parameters", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2}).initializer("w", TensorProto::FLOAT, {2}, {1, 2}).node("Identity", {"w"}, {"v"});
  std::string text = print(*import(model.node("Mul", {"x", "w"}, {"h"}).node("Add", {"h", "v"}, {"y"}).output("y")));
  CHECK(text.find("nn.read") == text.rfind("nn.read"));
  CHECK(text.find("nn.variable") == text.rfind("nn.variable"));
}

// Nodes that compute nothing leave their results' names: rules and the loss may use them.
TEST_CASE("import keeps every name of a tensor", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2}).node("Relu", {"x"}, {"a"}).node("Identity", {"a"}, {"b"}).node("Identity", {"b"}, {"c"});
  CHECK_THAT(print(*import(model.node("Tanh", {"c"}, {"y"}).output("y"))),
             contains("nn.relu %arg0 {nn.aliases = [\"b\", \"c\"], nn.outputs = [\"a\"]}"));
}

TEST_CASE("import fixes the symbolic batch", "[frontend]") {
  CHECK(importError(dense()) ==
        "model.onnx: input \"x\": dim 0 (\"batch\") has no size; give the batch as global_batch in the job file, or "
        "by --batch");
  CHECK_THAT(importError(dense({std::string("batch"), std::string("features")}), withBatch(4)),
             contains("input \"x\": dim 1 (\"features\") has no size; only the first may be open, add dims { name: \"features\" size: 128 "
                      "}, or another size, to the job"));
  OnnxModel open = dense({std::string("batch"), std::string("features")});
  ImportOptions sized = withBatch(4);
  sized.dims["features"] = 2;
  CHECK_THAT(print(*import(open, sized)), contains("%arg0: tensor<4x2xf32>"));
  sized.dims["rows"] = 2;
  CHECK(importError(open, sized) == "model.onnx: dims \"rows\" names no symbolic dim of an input; there are \"batch\", \"features\"");
  sized.dims.erase("rows");
  sized.dims["batch"] = 8;
  CHECK(importError(open, sized) == "model.onnx: input \"x\": dims gives its first dim, \"batch\", the size 8 but global_batch is 4; leave "
                                    "it out of dims in the job");
  CHECK_THAT(importError(dense({32, 2}), withBatch(256)),
             contains("input \"x\" has the fixed first dim 32 but global_batch is 256; export the model with a symbolic batch or set "
                      "global_batch to 32"));
  CHECK_THAT(print(*import(dense({32, 2}), withBatch(32))), contains("%arg0: tensor<32x2xf32>"));
  CHECK_THAT(importError(dense({-2, 2})), contains("input \"x\": dim -2 is not a possible size"));
  CHECK_THAT(print(*import(dense({-1, 2}), withBatch(4))), contains("%arg0: tensor<4x2xf32>"));
  // Dims that are no names mean nothing elsewhere.
  for (const Dim &dim : {Dim("?"), Dim(""), Dim(-1), Dim("None")}) {
    ImportOptions placed = withBatch(4);
    CHECK_THAT(importError(dense({dim, dim}), placed), contains("add dims { input: \"x\" dim: 1 size: 128 }, or another size, to the job"));
    placed.inputDims[{"x", 1}] = 2;
    CHECK_THAT(print(*import(dense({dim, dim}), placed)), contains("%arg0: tensor<4x2xf32>"));
  }
  // The name of the batch means the batch wherever it stands.
  OnnxModel square = OnnxModel(17).input("x", {std::string("n"), std::string("n")}).node("Relu", {"x"}, {"y"}).output("y");
  CHECK_THAT(print(*import(square, withBatch(4))), contains("%arg0: tensor<4x4xf32>"));
}

// Every element type, as typed lists and as raw bytes.
TEST_CASE("import reads tensors of every element type", "[frontend]") {
  auto constant = [](TensorProto tensor) {
    ImportOptions options;
    options.training = true; // else an output of bf16 would be refused
    return evaluate(OnnxModel(17).node("Constant", {}, {"y"}, {{"value", tensor}}).output("y"), {}, options)[0];
  };
  CHECK(holds(constant(tensorProto("", TensorProto::DOUBLE, {2}, {1.5, -2})), {2}, {1.5, -2}));
  CHECK(holds(constant(tensorProto("", TensorProto::INT32, {2}, {1, -2})), {2}, {1, -2}));
  CHECK(holds(constant(tensorProto("", TensorProto::INT64, {2}, {1, -2})), {2}, {1, -2}));
  CHECK(holds(constant(tensorProto("", TensorProto::FLOAT16, {2}, {0x3E00, 0xC000})), {2}, {1.5, -2}));
  CHECK(holds(constant(tensorProto("", TensorProto::BFLOAT16, {2}, {0x3FC0, 0xC000})), {2}, {1.5, -2}));
  CHECK(holds(constant(tensorProto("", TensorProto::BOOL, {2}, {1, 0})), {2}, {1, 0}));
  TensorProto raw = tensorProto("", TensorProto::FLOAT, {2}, {});
  raw.set_raw_data(std::string("\x00\x00\xC0\x3F\x00\x00\x00\xC0", 8));
  CHECK(holds(constant(raw), {2}, {1.5, -2}));
  TensorProto rawBool = tensorProto("", TensorProto::BOOL, {3}, {});
  rawBool.set_raw_data(std::string("\1\0\1", 3));
  CHECK(holds(constant(rawBool), {3}, {1, 0, 1}));
}

TEST_CASE("import checks the size of tensor data", "[frontend]") {
  OnnxModel model =
      OnnxModel(17).input("x", {3}).initializer("w", TensorProto::FLOAT, {3}, {1, 2}).node("Add", {"x", "w"}, {"y"}).output("y");
  CHECK(importError(model) == "model.onnx: initializer \"w\": has 8 bytes of data but shape [3] of f32 needs 12");
  OnnxModel negative = OnnxModel(17).initializer("w", TensorProto::FLOAT, {-3}, {}).node("Neg", {"w"}, {"y"}).output("y");
  CHECK(importError(negative) == "model.onnx: initializer \"w\": dim -3 is not a possible size");
  OnnxModel strings = OnnxModel(17).initializer("w", TensorProto::STRING, {0}, {}).node("Neg", {"w"}, {"y"}).output("y");
  CHECK_THAT(importError(strings), contains("initializer \"w\": element type STRING is not supported"));
  OnnxModel int16 = OnnxModel(17).initializer("w", TensorProto::INT16, {2}, {1}).node("Neg", {"w"}, {"y"}).output("y");
  CHECK(importError(int16) == "model.onnx: initializer \"w\": has 2 bytes of data but shape [2] of i16 needs 4");
}

// raw_data and the list that onnx.proto names for each type.
TEST_CASE("import reads integers of all types", "[frontend]") {
  auto read = [](TensorProto tensor) {
    OnnxModel model = OnnxModel(17);
    tensor.set_name("w");
    *model.proto.mutable_graph()->add_initializer() = std::move(tensor);
    return evaluate(model.node("Identity", {"w"}, {"y"}).output("y"), {})[0];
  };
  auto both = [&](int32_t type, auto zero, std::vector<double> values) {
    std::string raw;
    for (double value : values) {
      auto element = static_cast<decltype(zero)>(value);
      raw.append(reinterpret_cast<const char *>(&element), sizeof(element));
    }
    const int64_t size = static_cast<int64_t>(values.size());
    TensorProto bytes = tensorProto("", type, {size}, {});
    bytes.set_raw_data(raw);
    CHECK(holds(read(bytes), {size}, values));
    CHECK(holds(read(tensorProto("", type, {size}, values)), {size}, values));
  };
  both(TensorProto::INT8, int8_t(), {-128, 127, 3});
  both(TensorProto::INT16, int16_t(), {-32768, 32767, 3});
  both(TensorProto::INT32, int32_t(), {-2147483648.0, 2147483647, 3});
  both(TensorProto::INT64, int64_t(), {-0x1p62, 0x1p62, 3});
  both(TensorProto::UINT8, uint8_t(), {0, 255, 3});
  both(TensorProto::UINT16, uint16_t(), {0, 65535, 3});
  both(TensorProto::UINT32, uint32_t(), {0, 4294967295, 3});
  both(TensorProto::UINT64, uint64_t(), {0, 0x1p63, 3});
}

namespace {

// A model whose parameter w (100) lies in `file`; its elements are 0, 1, 2, ...
OnnxModel external(const std::string &file, const std::string &offset, const std::string &length) {
  OnnxModel model = OnnxModel(17).input("x", {100}).initializer("w", TensorProto::FLOAT, {100}, {});
  TensorProto *tensor = model.proto.mutable_graph()->mutable_initializer(0);
  tensor->set_data_location(TensorProto::EXTERNAL);
  for (auto [key, value] : {std::pair("location", file), std::pair("offset", offset), std::pair("length", length)}) {
    auto *entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return model.node("Add", {"x", "w"}, {"y"}).output("y");
}

std::string countingFloats() {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    float value = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
  }
  return bytes;
}

} // namespace

// At any offset, aligned or not.
TEST_CASE("import reads external data", "[frontend]") {
  for (int offset : {0, 3, 4096}) {
    TemporaryFile data(std::string(offset, 'x') + countingFloats() + "rest", ".bin");
    auto result = evaluate(external(data.getName(), std::to_string(offset), "400"), {f32({100}, std::vector<double>(100, 0.5))})[0];
    CHECK(result.getNumber(0) == 0.5);
    CHECK(result.getNumber(99) == 99.5);
  }
}

TEST_CASE("import reports broken external data", "[frontend]") {
  TemporaryFile data(countingFloats(), ".bin");
  CHECK_THAT(importError(external("no_such_file.bin", "0", "400")),
             contains("initializer \"w\": external data file \"no_such_file.bin\" cannot be read: no such file or directory"));
  CHECK_THAT(importError(external(data.getName(), "8", "400")),
             contains("has 400 bytes but offset 8 and 400 bytes are needed; the file may be truncated"));
  CHECK_THAT(importError(external(data.getName(), "0", "396")), contains("has length 396 but shape [100] of f32 needs 400 bytes"));
  CHECK_THAT(importError(external(data.getName(), "0", "404")), contains("has length 404 but shape [100] of f32 needs 400 bytes"));
  CHECK_THAT(importError(external(data.getName(), "zero", "400")), contains("offset \"zero\", which is not a number"));
  CHECK_THAT(importError(external("../" + data.getName(), "0", "400")), contains("which is not below the model's folder"));
  CHECK_THAT(importError(external(data.getPath(), "0", "400")), contains("which is not below the model's folder"));
}

// Big parameters are resources: the bytes of the file, not a copy per use.
TEST_CASE("import keeps big parameters as resources", "[frontend]") {
  std::vector<double> values(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i);
  }
  OnnxModel model = OnnxModel(17).input("x", {1000}).initializer("w", TensorProto::FLOAT, {1000}, values);
  auto module = import(model.node("Add", {"x", "w"}, {"y"}).output("y"));
  nn::VariableOp variable = *module->getOps<nn::VariableOp>().begin();
  auto resource = llvm::dyn_cast<mlir::DenseF32ResourceElementsAttr>(*variable.getInit());
  REQUIRE(resource);
  CHECK((*resource.tryGetAsArrayRef())[999] == 999.0f);
}

// Rules give values to inputs without data and replace data; an input with an open dim, or fed by the data set, stays an input.
TEST_CASE("import applies init rules", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {std::string("batch"), 4}).input("mask", {8, 4}).input("w", {6, 4}).input("b", {6});
  model.node("Add", {"x", "mask"}, {"h"}).node("Gemm", {"h", "w", "b"}, {"y"}, {{"transB", int64_t(1)}}).output("y");
  ImportOptions options = withBatch(8);
  options.dataInputs = {"mask"};
  options.init = {initRule("b", [](job::Init &rule) { rule.set_fill(0.5); }),
                  initRule("*", [](job::Init &rule) { rule.mutable_kaiming_uniform()->set_a(0); })};
  std::string text = print(*import(model, options));
  CHECK_THAT(text, contains("@forward(%arg0: tensor<8x4xf32> {nn.name = \"x\"}, %arg1: tensor<8x4xf32> {nn.name = \"mask\"})"));
  CHECK_THAT(text, contains("nn.variable @b trainable : tensor<6xf32> = #nn.fill<5.000000e-01 : f64>"));
  CHECK_THAT(text, contains("nn.variable @w trainable : tensor<6x4xf32> = #nn.uniform<-1.224744")); // sqrt(6 / 4)
  options.init.erase(options.init.begin());
  CHECK_THAT(importError(model, options), contains("init rule \"*\" for parameter \"b\" of rank 1: kaiming_uniform has fan_in_dim 1"));
  CHECK_THAT(importError(model, withBatch(8)), contains("no error") && !contains("nn.variable")); // without rules all are inputs
  ImportOptions replace = withBatch(4);
  replace.init = {initRule("fc.w*", [](job::Init &rule) { rule.mutable_normal()->set_std(0.1); }),
                  initRule("fc.?ias", [](job::Init &rule) { rule.mutable_uniform()->set_high(2); })};
  text = print(*import(dense(), replace));
  CHECK_THAT(text, contains("@fc.weight trainable : tensor<3x2xf32> = #nn.normal<0.000000e+00 : f64, 1.000000e-01 : f64>"));
  CHECK_THAT(text, contains("@fc.bias trainable : tensor<3xf32> = #nn.uniform<0.000000e+00 : f64, 2.000000e+00 : f64>"));
  replace.init = {initRule("fc.weight", [](job::Init &rule) { rule.mutable_xavier_uniform(); })};
  CHECK_THAT(print(*import(dense(), replace)), contains("#nn.uniform<-1.095445")); // sqrt(6 / 5)
}

// One error names every op that is missing, with its nodes.
TEST_CASE("import lists all unsupported ops at once", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2}).node("Foo", {"x"}, {"a"}, {}, "layer1/foo").node("Relu", {"a"}, {"b"});
  model.node("Bar", {"b"}, {"c"}).node("Foo", {"c"}, {"d"}, {}, "layer2/foo").node("Gelu", {"d"}, {"e"}, {}, "g").output("e");
  model.proto.mutable_graph()->mutable_node(4)->set_domain("com.example");
  CHECK(importError(model) ==
        "model.onnx: 3 ops are not supported: Bar (node \"Bar_2\", opset 17), Foo (nodes \"layer1/foo\", "
        "\"layer2/foo\", opset 17), com.example.Gelu (node \"g\", opset 17); --load-plugin adds ops (docs/plugins.md)");
}

// Whatever is in a name, the error is one line.
TEST_CASE("import errors are one line", "[frontend]") {
  CHECK(importError(OnnxModel(17).input("x", {2}).node("Bad\nOp", {"x"}, {"y"}, {}, "a\tb").output("y")) ==
        "model.onnx: 1 op is not supported: Bad?Op (node \"a?b\", opset 17)");
}

TEST_CASE("import refuses what is no model", "[frontend]") {
  std::string good = dense({1, 2}).proto.SerializeAsString();
  CHECK_THAT(importFileError(good.substr(0, good.size() / 2)), contains("not an ONNX model: its") && contains("the file may be truncated"));
  // Its fields are ir_version (2 bytes), the graph, and opset_import (4 bytes).
  CHECK_THAT(importFileError(good.substr(0, good.size() / 2)), contains(" bytes are no protobuf message from byte 2 on; the file"));
  CHECK_THAT(importFileError(good.substr(0, good.size() - 1)), contains(" from byte " + std::to_string(good.size() - 4) + " on;"));
  CHECK_THAT(importFileError(good + '\x0f'), contains("from byte " + std::to_string(good.size()) + " on"));
  CHECK_THAT(importFileError(""), contains("not an ONNX model: its 0 bytes hold no graph"));
  CHECK_THAT(importFileError("#!/bin/sh\necho no model\n"), contains("not an ONNX model"));
  // Random bytes never get further than an error; the seed makes a failure repeatable.
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = round % 2 ? good : std::string(300, '\0');
    for (int i = 0, count = round % 2 ? 3 : 300; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      bytes[(state >> 8) % bytes.size()] = static_cast<char>(state >> 24);
    }
    TemporaryFile file(bytes);
    auto module = frontend::importOnnx(file.getPath(), {}, &context());
    if (!module) {
      std::string message = llvm::toString(module.takeError());
      CHECK(message.rfind(file.getPath() + ": ", 0) == 0);
    }
  }
  auto missing = frontend::importOnnx("no_such_model.onnx", {}, &context());
  REQUIRE(!missing);
  CHECK(llvm::toString(missing.takeError()) == "no_such_model.onnx: cannot be read: no such file or directory");
}

TEST_CASE("import refuses broken graphs", "[frontend]") {
  CHECK_THAT(importError(OnnxModel(6).input("x", {1}).node("Relu", {"x"}, {"y"}).output("y")),
             contains("opset 6 but the oldest supported is 7"));
  OnnxModel noOpset = dense({1, 2});
  noOpset.proto.clear_opset_import();
  CHECK_THAT(importError(noOpset), contains("it names no opset"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {"z"}, {"y"}, {}, "r").output("y")),
             contains("node \"r\" (Relu, opset 17): reads \"z\" but nothing before defines it"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {"x"}, {"x"}).output("x")), contains("\"x\" is defined twice"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {"x"}, {"y"}).output("z")),
             contains("output \"z\" is computed by no node"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {"x"}, {"y"}).output("y").output("y")),
             contains("output \"y\" is listed twice"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {"x"}, {"y"})), contains("the graph has no output"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {}, {"y"}).output("y")), contains("input 0 is missing"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Add", {"x"}, {"y"}).output("y")), contains("input 1 is missing"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}).node("Relu", {"x"}, {"y", "z"}).output("y")),
             contains("output 1 \"z\" is not supported"));
  CHECK_THAT(importError(OnnxModel(17).input("x", {1}, TensorProto::STRING).node("Relu", {"x"}, {"y"}).output("y")),
             contains("input \"x\": element type STRING is not supported"));
  OnnxModel reserved =
      OnnxModel(17).input("x", {1}).initializer("ashlar.seed", TensorProto::FLOAT, {1}, {1}).node("Add", {"x", "ashlar.seed"}, {"y"});
  CHECK_THAT(importError(reserved.output("y")), contains("parameter \"ashlar.seed\" has a name that the compiler uses itself; rename it"));
}

// A parameter keeps its name where a program usually has the same one.
TEST_CASE("import: parameters may have the names of programs", "[frontend][programs]") {
  OnnxModel model(17);
  model.input("x", {1});
  for (const char *name : {"forward", "forward.program", "init"}) {
    model.initializer(name, TensorProto::FLOAT, {1}, {1});
  }
  model.node("Add", {"x", "forward"}, {"h"}).node("Mul", {"h", "forward.program"}, {"g"}).node("Sub", {"g", "init"}, {"y"}).output("y");
  std::string text = print(*import(model));
  CHECK_THAT(text, contains("nn.variable @forward ") && contains("nn.variable @forward.program ") && contains("nn.variable @init "));
  CHECK_THAT(text, contains("func.func @forward.program1(") && contains("attributes {nn.program = #nn.program<run>}"));
}

// The example models import, with and without data.
TEST_CASE("import of the zoo's models", "[frontend][zoo]") {
  auto zoo = [](onnx::ModelProto proto, const ImportOptions &options) {
    OnnxModel model;
    model.proto = std::move(proto);
    return print(*import(model, options));
  };
  std::string linear = zoo(zoo::makeLinear({}), withBatch(16));
  CHECK_THAT(linear, contains("nn.variable @dense.weight trainable : tensor<1x2xf32> = dense<2.000000e-02>"));
  CHECK_THAT(linear, contains("(%arg0: tensor<16x2xf32> {nn.name = \"input\"}) -> (tensor<16x1xf32> {nn.name = \"output\"})"));
  std::string mlp = zoo(zoo::makeMlp({}, 3, 512), withBatch(256));
  CHECK_THAT(mlp, contains("module @mlp") && contains("nn.variable @fc1.weight trainable : tensor<512x784xf32> = dense_resource<"));
  CHECK_THAT(mlp, contains("(%arg0: tensor<256x784xf32> {nn.name = \"input\"}) -> (tensor<256x10xf32> {nn.name = \"logits\"})"));
  zoo::ParameterOptions noData;
  noData.withData = false;
  ImportOptions options = withBatch(4);
  options.init = {initRule("*.bias", [](job::Init &rule) { rule.set_fill(0); }),
                  initRule("*", [](job::Init &rule) { rule.mutable_kaiming_uniform(); })};
  std::string layers = zoo(zoo::makeDenseLayers(noData), options);
  CHECK_THAT(layers, contains("nn.variable @layer1.input_mapping.weight trainable : tensor<10x10xf32> = #nn.uniform<-0.31622"));
  CHECK_THAT(layers, contains("nn.variable @layer3.output_mapping.bias trainable : tensor<10xf32> = #nn.fill<"));
}

// The file is there whole or not at all.
TEST_CASE("zoo models are written atomically", "[frontend][zoo]") {
  onnx::ModelProto linear = zoo::makeLinear({});
  std::string folder = "/tmp/ashlar_test_XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  std::string path = folder + "/linear.onnx";
  CHECK(zoo::writeModel(linear, path) == "");
  std::ifstream written(path, std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(written), {}) == linear.SerializeAsString());
  std::filesystem::create_directory(folder + "/folder");
  CHECK_THAT(zoo::writeModel(linear, folder + "/folder"), contains("/folder: it is there and not a regular file"));
  CHECK_THAT(zoo::writeModel(linear, folder + "/none/linear.onnx"), contains("/none is not a folder"));
  auto files = std::filesystem::directory_iterator(folder);
  CHECK(std::distance(begin(files), end(files)) == 2); // the model and the folder: no temporary file is left
  std::filesystem::remove_all(folder);
}

// docs/onnx.md has a row for each supported op and for no other.
TEST_CASE("docs/onnx.md lists the supported ops", "[frontend][docs]") {
  std::ifstream page(std::string(ASHLAR_SOURCE_DIR) + "/docs/onnx.md");
  REQUIRE(page);
  std::vector<std::string> documented;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| `", 0) == 0) {
      documented.push_back(line.substr(3, line.find('`', 3) - 3));
    }
  }
  CHECK(documented == frontend::supportedOps());
}

TEST_CASE("frozen parameters are variables that are not trained", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {4, 2}).initializer("mask", TensorProto::FLOAT, {4, 2}, std::vector<double>(8, 1)).output("y");
  model.initializer("w", TensorProto::FLOAT, {4, 2}, std::vector<double>(8, 2))
      .node("Mul", {"x", "mask"}, {"m"})
      .node("Add", {"m", "w"}, {"y"});
  ImportOptions options;
  options.frozen = {"ma*"};
  std::string text = print(*import(model, options));
  CHECK_THAT(text, contains("nn.variable @mask :"));
  CHECK_THAT(text, contains("nn.variable @w trainable :"));
  options.frozen = {"ma*", "v"};
  CHECK(importError(model, options) == "model.onnx: frozen \"v\": matches no parameter; nearest names: \"w\", \"mask\"");
}

} // namespace ashlar::test::import_test
