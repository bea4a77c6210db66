// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and functions: what stands in their places.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

using namespace ashlar::test;
using onnx::TensorProto;

namespace {

// Returns a model of x (2), with the nodes, functions and initializers of the text.
OnnxModel model(const std::string &graph, const std::string &rest = "", const std::string &outputs = "output { name: \"y\" }") {
  return parseModel("ir_version: 8 opset_import { version: 17 } opset_import { domain: \"own\" version: 1 } graph { name: \"g\" " + graph +
                    " input { name: \"x\" type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } } } } " + outputs + " } " +
                    rest);
}

std::string scalar(const std::string &name, int type, const std::string &data) {
  return "initializer { name: \"" + name + "\" data_type: " + std::to_string(type) + " " + data + " } ";
}

const std::string kIf = R"(
  node { op_type: "If" name: "choice" input: "c" output: "y"
    attribute { name: "then_branch" type: GRAPH g { name: "t"
      node { op_type: "Relu" name: "inner" input: "x" output: "r" } node { op_type: "Add" input: "r" input: "k" output: "s" }
      initializer { name: "k" data_type: 1 dims: 2 float_data: 10 float_data: 20 } output { name: "s" } } }
    attribute { name: "else_branch" type: GRAPH g { name: "e" output { name: "x" } } } } )";

// x doubled in each trip, as many as `m` and `c` say; the third result has x of each trip before it is doubled.
const std::string kLoop = R"(
  node { op_type: "Loop" name: "loop" input: "m" input: "c" input: "x" output: "y" output: "rows"
    attribute { name: "body" type: GRAPH g { name: "b"
      input { name: "i" } input { name: "go" } input { name: "v" }
      node { op_type: "Add" name: "twice" input: "v" input: "v" output: "w" }
      node { op_type: "Less" input: "i" input: "limit" output: "more" }
      node { op_type: "Identity" input: "v" output: "seen" }
      output { name: "more" } output { name: "w" } output { name: "seen" } } } } )";
const std::string kLoopOutputs = "output { name: \"y\" } output { name: \"rows\" }";

} // namespace

TEST_CASE("onnx If of a known condition is its branch", "[frontend]") {
  OnnxModel taken = model(scalar("c", TensorProto::BOOL, "int32_data: 1") + kIf);
  CHECK(holds(evaluate(taken, {f32({2}, {-1, 2})})[0], {2}, {10, 22}));
  std::string text = print(*import(taken));
  CHECK_THAT(text, contains("nn.outputs = [\"y/r\"]"));
  CHECK_THAT(text, !contains("nn.variable")); // what a branch holds is a constant
  OnnxModel other = model(scalar("c", TensorProto::BOOL, "int32_data: 0") + kIf);
  CHECK(holds(evaluate(other, {f32({2}, {-1, 2})})[0], {2}, {-1, 2}));
  const std::string open = R"(input { name: "c" type { tensor_type { elem_type: 9 shape {} } } } )";
  CHECK_THAT(importError(model(open + kIf)),
             contains("node \"choice\" (If, opset 17): its condition has to be a bool known at compile time"));
  std::string unknown = kIf;
  unknown.replace(unknown.find("Relu"), 4, "Nope");
  CHECK_THAT(importError(model(scalar("c", TensorProto::BOOL, "int32_data: 1") + unknown)),
             contains("1 op is not supported: Nope (node \"choice/inner\""));
}

TEST_CASE("onnx Loop of known trips is unrolled", "[frontend]") {
  auto run = [](const std::string &trips, const std::string &limit) {
    std::string graph =
        scalar("limit", TensorProto::INT64, "int64_data: " + limit) + scalar("c", TensorProto::BOOL, "int32_data: 1") + kLoop;
    graph = (trips.empty() ? "" : scalar("m", TensorProto::INT64, "int64_data: " + trips)) + graph;
    if (trips.empty()) {
      graph.replace(graph.find("input: \"m\""), 10, "input: \"\"");
    }
    return model(graph, "", kLoopOutputs);
  };
  auto results = evaluate(run("3", "100"), {f32({2}, {1, -1})});
  CHECK(holds(results[0], {2}, {8, -8}));
  CHECK(holds(results[1], {3, 2}, {1, -1, 2, -2, 4, -4}));
  CHECK(holds(evaluate(run("9", "1"), {f32({2}, {1, -1})})[0], {2}, {4, -4})); // the condition ends it: trips 0 and 1
  CHECK(holds(evaluate(run("", "2"), {f32({2}, {1, -1})})[1], {3, 2}, {1, -1, 2, -2, 4, -4}));
  CHECK_THAT(print(*import(run("2", "100"))), contains("loc") || contains("y/0/w"));
  CHECK_THAT(importError(run("0", "100")), contains("makes no trip, so that its output 1 has no shape"));
  CHECK_THAT(importError(run("", "100000000")), contains("that are handled at import")); // not for ever
}

