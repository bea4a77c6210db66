// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and functions: what stands in their places.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

namespace ashlar::test::control_flow_test {

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
  std::string unknown = kIf;
  unknown.replace(unknown.find("Relu"), 4, "Nope");
  CHECK_THAT(importError(model(scalar("c", TensorProto::BOOL, "int32_data: 1") + unknown)),
             contains("1 op is not supported: Nope (node \"choice/inner\""));
}

TEST_CASE("onnx If of a condition that only a run finds runs one branch", "[frontend]") {
  auto condition = [](int type, const std::string &shape = "") {
    return "input { name: \"c\" type { tensor_type { elem_type: " + std::to_string(type) + " shape { " + shape + " } } } } ";
  };
  OnnxModel either = model(condition(TensorProto::BOOL) + kIf);
  CHECK(holds(evaluate(either, {boolean({}, {1}), f32({2}, {-1, 2})})[0], {2}, {10, 22}));
  CHECK(holds(evaluate(either, {boolean({}, {0}), f32({2}, {-1, 2})})[0], {2}, {-1, 2}));
  CHECK_THAT(print(*import(either)), contains("nn.repeat 1 when %arg0 carried(%arg2 = %arg1) captured(%arg3 = %arg1)"));
  OnnxModel list = model(condition(TensorProto::BOOL, "dim { dim_value: 1 }") + kIf);
  CHECK(holds(evaluate(list, {boolean({1}, {0}), f32({2}, {-1, 2})})[0], {2}, {-1, 2}));
  CHECK_THAT(importError(model(condition(TensorProto::BOOL, "dim { dim_value: 2 }") + kIf)),
             contains("node \"choice\" (If, opset 17): its condition is [2] of bool, not one bool"));
  CHECK_THAT(importError(model(condition(TensorProto::FLOAT) + kIf)), contains("its condition is [] of f32, not one bool"));
  auto withElse = [&](const std::string &nodes, const std::string &output) {
    std::string graph = kIf;
    const size_t at = graph.find("output { name: \"x\" }");
    return model(condition(TensorProto::BOOL) + graph.replace(at, 20, nodes + " output { name: \"" + output + "\" }"));
  };
  CHECK_THAT(
      importError(withElse("node { op_type: \"ReduceSum\" input: \"x\" output: \"e\" }", "e")),
      contains("(If, opset 17): result 0 of an If whose condition is only known at run time is [2] of f32 in then_branch but [1] of f32 "
               "in else_branch; give both the same type and shape"));
  CHECK_THAT(importError(withElse("node { op_type: \"Shape\" input: \"x\" output: \"e\" }", "e")),
             contains("[2] of f32 in then_branch but [1] of i64 in else_branch"));
  CHECK_THAT(importError(withElse("node { op_type: \"SequenceConstruct\" input: \"x\" output: \"e\" }", "e")),
             contains("is only known at run time is a sequence, which is not supported"));
}

// What both branches have from outside is selected; what one of them computes and the other has from outside is one loop; a result that a
// branch passes on to others is computed once.
TEST_CASE("onnx If of values from outside, and of a branch in a branch", "[frontend]") {
  const std::string inputs = "input { name: \"c\" type { tensor_type { elem_type: 9 shape {} } } } "
                             "input { name: \"d\" type { tensor_type { elem_type: 9 shape {} } } } ";
  OnnxModel outside = model(inputs + R"(node { op_type: "Exp" input: "x" output: "e" }
    node { op_type: "If" input: "c" output: "y"
      attribute { name: "then_branch" type: GRAPH g { name: "t" output { name: "e" } } }
      attribute { name: "else_branch" type: GRAPH g { name: "e" output { name: "x" } } } } )");
  CHECK_THAT(print(*import(outside)), contains("nn.select") && !contains("nn.repeat"));
  CHECK(holds(evaluate(outside, {boolean({}, {0}), boolean({}, {0}), f32({2}, {0, 1})})[0], {2}, {0, 1}));
  OnnxModel nested = model(inputs + R"(node { op_type: "If" input: "c" output: "y"
      attribute { name: "then_branch" type: GRAPH g { name: "t"
        node { op_type: "Neg" input: "x" output: "n" }
        node { op_type: "If" input: "d" output: "m"
          attribute { name: "then_branch" type: GRAPH g { name: "tt" node { op_type: "Add" input: "n" input: "x" output: "a" } output { name: "a" } } }
          attribute { name: "else_branch" type: GRAPH g { name: "te" node { op_type: "Add" input: "n" input: "n" output: "b" } output { name: "b" } } } }
        output { name: "m" } } }
      attribute { name: "else_branch" type: GRAPH g { name: "e" node { op_type: "Abs" input: "x" output: "p" } output { name: "p" } } } } )");
  const std::string text = print(*import(nested));
  const size_t outer = text.find("nn.repeat 1 when"), negative = text.find("nn.neg"), inner = text.find("nn.repeat 1 when", outer + 1);
  CHECK((outer < negative && negative < inner && inner != std::string::npos));
  const auto run = [&](double c, double d) { return evaluate(nested, {boolean({}, {c}), boolean({}, {d}), f32({2}, {-3, 5})})[0]; };
  CHECK(holds(run(1, 1), {2}, {0, 0}));
  CHECK(holds(run(1, 0), {2}, {6, -10}));
  CHECK(holds(run(0, 1), {2}, {3, 5}));
  CHECK(holds(run(0, 0), {2}, {3, 5}));
}

