// SPDX-License-Identifier: Apache-2.0
//
// Scan: its body on the slices of tensors, in both directions and along all axes.

#include "test/unit/frontend/onnx_model.h"

#include "compiler/reference/equivalence.h"
#include "dialects/nn/repeat.h"
#include "passes/train/passes.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

namespace ashlar::test::scan_steps_test {

using onnx::TensorProto;

namespace {

// An input of the graph, of floats.
std::string input(const std::string &name, const std::vector<int64_t> &dims) {
  std::string text = "input { name: \"" + name + "\" type { tensor_type { elem_type: 1 shape { ";
  for (int64_t dim : dims) {
    text += "dim { dim_value: " + std::to_string(dim) + " } ";
  }
  return text + "} } } } ";
}

std::string ints(const std::string &name, const std::vector<int64_t> &values) {
  std::string text = "attribute { name: \"" + name + "\" type: INTS ";
  for (int64_t value : values) {
    text += "ints: " + std::to_string(value) + " ";
  }
  return text + "} ";
}

// state' = factor * state + x, and the row state' of each step.
const std::string kBody = R"(attribute { name: "body" type: GRAPH g { name: "b" input { name: "state" } input { name: "x" }
    node { op_type: "Mul" name: "decay" input: "state" input: "factor" output: "kept" }
    node { op_type: "Add" input: "kept" input: "x" output: "next" }
    node { op_type: "Identity" input: "next" output: "row" }
    output { name: "next" } output { name: "row" } } } )";

// The node on s, the first state, and x; `factor` is an input of the graph.
OnnxModel model(int64_t opset, const std::vector<int64_t> &state, const std::vector<int64_t> &x, const std::string &attributes,
                const std::string &body = kBody, const std::string &first = "") {
  return parseModel("ir_version: 8 opset_import { version: " + std::to_string(opset) + " } graph { name: \"g\" " + input("x", x) +
                    input("s", state) + input("factor", {}) + "node { op_type: \"Scan\" name: \"scan\" " + first +
                    R"(input: "s" input: "x" output: "last" output: "rows" attribute { name: "num_scan_inputs" type: INT i: 1 } )" +
                    attributes + body + R"(} output { name: "rows" } output { name: "last" } })");
}

} // namespace

TEST_CASE("onnx Scan runs its body on slices", "[frontend]") {
  const std::vector<ashlar::reference::Tensor> inputs = {f32({3, 2}, {1, 2, 3, 4, 5, 6}), f32({2}, {10, 20}), f32({}, {0.5})};
  auto results = evaluate(model(11, {2}, {3, 2}, ""), inputs);
  CHECK(holds(results[0], {3, 2}, {6, 12, 6, 10, 8, 11}));
  CHECK(holds(results[1], {2}, {8, 11}));
  // From the end to the front, and each result in front of those before.
  results = evaluate(model(11, {2}, {3, 2}, ints("scan_input_directions", {1}) + ints("scan_output_directions", {1})), inputs);
  CHECK(holds(results[0], {3, 2}, {5, 8, 8, 12, 10, 16}));
  CHECK(holds(results[1], {2}, {5, 8}));
  results = evaluate(model(11, {2}, {3, 2}, ints("scan_input_directions", {1})), inputs);
  CHECK(holds(results[0], {3, 2}, {10, 16, 8, 12, 5, 8}));
  results = evaluate(model(11, {2}, {3, 2}, ints("scan_output_directions", {1})), inputs);
  CHECK(holds(results[0], {3, 2}, {8, 11, 6, 10, 6, 12}));
  // Along the last axis of both.
  results = evaluate(model(11, {2}, {2, 3}, ints("scan_input_axes", {-1}) + ints("scan_output_axes", {1})),
                     {f32({2, 3}, {1, 3, 5, 2, 4, 6}), inputs[1], inputs[2]});
  CHECK(holds(results[0], {2, 3}, {6, 6, 8, 12, 10, 11}));
  // One step, and none: the body is not run.
  results = evaluate(model(11, {2}, {1, 2}, ""), {f32({1, 2}, {1, 2}), inputs[1], inputs[2]});
  CHECK(holds(results[0], {1, 2}, {6, 12}));
  results = evaluate(model(11, {2}, {0, 2}, ""), {f32({0, 2}, {}), inputs[1], inputs[2]});
  CHECK(holds(results[0], {0, 2}, {}));
  CHECK(holds(results[1], {2}, {10, 20}));
}

