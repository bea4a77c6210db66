// SPDX-License-Identifier: Apache-2.0
//
// Ops of what is known; expectations by NumPy.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

using namespace ashlar::test;
using onnx::TensorProto;

namespace {

std::vector<ashlar::reference::Tensor> run(OnnxModel model, const std::string &op, std::vector<std::string> inputs,
                                           std::vector<std::string> outputs = {"y"}, std::vector<Attribute> attributes = {}) {
  model.node(op, std::move(inputs), outputs, std::move(attributes));
  for (const std::string &output : outputs) {
    model.output(output);
  }
  return evaluate(model, {});
}

OnnxModel scalars(int32_t type, double start, double limit, double delta) {
  return OnnxModel(17).initializer("a", type, {}, {start}).initializer("b", type, {}, {limit}).initializer("c", type, {}, {delta});
}

} // namespace

TEST_CASE("onnx Range", "[frontend]") {
  auto range = [](int32_t type, double start, double limit, double delta) {
    return run(scalars(type, start, limit, delta), "Range", {"a", "b", "c"})[0];
  };
  CHECK(holds(range(TensorProto::INT64, 2, 11, 3), {3}, {2, 5, 8}));
  CHECK(holds(range(TensorProto::INT64, 10, 4, -2), {3}, {10, 8, 6}));
  CHECK(holds(range(TensorProto::FLOAT, 1, 2, 0.25), {4}, {1, 1.25, 1.5, 1.75}));
  CHECK(range(TensorProto::INT32, 5, 5, 1).getNumElements() == 0);
  CHECK(range(TensorProto::INT64, 5, 1, 1).getNumElements() == 0);
  auto error = [](double limit, double delta) {
    return importError(scalars(TensorProto::FLOAT, 0, limit, delta).node("Range", {"a", "b", "c"}, {"y"}, {}, "n").output("y"));
  };
  CHECK_THAT(error(1, 0), contains("has no end"));
  CHECK_THAT(error(1e30, 1), contains("handled at import"));
  CHECK_THAT(importError(
                 scalars(TensorProto::INT64, 0, 1, 1).input("x", {}, TensorProto::INT64).node("Range", {"a", "x", "c"}, {"y"}).output("y")),
             contains("input \"limit\" has to be known at compile time"));
}

TEST_CASE("onnx NonZero", "[frontend]") {
  OnnxModel model = OnnxModel(17).initializer("m", TensorProto::INT64, {2, 3}, {1, 0, -2, 0, 0, 3});
  CHECK(holds(run(model, "NonZero", {"m"})[0], {2, 3}, {0, 0, 1, 0, 2, 2}));
  CHECK(holds(run(OnnxModel(17).initializer("m", TensorProto::BOOL, {3}, {1, 0, 1}), "NonZero", {"m"})[0], {1, 2}, {0, 2}));
}

TEST_CASE("onnx Unique", "[frontend]") {
  OnnxModel model = OnnxModel(17).ints("v", {2, 1, 1, 3, 4, 3}).initializer("m", TensorProto::INT64, {2, 3}, {7, 1, 7, 8, 2, 8});
  std::vector<std::string> outputs = {"y", "first", "inverse", "count"};
  auto sorted = run(model, "Unique", {"v"}, outputs);
  CHECK(holds(sorted[0], {4}, {1, 2, 3, 4}));
  CHECK(holds(sorted[1], {4}, {1, 0, 3, 4}));
  CHECK(holds(sorted[2], {6}, {1, 0, 0, 2, 3, 2}));
  CHECK(holds(sorted[3], {4}, {2, 1, 2, 1}));
  auto unsorted = run(model, "Unique", {"v"}, outputs, {{"sorted", int64_t(0)}});
  CHECK(holds(unsorted[0], {4}, {2, 1, 3, 4}));
  CHECK(holds(unsorted[2], {6}, {0, 1, 1, 2, 3, 2}));
  auto columns = run(model, "Unique", {"m"}, outputs, {{"axis", int64_t(-1)}});
  CHECK(holds(columns[0], {2, 2}, {1, 7, 2, 8}));
  CHECK(holds(columns[1], {2}, {1, 0}));
  CHECK(holds(columns[2], {3}, {1, 0, 1}));
}