// What the branch that is not taken would do does not matter: its logarithm has no finite gradient at 0.
TEST_CASE("gradient of an onnx If has nothing of the other branch", "[frontend]") {
  OnnxModel log = model(R"(node { op_type: "ReduceSum" input: "x" output: "sum" attribute { name: "keepdims" type: INT i: 0 } }
    node { op_type: "Greater" input: "sum" input: "zero" output: "c" }
    node { op_type: "If" input: "c" output: "y"
      attribute { name: "then_branch" type: GRAPH g { name: "t" node { op_type: "Log" input: "x" output: "a" } output { name: "a" } } }
      attribute { name: "else_branch" type: GRAPH g { name: "e" node { op_type: "Mul" input: "x" input: "x" output: "b" } output { name: "b" } } } } )" +
                        scalar("zero", TensorProto::FLOAT, "float_data: 0"));
  CHECK(holds(gradientOf(log, {f32({2}, {0, -2})}, f32({2}, {1, 10})), {2}, {0, -40}));
  CHECK(holds(gradientOf(log, {f32({2}, {4, 2})}, f32({2}, {1, 10})), {2}, {0.25, 5}));
}

// The gradient is that of the branch that runs.
TEST_CASE("gradient of an onnx If", "[frontend]") {
  OnnxModel square = model(R"(node { op_type: "ReduceSum" input: "x" output: "sum" attribute { name: "keepdims" type: INT i: 0 } }
    node { op_type: "Greater" input: "sum" input: "zero" output: "c" }
    node { op_type: "If" input: "c" output: "y"
      attribute { name: "then_branch" type: GRAPH g { name: "t" node { op_type: "Mul" input: "x" input: "x" output: "a" } output { name: "a" } } }
      attribute { name: "else_branch" type: GRAPH g { name: "e" node { op_type: "Neg" input: "x" output: "b" } output { name: "b" } } } } )" +
                           scalar("zero", TensorProto::FLOAT, "float_data: 0"));
  CHECK(holds(gradientOf(square, {f32({2}, {3, -1})}, f32({2}, {1, 10})), {2}, {6, -20}));
  CHECK(holds(gradientOf(square, {f32({2}, {-3, 1})}, f32({2}, {1, 10})), {2}, {-1, -10}));
}

// A branch that is not taken would change the statistics.
TEST_CASE("onnx If of a condition that only a run finds refuses to train statistics", "[frontend]") {
  OnnxModel norm = parseModel(R"(ir_version: 8 opset_import { version: 17 } graph { name: "g"
    input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } dim { dim_value: 2 } } } } }
    input { name: "c" type { tensor_type { elem_type: 9 shape {} } } }
    initializer { name: "s" data_type: 1 dims: 2 float_data: 1 float_data: 2 }
    initializer { name: "m" data_type: 1 dims: 2 float_data: 0 float_data: 1 }
    initializer { name: "v" data_type: 1 dims: 2 float_data: 1 float_data: 2 }
    node { op_type: "If" name: "choice" input: "c" output: "y"
      attribute { name: "then_branch" type: GRAPH g { name: "t"
        node { op_type: "BatchNormalization" name: "norm" input: "x" input: "s" input: "s" input: "m" input: "v" output: "n" }
        output { name: "n" } } }
      attribute { name: "else_branch" type: GRAPH g { name: "e" output { name: "x" } } } }
    output { name: "y" } })");
  ashlar::frontend::ImportOptions options;
  CHECK_THAT(importError(norm, options), contains("no error"));
  options.training = true;
  CHECK_THAT(importError(norm, options),
             contains("(If, opset 17): its condition is only known at run time, but a BatchNormalization of its then_branch would learn "
                      "its running statistics only where that runs"));
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