// Dim 0 is the batch and dim 1 the steps; behind the end of a sequence the rows are zeros.
TEST_CASE("onnx Scan of opset 8 has a batch", "[frontend]") {
  const std::vector<ashlar::reference::Tensor> inputs = {f32({2, 3, 1}, {1, 2, 3, 4, 5, 6}), f32({2, 1}, {10, 20}), f32({}, {0.5})};
  const std::string none = "input: \"\" ";
  auto results = evaluate(model(8, {2, 1}, {2, 3, 1}, "", kBody, none), inputs);
  CHECK(holds(results[0], {2, 3, 1}, {6, 5, 5.5, 14, 12, 12}));
  CHECK(holds(results[1], {2, 1}, {5.5, 12}));
  results = evaluate(model(8, {2, 1}, {2, 3, 1}, ints("directions", {1}), kBody, none), inputs);
  CHECK(holds(results[0], {2, 3, 1}, {8, 6, 4, 16, 13, 10.5}));
  OnnxModel lengths = model(8, {2, 1}, {2, 3, 1}, "", kBody, "input: \"lengths\" ");
  lengths.initializer("lengths", TensorProto::INT64, {2}, {2, 3});
  results = evaluate(lengths, inputs);
  CHECK(holds(results[0], {2, 3, 1}, {6, 5, 0, 14, 12, 12}));
  CHECK(holds(results[1], {2, 1}, {5, 12}));
  OnnxModel wrong = model(8, {2, 1}, {2, 3, 1}, "", kBody, "input: \"lengths\" ");
  wrong.initializer("lengths", TensorProto::INT64, {2}, {2, 4});
  CHECK_THAT(importError(wrong), contains("input \"sequence_lens\" has 2 numbers, not 2 in [0, 3]"));
  CHECK_THAT(importError(model(8, {3, 1}, {2, 3, 1}, "", kBody, none)),
             contains("input 1 of [3, 1] of f32 is no batch of states, the first scanned input being [2, 3, 1] of f32"));
}

// A parameter that the body reads is trained, and a body within the body runs.
TEST_CASE("onnx Scan reads values from outside", "[frontend]") {
  const std::string inner = R"(attribute { name: "body" type: GRAPH g { name: "b" input { name: "state" } input { name: "x" }
    node { op_type: "Scan" name: "inner" input: "zero" input: "x" output: "sum" output: "sums"
      attribute { name: "num_scan_inputs" type: INT i: 1 }
      attribute { name: "body" type: GRAPH g { name: "i" input { name: "a" } input { name: "e" }
        node { op_type: "Mul" input: "e" input: "weight" output: "we" }
        node { op_type: "Add" input: "a" input: "we" output: "n" } output { name: "n" } output { name: "state" } } } }
    node { op_type: "Add" input: "state" input: "sum" output: "next" } node { op_type: "Mul" input: "next" input: "factor" output: "row" }
    initializer { name: "zero" data_type: 1 dims: 1 float_data: 0 } output { name: "next" } output { name: "row" } } } )";
  OnnxModel nested = model(11, {1}, {2, 3}, "", inner);
  nested.initializer("weight", TensorProto::FLOAT, {1}, {2});
  auto results = evaluate(nested, {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({1}, {100}), f32({}, {0.5})});
  CHECK(holds(results[0], {2, 1}, {56, 71}));
  CHECK_THAT(print(*import(nested)), contains("nn.variable @weight trainable"));
}

// With the seed of the node and without, and in a Loop as in a Scan.
TEST_CASE("onnx Scan draws other numbers in each step", "[frontend]") {
  for (const std::string seed : {"", "attribute { name: \"seed\" type: FLOAT f: 3 }"}) {
    const std::string draw = R"(node { op_type: "RandomUniformLike" name: "draw" input: "x" output: "r" )" + seed + "}";
    const std::string body =
        "attribute { name: \"body\" type: GRAPH g { name: \"b\" input { name: \"state\" } input { name: \"x\" } " + draw +
        R"(node { op_type: "Add" input: "state" input: "r" output: "next" } output { name: "next" } output { name: "r" } } } )";
    for (bool reversed : {false, true}) { // then the first step has the last row
      const std::string directions = reversed ? ints("scan_input_directions", {1}) + ints("scan_output_directions", {1}) : "";
      auto module = import(model(11, {2}, {3, 2}, directions, body));
      ashlar::nn::RepeatOp repeat;
      module->walk([&](ashlar::nn::RepeatOp op) { repeat = op; });
      REQUIRE(repeat.getReversed() == reversed);
      REQUIRE(repeat.getSliced().size() == 2); // the rows of x, and the streams
      auto streams = repeat.getSliced()[1].getDefiningOp<ashlar::nn::ConstantOp>();
      auto values = llvm::cast<mlir::DenseElementsAttr>(streams.getValue()).getValues<llvm::APInt>();
      const std::string name = seed.empty() ? "scan/draw" : "seed 1077936128";
      CHECK(values[reversed ? 2 : 0] == ashlar::nn::streamOf(name));
      CHECK(values[1] == ashlar::nn::streamOf(name + " step 1"));
      CHECK(values[reversed ? 0 : 2] == ashlar::nn::streamOf(name + " step 2"));
    }
  }
}

