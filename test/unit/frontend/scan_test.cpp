// SPDX-License-Identifier: Apache-2.0
//
// CumSum and CumProd against plain loops.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/frontend/recorded.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

namespace ashlar::test::scan_test {

using onnx::TensorProto;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
using Numbers = std::vector<double>;

struct Form {
  bool isProduct, exclusive, reverse;
};

// x (rows, size, columns), along the dim in the middle.
OnnxModel scan(Form form, std::vector<Dim> shape, int64_t axis, int32_t type = TensorProto::FLOAT) {
  OnnxModel model = OnnxModel(form.isProduct ? 26 : 14).input("x", std::move(shape), type);
  model.initializer("axis", TensorProto::INT32, {}, {static_cast<double>(axis)});
  return model
      .node(form.isProduct ? "CumProd" : "CumSum", {"x", "axis"}, {"y"},
            {{"exclusive", int64_t(form.exclusive)}, {"reverse", int64_t(form.reverse)}})
      .output("y");
}

Numbers expectedOf(Form form, const Numbers &x, int64_t size, int64_t columns) {
  Numbers y(x.size());
  for (int64_t row = 0; row < static_cast<int64_t>(x.size()) / (size * columns); ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      double sum = form.isProduct ? 1 : 0;
      for (int64_t step = 0; step < size; ++step) {
        int64_t at = (row * size + (form.reverse ? size - 1 - step : step)) * columns + column;
        double next = form.isProduct ? sum * x[at] : sum + x[at];
        y[at] = form.exclusive ? sum : next;
        sum = next;
      }
    }
  }
  return y;
}

std::vector<Form> allForms() {
  std::vector<Form> forms;
  for (int i = 0; i < 8; ++i) {
    forms.push_back({(i & 1) != 0, (i & 2) != 0, (i & 4) != 0});
  }
  return forms;
}

Numbers numbers(int64_t count) {
  Numbers values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(i * 37 % 101) / 64 - 0.75);
  }
  return values;
}

} // namespace

TEST_CASE("onnx CumSum and CumProd of every size", "[frontend][scan]") {
  for (Form form : allForms()) {
    for (int64_t size : {0, 1, 2, 3, 4, 7, 8, 9, 17}) {
      INFO(form.isProduct << form.exclusive << form.reverse << ", size " << size);
      Numbers x = numbers(2 * size * 3);
      auto y = evaluate(scan(form, {2, size, 3}, -2), {f32({2, size, 3}, x)})[0];
      CHECK(holds(y, {2, size, 3}, size == 0 ? Numbers() : expectedOf(form, x, size, 3)));
    }
  }
}

TEST_CASE("onnx CumSum and CumProd: types and special values", "[frontend][scan]") {
  auto sum = [](const Numbers &x) { return evaluate(scan({}, {4}, 0), {f32({4}, x)})[0]; };
  CHECK(holds(sum({1, kInfinity, 1, -kInfinity}), {4}, {1, kInfinity, kInfinity, kNaN}));
  CHECK(holds(sum({1, 2, kNaN, 3}), {4}, {1, 3, kNaN, kNaN}));
  CHECK(holds(evaluate(scan({true}, {3}, 0), {f32({3}, {2, kInfinity, 0})})[0], {3}, {2, kInfinity, kNaN}));
  CHECK(holds(evaluate(scan({}, {3}, 0, TensorProto::INT64), {i64({3}, {1, 2, -5})})[0], {3}, {1, 3, -2}));
  // In f16, 2048 + 1 + 1 would stay 2048.
  auto f16 = mlir::Float16Type::get(&context());
  CHECK(holds(evaluate(scan({}, {3}, 0, TensorProto::FLOAT16), {makeTensor(f16, {3}, {2048, 1, 1})})[0], {3}, {2048, 2048, 2050}));
  CHECK_THAT(importError(scan({}, {3}, 1)), contains("axis 1 is not in [-1, 1)"));
  OnnxModel two = OnnxModel(14).input("x", {3}).ints("axis", {0, 0}).node("CumSum", {"x", "axis"}, {"y"}).output("y");
  CHECK_THAT(importError(two), contains("input \"axis\" has 2 elements, not 1"));
}

TEST_CASE("onnx CumSum and CumProd: gradients", "[frontend][scan]") {
  for (Form form : allForms()) {
    INFO(form.isProduct << form.exclusive << form.reverse);
    Numbers x = numbers(2 * 7);
    x[3] = x[9] = x[11] = 0;
    auto input = makeTensor(mlir::Float64Type::get(&context()), {2, 7}, x);
    CHECK(gradientDifference(scan(form, {2, 7}, 1, TensorProto::DOUBLE), {input}) == "");
  }
}

} // namespace ashlar::test::scan_test
