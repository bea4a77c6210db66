// SPDX-License-Identifier: Apache-2.0
//
// Products, reductions, softmax and the loss against expectations made by hand.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::contraction_test {

using onnx::TensorProto;

namespace {

using Ints = std::vector<int64_t>;

ashlar::reference::Tensor matmul(std::vector<int64_t> lhs, std::vector<double> lhsValues, std::vector<int64_t> rhs,
                                 std::vector<double> rhsValues) {
  OnnxModel model(17);
  model.input("a", std::vector<Dim>(lhs.begin(), lhs.end())).input("b", std::vector<Dim>(rhs.begin(), rhs.end()));
  model.node("MatMul", {"a", "b"}, {"y"}).output("y");
  return evaluate(model, {f32(lhs, lhsValues), f32(rhs, rhsValues)})[0];
}

} // namespace

// Transposes, factors, and a bias of each shape that broadcasts.
TEST_CASE("onnx Gemm", "[frontend]") {
  OnnxModel plain = OnnxModel(7).input("a", {2, 2}).input("b", {2, 2}).input("c", {2}).node("Gemm", {"a", "b", "c"}, {"y"}).output("y");
  auto a = [] { return f32({2, 2}, {1, 2, 3, 4}); };
  auto b = [] { return f32({2, 2}, {5, 6, 7, 8}); };
  CHECK(holds(evaluate(plain, {a(), b(), f32({2}, {100, 200})})[0], {2, 2}, {119, 222, 143, 250}));
  OnnxModel full = OnnxModel(17).input("a", {2, 2}).input("b", {2, 2}).input("c", {2, 1});
  full.node("Gemm", {"a", "b", "c"}, {"y"}, {{"transA", int64_t(1)}, {"transB", int64_t(1)}, {"alpha", 0.5f}, {"beta", 2.0f}}).output("y");
  // A^T B^T = [[23, 31], [34, 46]]
  CHECK(holds(evaluate(full, {a(), b(), f32({2, 1}, {1, 10})})[0], {2, 2}, {13.5, 17.5, 37, 43}));
  OnnxModel bare = OnnxModel(17).input("a", {2, 2}).input("b", {2, 2}).node("Gemm", {"a", "b"}, {"y"}).output("y");
  CHECK(holds(evaluate(bare, {a(), b()})[0], {2, 2}, {19, 22, 43, 50}));
  OnnxModel noBias = OnnxModel(17).input("a", {2, 2}).input("b", {2, 2}).input("c", {2});
  noBias.node("Gemm", {"a", "b", "c"}, {"y"}, {{"beta", 0.0f}}).output("y");
  CHECK(holds(evaluate(noBias, {a(), b(), f32({2}, {NAN, NAN})})[0], {2, 2}, {19, 22, 43, 50}));
}

TEST_CASE("onnx Gemm with shapes that do not fit", "[frontend]") {
  OnnxModel k = OnnxModel(17).input("a", {2, 3}).input("b", {2, 3}).node("Gemm", {"a", "b"}, {"y"}, {}, "fc").output("y");
  CHECK_THAT(importError(k), contains("node \"fc\" (Gemm, opset 17): A of tensor<2x3xf32> and B of tensor<2x3xf32> cannot be multiplied"));
  OnnxModel rank = OnnxModel(17).input("a", {2, 3, 1}).input("b", {3, 3}).node("Gemm", {"a", "b"}, {"y"}).output("y");
  CHECK_THAT(importError(rank), contains("are not matrices"));
  OnnxModel bias =
      OnnxModel(17).input("a", {2, 3}).input("b", {3, 4}).input("c", {2, 2, 4}).node("Gemm", {"a", "b", "c"}, {"y"}).output("y");
  CHECK_THAT(importError(bias), contains("C of tensor<2x2x4xf32> cannot be added to the product of tensor<2x4xf32>"));
}

// numpy.matmul: matrices, vectors on either side, batches that broadcast.
TEST_CASE("onnx MatMul", "[frontend]") {
  CHECK(holds(matmul({2, 2}, {1, 2, 3, 4}, {2, 1}, {1, 10}), {2, 1}, {21, 43}));
  CHECK(holds(matmul({2}, {1, 2}, {2, 2}, {1, 2, 3, 4}), {2}, {7, 10}));
  CHECK(holds(matmul({2, 2}, {1, 2, 3, 4}, {2}, {1, 10}), {2}, {21, 43}));
  CHECK(holds(matmul({2}, {1, 2}, {2}, {3, 4}), {}, {11}));
  CHECK(holds(matmul({2, 1, 2}, {1, 2, 3, 4}, {2, 2}, {1, 0, 0, 1}), {2, 1, 2}, {1, 2, 3, 4}));
  CHECK(holds(matmul({2, 1, 2}, {1, 2, 3, 4}, {2}, {1, 10}), {2, 1}, {21, 43}));
  CHECK(holds(matmul({2}, {1, 2}, {2, 2, 1}, {1, 10, 100, 1000}), {2, 1}, {21, 2100}));
  CHECK(holds(matmul({1, 2}, {1, 2}, {2, 2, 1}, {1, 10, 100, 1000}), {2, 1, 1}, {21, 2100}));
  CHECK(holds(matmul({2, 1, 1, 1}, {2, 3}, {2, 1, 1}, {5, 7}), {2, 2, 1, 1}, {10, 14, 15, 21}));
  OnnxModel bad = OnnxModel(17).input("a", {2, 3}).input("b", {2}).node("MatMul", {"a", "b"}, {"y"}).output("y");
  CHECK_THAT(importError(bad), contains("A of tensor<2x3xf32> and B of tensor<2xf32> cannot be multiplied"));
  OnnxModel scalar = OnnxModel(17).input("a", {}).input("b", {2}).node("MatMul", {"a", "b"}, {"y"}).output("y");
  CHECK_THAT(importError(scalar), contains("cannot be multiplied"));
}