// Each step drops other elements, of the step that nn.random counts; the draws are those of steps that stand one after the other. Outside
// of training nothing is dropped.
TEST_CASE("onnx Scan drops out in its body", "[frontend]") {
  const std::string body = R"(attribute { name: "body" type: GRAPH g { name: "b" input { name: "state" } input { name: "x" }
    node { op_type: "Dropout" name: "drop" input: "x" output: "row" } node { op_type: "Add" input: "state" input: "row" output: "next" }
    output { name: "next" } output { name: "row" } } } )";
  ashlar::frontend::ImportOptions options;
  options.training = true;
  auto module = import(model(11, {16}, {3, 16}, "", body), options);
  auto rowsOf = [&] {
    ashlar::reference::Interpreter interpreter(*module);
    interpreter.setSeed(7);
    auto results =
        interpreter.run("forward", {{f32({3, 16}, std::vector<double>(48, 1))}, {f32({16}, std::vector<double>(16, 0))}, {f32({}, {1})}});
    REQUIRE(mlir::succeeded(results));
    return (*results)[0].front();
  };
  const ashlar::reference::Tensor rows = rowsOf();
  bool differ = false;
  for (int64_t i = 0; i < 16; ++i) {
    differ |= rows.getFloat(i) != rows.getFloat(16 + i) || rows.getFloat(i) != rows.getFloat(32 + i);
  }
  CHECK(differ);
  mlir::PassManager passes(module->getContext());
  passes.addNestedPass<mlir::func::FuncOp>(ashlar::train::createUnrollRepeatsPass());
  REQUIRE(succeeded(passes.run(*module)));
  CHECK(ashlar::reference::maxDifference(rows, rowsOf()) == 0);
  int64_t streams = 0;
  module->walk([&](ashlar::nn::RandomOp random) {
    auto stream = random.getStream().getDefiningOp<ashlar::nn::ConstantOp>();
    const std::string name = "scan/drop" + (streams == 0 ? "" : " step " + std::to_string(streams));
    REQUIRE(stream);
    CHECK(stream.getValue() == ashlar::nn::streamConstant(&context(), name));
    ++streams;
  });
  CHECK(streams == 3);
  CHECK(holds(evaluate(model(11, {2}, {1, 2}, "", body), {f32({1, 2}, {1, 2}), f32({2}, {0, 0}), f32({}, {1})})[0], {1, 2}, {1, 2}));
}

// The running statistics of a body's op are no parameters; to train them in each step makes no sense.
TEST_CASE("onnx Scan normalizes by statistics from outside", "[frontend]") {
  const std::string body = R"(attribute { name: "body" type: GRAPH g { name: "b" input { name: "state" } input { name: "x" }
    node { op_type: "BatchNormalization" input: "x" input: "scale" input: "scale" input: "mean" input: "variance" output: "row"
      attribute { name: "epsilon" type: FLOAT f: 0 } }
    node { op_type: "Identity" input: "state" output: "next" } output { name: "next" } output { name: "row" } } } )";
  OnnxModel norm = model(14, {1}, {2, 1, 2}, "", body);
  norm.initializer("scale", TensorProto::FLOAT, {2}, {1, 1});
  norm.initializer("mean", TensorProto::FLOAT, {2}, {1, 2}).initializer("variance", TensorProto::FLOAT, {2}, {4, 1});
  auto results = evaluate(norm, {f32({2, 1, 2}, {1, 2, 3, 4}), f32({1}, {0}), f32({}, {0.5})});
  CHECK(holds(results[0], {2, 1, 2}, {1, 1, 2, 3}));
  ashlar::frontend::ImportOptions options;
  options.training = true;
  CHECK_THAT(importError(norm, options), contains("(Scan, opset 14): a BatchNormalization of its body would learn its running statistics"));
}