// Where nothing steers a trip the loop stays one: states of data, and a condition that holds. The rows and the states are named.
TEST_CASE("onnx Loop whose trips are alike is a repeat", "[frontend]") {
  auto loop = [](const std::string &more, const std::string &condition, const std::string &trips = "3") {
    return model(scalar("m", TensorProto::INT64, "int64_data: " + trips) + scalar("c", TensorProto::BOOL, "int32_data: 1") + R"(
      node { op_type: "Loop" name: "loop" input: "m" input: "c" input: "x" output: "y" output: "rows"
        attribute { name: "body" type: GRAPH g { name: "b" input { name: "i" } input { name: "go" } input { name: "v" } )" +
                     more + R"( node { op_type: "Add" name: "twice" input: "v" input: "x" output: "w" }
          node { op_type: "Identity" input: "v" output: "seen" } )" +
                     condition + R"( output { name: "more" } output { name: "w" } output { name: "seen" } } } }
      node { op_type: "Neg" input: "rows" output: "z" })",
                 "", "output { name: \"y\" } output { name: \"z\" }");
  };
  const std::string same = "node { op_type: \"Identity\" input: \"go\" output: \"more\" }";
  const std::string isTrue = R"(node { op_type: "Constant" output: "more" attribute { name: "value" type: TENSOR
    t { data_type: 9 int32_data: 1 } } })";
  for (const std::string &condition : {same, isTrue}) {
    OnnxModel repeated = loop("", condition);
    std::string text = print(*import(repeated));
    CHECK_THAT(text, contains("nn.repeat 3 carried(") && contains("nn.outputs = [\"y\", \"rows\"]"));
    auto results = evaluate(repeated, {f32({2}, {1, -1})});
    CHECK(holds(results[0], {2}, {4, -4}));
    CHECK(holds(results[1], {3, 2}, {-1, 1, -2, 2, -3, 3}));
  }
  CHECK(holds(evaluate(loop("", same, "0"), {f32({2}, {1, -1})})[1], {0, 2}, {}));
  CHECK(holds(evaluate(loop("", same, "1"), {f32({2}, {1, -1})})[0], {2}, {2, -2}));
  CHECK_THAT(print(*import(loop("", same, "524288"))), contains("nn.repeat 524288 carried("));
  // The number of the trip is known in each: it may be an index or a size. A condition that is computed may end the loop.
  const std::string counts = R"(node { op_type: "Cast" input: "i" output: "n" attribute { name: "to" type: INT i: 1 } })";
  const std::string computed = "node { op_type: \"Not\" input: \"go\" output: \"more\" }";
  for (const OnnxModel &steered : {loop(counts, same), loop("", computed)}) {
    CHECK_THAT(print(*import(steered)), !contains("nn.repeat"));
  }
}

// The condition is a state of the body; the true constant outside has no more than its name.
TEST_CASE("onnx Loop whose condition is a state is not a repeat", "[frontend]") {
  OnnxModel shadowed = model(R"(input { name: "k0" type { tensor_type { elem_type: 9 shape {} } } } )" +
                             scalar("m", TensorProto::INT64, "int64_data: 3") + scalar("k", TensorProto::BOOL, "int32_data: 1") + R"(
      node { op_type: "Loop" name: "loop" input: "m" input: "" input: "x" input: "k0" output: "y"
        attribute { name: "body" type: GRAPH g { name: "b" input { name: "i" } input { name: "go" } input { name: "v" } input { name: "k" }
          node { op_type: "Add" input: "v" input: "x" output: "w" } node { op_type: "Identity" input: "k" output: "more" }
          node { op_type: "Identity" input: "k" output: "l" }
          output { name: "more" } output { name: "w" } output { name: "l" } } } })");
  CHECK_THAT(importError(shadowed), contains("its condition has to be a bool known at compile time"));
}

// A state that grows has another shape in each trip, and an integer that is known may be a size.
TEST_CASE("onnx Loop whose states differ by trip is unrolled", "[frontend]") {
  const std::string graph = scalar("m", TensorProto::INT64, "int64_data: 3") + scalar("one", TensorProto::INT64, "int64_data: 1") +
                            R"(node { op_type: "Loop" name: "loop" input: "m" input: "" input: "x" input: "one" output: "y"
      attribute { name: "body" type: GRAPH g { name: "b" input { name: "i" } input { name: "go" } input { name: "v" } input { name: "k" }
        node { op_type: "Concat" input: "v" input: "x" output: "w" attribute { name: "axis" type: INT i: 0 } }
        node { op_type: "Add" input: "k" input: "k" output: "l" }
        node { op_type: "Identity" input: "go" output: "more" } output { name: "more" } output { name: "w" } output { name: "l" } } } })";
  OnnxModel grown = model(graph);
  CHECK(holds(evaluate(grown, {f32({2}, {1, -1})})[0], {8}, {1, -1, 1, -1, 1, -1, 1, -1}));
  std::string alone = graph;
  alone.replace(alone.find("input: \"one\" output"), 12, "");
  alone.replace(alone.find("input { name: \"k\" }"), 19, "");
  alone.replace(alone.find("input: \"k\" input: \"k\""), 21, "input: \"v\" input: \"v\"");
  alone.replace(alone.find("output { name: \"l\" }"), 20, "");
  CHECK(holds(evaluate(model(alone), {f32({2}, {1, -1})})[0], {8}, {1, -1, 1, -1, 1, -1, 1, -1}));
  CHECK_THAT(print(*import(model(alone))), !contains("nn.repeat"));
  const std::string later =
      alone + "node { op_type: \"Neg\" input: \"y\" output: \"y/w\" }"; // named as the body of the repeat that is given up
  CHECK(holds(evaluate(model(later, "", "output { name: \"y/w\" }"), {f32({2}, {1, -1})})[0], {8}, {-1, 1, -1, 1, -1, 1, -1, 1}));
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

} // namespace ashlar::test::control_flow_test