// A matrix on the right serves all batches at once, without being repeated.
TEST_CASE("onnx MatMul by a matrix is one product", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("a", {2, 3, 4}).initializer("w", TensorProto::FLOAT, {4, 5}, std::vector<double>(20, 1));
  std::string text = print(*import(model.node("MatMul", {"a", "w"}, {"y"}).output("y")));
  CHECK_THAT(text, contains(": tensor<6x4xf32>, tensor<4x5xf32> -> tensor<6x5xf32>"));
  CHECK(text.find("nn.broadcast") == std::string::npos);
}

// Axes: an attribute at first, an input from opset 13 (sum) or 18 (the others) on; all without.
TEST_CASE("onnx reductions", "[frontend]") {
  auto reduce = [](int64_t opset, const char *op, std::vector<Attribute> attributes, bool axesInput = false) {
    OnnxModel model = OnnxModel(opset).input("x", {2, 3}).ints("axes", {-1});
    model.node(op, axesInput ? std::vector<std::string>{"x", "axes"} : std::vector<std::string>{"x"}, {"y"}, attributes).output("y");
    return evaluate(model, {f32({2, 3}, {1, 2, 3, 4, 5, 60})})[0];
  };
  CHECK(holds(reduce(11, "ReduceSum", {{"axes", Ints{1}}}), {2, 1}, {6, 69}));
  CHECK(holds(reduce(13, "ReduceSum", {{"keepdims", int64_t(0)}}, true), {2}, {6, 69}));
  CHECK(holds(reduce(13, "ReduceSum", {}), {1, 1}, {75}));
  CHECK(holds(reduce(13, "ReduceSum", {{"noop_with_empty_axes", int64_t(1)}}), {2, 3}, {1, 2, 3, 4, 5, 60}));
  CHECK(holds(reduce(13, "ReduceMean", {{"axes", Ints{0}}, {"keepdims", int64_t(0)}}), {3}, {2.5, 3.5, 31.5}));
  CHECK(holds(reduce(18, "ReduceMean", {}, true), {2, 1}, {2, 23}));
  CHECK(holds(reduce(13, "ReduceMax", {{"axes", Ints{-2}}}), {1, 3}, {4, 5, 60}));
  CHECK(holds(reduce(18, "ReduceMax", {{"keepdims", int64_t(0)}}), {}, {60}));
  OnnxModel ints =
      OnnxModel(13).input("x", {4}, TensorProto::INT64).node("ReduceMean", {"x"}, {"y"}, {{"keepdims", int64_t(0)}}).output("y");
  CHECK(holds(evaluate(ints, {i64({4}, {1, 2, 3, 5})})[0], {}, {2}));
}

// Up to opset 12 over all dims from the axis on together, from 13 on over one axis.
TEST_CASE("onnx Softmax", "[frontend]") {
  auto softmax = [](int64_t opset, const char *op, std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(opset).input("x", {2, 2, 1}).node(op, {"x"}, {"y"}, std::move(attributes)).output("y");
    return evaluate(model, {f32({2, 2, 1}, {0, std::log(3), 0, std::log(4)})})[0];
  };
  CHECK(holds(softmax(11, "Softmax", {}), {2, 2, 1}, {0.25, 0.75, 0.2, 0.8}));
  CHECK(holds(softmax(11, "Softmax", {{"axis", int64_t(0)}}), {2, 2, 1}, {1 / 9.0, 3 / 9.0, 1 / 9.0, 4 / 9.0}));
  CHECK(holds(softmax(13, "Softmax", {}), {2, 2, 1}, {1, 1, 1, 1}));
  CHECK(holds(softmax(13, "Softmax", {{"axis", int64_t(1)}}), {2, 2, 1}, {0.25, 0.75, 0.2, 0.8}));
  CHECK(holds(softmax(13, "Softmax", {{"axis", int64_t(0)}}), {2, 2, 1}, {0.5, 3 / 7.0, 0.5, 4 / 7.0}));
  CHECK(
      holds(softmax(13, "LogSoftmax", {{"axis", int64_t(1)}}), {2, 2, 1}, {std::log(0.25), std::log(0.75), std::log(0.2), std::log(0.8)}));
}
// By NumPy.
TEST_CASE("onnx Det", "[frontend]") {
  auto det = [](std::vector<int64_t> shape, std::vector<double> values) {
    OnnxModel model = OnnxModel(11).input("x", {shape.begin(), shape.end()}).node("Det", {"x"}, {"y"}).output("y");
    return evaluate(model, {f32(shape, std::move(values))})[0];
  };
  CHECK(holds(det({1, 1}, {-2.5}), {}, {-2.5}));
  CHECK(holds(det({2, 2, 2}, {1, 2, 3, 4, 0, 1, 1, 0}), {2}, {-2, -1}));
  CHECK(holds(det({3, 3}, {2, 0, 1, 1, 3, -1, 0, 5, 4}), {}, {39}));
  CHECK(holds(det({1, 4, 4}, {1, 0, 2, -1, 3, 0, 0, 5, 2, 1, 4, -3, 1, 0, 5, 0}), {1}, {30}));
  OnnxModel wide = OnnxModel(11).input("x", {5, 5}).node("Det", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(wide), contains("input is [5, 5] of f32; matrices have to be square, of 1 to 4 rows"));
  OnnxModel oblong = OnnxModel(11).input("x", {2, 3}).node("Det", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(oblong), contains("input is [2, 3] of f32; matrices have to be square"));
}

} // namespace ashlar::test::contraction_test