TEST_CASE("onnx Scan knows the initializers that steer its body", "[frontend]") {
  const std::string body = R"(attribute { name: "body" type: GRAPH g { name: "b" input { name: "state" } input { name: "x" }
    node { op_type: "Resize" input: "x" input: "" input: "scales" output: "row" attribute { name: "mode" type: STRING s: "nearest" } }
    node { op_type: "Identity" input: "state" output: "next" } output { name: "next" } output { name: "row" } } } )";
  OnnxModel resize = model(13, {1}, {2, 2}, "", body);
  resize.initializer("scales", TensorProto::FLOAT, {1}, {2});
  auto results = evaluate(resize, {f32({2, 2}, {1, 2, 3, 4}), f32({1}, {0}), f32({}, {0.5})});
  CHECK(holds(results[0], {2, 4}, {1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST_CASE("onnx Scan checks its body", "[frontend]") {
  std::string body = kBody;
  body.replace(body.find("output: \"next\" }"), 16, "output: \"sum\" } node { op_type: \"Size\" input: \"sum\" output: \"next\" }");
  CHECK_THAT(
      importError(model(11, {2}, {3, 2}, "", body)),
      contains("node \"scan\" (Scan, opset 11): state 0 is [2] of f32 but its body returns [] of i64; a state keeps its type and shape"));
  CHECK_THAT(importError(model(11, {2}, {3, 2}, ints("scan_input_axes", {2}))), contains("axis 2 is not in [-2, 2)"));
  CHECK_THAT(importError(model(11, {2}, {3, 2}, ints("scan_output_axes", {0, 1}))),
             contains("attribute \"scan_output_axes\" has 2 numbers, not 1"));
  CHECK_THAT(importError(model(11, {2}, {3, 2}, ints("scan_input_directions", {2}))),
             contains("attribute \"scan_input_directions\" holds 2, which is neither 0, forward, nor 1, reverse"));
  CHECK_THAT(importError(model(11, {2}, {3, 2}, "", "")), contains("has 2 inputs and 2 outputs but a body with 0 and 0"));
  OnnxModel many = model(11, {2}, {3, 2}, "");
  many.proto.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(3);
  CHECK_THAT(importError(many), contains("attribute \"num_scan_inputs\" is 3, not in [1, 2]"));
  body = kBody;
  body.replace(body.find("\"Mul\""), 5, "\"Nope\"");
  CHECK_THAT(importError(model(11, {2}, {3, 2}, "", body)), contains("1 op is not supported: Nope (node \"scan/decay\""));
  CHECK_THAT(print(*import(model(11, {2}, {1 << 20, 2}, ""))), contains("nn.repeat 1048576 carried("));
}

// A size that only a run finds is one of the rows, too; steps may not be as many.
TEST_CASE("onnx Scan hands on sizes that only a run finds", "[frontend]") {
  auto scan = [](const std::string &state, const std::string &rows) {
    OnnxModel made = OnnxModel(14).input("x", {4}).input("xs", {3}).input("s", {}).input("factor", {});
    made.initializer("zero", TensorProto::INT64, {1}, {0}).node("NonZero", {"x"}, {"places"}).node("Squeeze", {"places", "zero"}, {"flat"});
    made.node("Cast", {"flat"}, {"found"}, {{"to", int64_t{TensorProto::FLOAT}}}).node("Scan", {state, rows}, {"last", "rows"}, {}, "scan");
    onnx::GraphProto &graph = *made.proto.mutable_graph();
    *graph.mutable_node(graph.node_size() - 1)->mutable_attribute() = model(14, {4}, {3}, "").proto.graph().node(0).attribute();
    return made.output("rows").output("last");
  };
  OnnxModel counted = scan("found", "xs");
  CHECK_THAT(print(*import(counted)), contains("tensor<3x4xf32> {nn.counts = [\"\", \"rows.count\"], nn.name = \"rows\"}") &&
                                          contains("tensor<4xf32> {nn.counts = [\"rows.count\"], nn.name = \"last\"}"));
  auto results = evaluate(counted, {f32({4}, {0, 5, 0, 7}), f32({3}, {1, 2, 3}), f32({}, {0}), f32({}, {1})});
  CHECK(results[1].getFloat(0) == 1 + 6);
  CHECK(results[1].getFloat(1) == 3 + 6);
  CHECK_THAT(importError(scan("s", "found")),
             contains("(Scan, opset 14): input 1 \"found\" has at most 4 elements along a dim, how many only a "
                      "run finds, and the op would mix them with the padding"));
}

TEST_CASE("onnx Scan refuses sequences", "[frontend]") {
  OnnxModel sequence = OnnxModel(14).input("x", {2}).node("SequenceConstruct", {"x"}, {"s"}).node("Scan", {"s", "x"}, {"y"}, {}, "scan");
  onnx::NodeProto &scan = *sequence.proto.mutable_graph()->mutable_node(1);
  *scan.mutable_attribute() = model(14, {2}, {3, 2}, "").proto.graph().node(0).attribute();
  CHECK_THAT(importError(sequence.output("y")), contains("(Scan, opset 14): input 0 \"s\" is a sequence, which is not supported"));
}

} // namespace ashlar::test::scan_steps_test