TEST_CASE("onnx functions are replaced by their nodes", "[frontend]") {
  const std::string functions = R"(
    functions { name: "Scale" domain: "own" input: "a" input: "b" output: "r" attribute: "alpha"
      node { op_type: "LeakyRelu" name: "leaky" input: "a" output: "t" attribute { name: "alpha" type: FLOAT ref_attr_name: "alpha" } }
      node { op_type: "Sum" input: "t" input: "b" output: "r" } opset_import { version: 17 } }
    functions { name: "Twice" domain: "own" input: "a" output: "r"
      node { op_type: "Scale" domain: "own" name: "first" input: "a" input: "a" output: "t" attribute { name: "alpha" type: FLOAT f: 0.5 } }
      node { op_type: "Scale" domain: "own" name: "second" input: "t" input: "a" output: "r" } } )";
  const std::string call = R"(node { op_type: "Twice" domain: "own" name: "block" input: "x" output: "y" } )";
  OnnxModel twice = model(call, functions);
  // leaky(0.5): -2 -> -1, + a = -3; leaky of the default 0.01: -0.03, + a = -2.03.
  CHECK(holds(evaluate(twice, {f32({2}, {-2, 4})})[0], {2}, {-2.03, 12}));
  CHECK_THAT(print(*import(twice)), contains("\"y/t/t\""));
  std::string endless = functions;
  endless.replace(endless.find("\"Sum\""), 5, "\"Twice\" domain: \"own\"");
  CHECK_THAT(importError(model(call, endless)), contains("calls the function \"") && contains("from within itself"));
  const std::string wide = R"(node { op_type: "Twice" domain: "own" name: "block" input: "x" input: "x" output: "y" } )";
  CHECK_THAT(importError(model(wide, functions)), contains("has 2 inputs and 1 outputs but function \"Twice\" has 1 and 1"));
  CHECK_THAT(importError(model(R"(node { op_type: "None" domain: "own" input: "x" output: "y" })", functions)), contains("own.None"));
  // Each calls the one before twice: 2^30 nodes from a few hundred bytes.
  std::string doubling =
      R"(functions { name: "F0" domain: "own" input: "a" output: "r" node { op_type: "Relu" input: "a" output: "r" } } )";
  for (int i = 1; i <= 30; ++i) {
    const std::string inner = "op_type: \"F" + std::to_string(i - 1) + "\" domain: \"own\"";
    doubling += "functions { name: \"F" + std::to_string(i) + "\" domain: \"own\" input: \"a\" output: \"r\" node { " + inner +
                " input: \"a\" output: \"t\" } node { " + inner + " input: \"t\" output: \"r\" } } ";
  }
  CHECK_THAT(importError(model(R"(node { op_type: "F30" domain: "own" input: "x" output: "y" })", doubling)),
             contains("has more than 1048576 nodes when its functions stand in their places"));
}

// A default of an attribute is in a field that libonnx 1.12 does not know.
TEST_CASE("onnx functions have defaults", "[frontend]") {
  OnnxModel twice = model(R"(node { op_type: "Leaky" domain: "own" input: "x" output: "y" } )", R"(
    functions { name: "Leaky" domain: "own" input: "a" output: "r"
      node { op_type: "LeakyRelu" input: "a" output: "r" attribute { name: "alpha" type: FLOAT ref_attr_name: "slope" } } } )");
  onnx::AttributeProto slope;
  slope.set_name("slope");
  slope.set_type(onnx::AttributeProto::FLOAT);
  slope.set_f(0.25f);
  onnx::FunctionProto &function = *twice.proto.mutable_functions(0);
  function.GetReflection()->MutableUnknownFields(&function)->AddLengthDelimited(11, slope.SerializeAsString());
  CHECK(holds(evaluate(twice, {f32({2}, {-2, 4})})[0], {2}, {-0.5, 4}));
}
