// SPDX-License-Identifier: Apache-2.0
//
// Ops of what is known; expectations by NumPy.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::known_ops_test {

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
  // Since opset 27 bounds may have 16 bits: 0, 1 and 2^-10 of f16, computed in f32.
  auto narrow = [](int64_t stash) {
    return scalars(TensorProto::FLOAT16, 0, 0x3c00, 0x1400).node("Range", {"a", "b", "c"}, {"y"}, {{"stash_type", stash}}, "n").output("y");
  };
  auto table = evaluate(narrow(1), {})[0];
  CHECK((table.getNumElements() == 1024 && table.getNumber(1023) == 1023.0 / 1024));
  CHECK_THAT(importError(narrow(10)), contains("attribute \"stash_type\" is 10 but ranges of 16-bit floats are computed in FLOAT (1)"));
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

// By ONNX Runtime; a symmetric window of one element is 0 / 0.
TEST_CASE("onnx HannWindow, HammingWindow and BlackmanWindow", "[frontend]") {
  auto window = [](const std::string &op, double size, std::vector<Attribute> attributes) {
    return run(OnnxModel(17).initializer("n", TensorProto::INT64, {}, {size}), op, {"n"}, {"y"}, std::move(attributes))[0];
  };
  Attribute symmetric{"periodic", int64_t(0)};
  CHECK(holds(window("HannWindow", 5, {}), {5}, {0, 0.3454915, 0.9045085, 0.9045085, 0.3454915}));
  CHECK(holds(window("HannWindow", 5, {symmetric}), {5}, {0, 0.5, 1, 0.5, 0}));
  CHECK(holds(window("HammingWindow", 5, {}), {5}, {0.0869565, 0.4024052, 0.9128121, 0.9128121, 0.4024052}));
  CHECK(holds(window("HammingWindow", 5, {symmetric}), {5}, {0.0869565, 0.5434783, 1, 0.5434783, 0.0869565}));
  CHECK(holds(window("BlackmanWindow", 5, {}), {5}, {0, 0.2007702, 0.8492299, 0.8492299, 0.2007702}));
  CHECK(holds(window("BlackmanWindow", 5, {symmetric}), {5}, {0, 0.34, 1, 0.34, 0}));
  CHECK(std::isnan(window("HannWindow", 1, {symmetric}).getFloat(0)));
  CHECK(window("HannWindow", 0, {}).getNumElements() == 0);
  auto wide = window("HannWindow", 4, {{"output_datatype", int64_t(TensorProto::DOUBLE)}});
  CHECK(wide.getType().getElementType().isF64());
  CHECK(holds(wide, {4}, {0, 0.5, 1, 0.5}));
  CHECK_THAT(importError(OnnxModel(17).ints("n", {-1}).node("HannWindow", {"n"}, {"y"}).output("y")),
             contains("input \"size\" is not one number that is not negative"));
}

// ONNX's examples, by ONNX Runtime. The boxes are no parameters.
TEST_CASE("onnx NonMaxSuppression", "[frontend]") {
  const std::vector<double> corners = {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100, 1, 101};
  auto suppress = [](std::vector<double> boxes, double most, double overlap, double least, std::vector<Attribute> attributes) {
    OnnxModel model = OnnxModel(11).initializer("b", TensorProto::FLOAT, {1, 6, 4}, std::move(boxes));
    model.initializer("s", TensorProto::FLOAT, {1, 2, 6}, {0.9, 0.75, 0.6, 0.95, 0.5, 0.3, 0.1, 0.2, 0.9, 0.9, 0.3, 0.3}).ints("m", {most});
    model.initializer("o", TensorProto::FLOAT, {1}, {overlap}).initializer("l", TensorProto::FLOAT, {1}, {least});
    return run(model, "NonMaxSuppression", {"b", "s", "m", "o", "l"}, {"y"}, std::move(attributes))[0];
  };
  const std::vector<double> three = {0, 0, 3, 0, 0, 0, 0, 0, 5, 0, 1, 2, 0, 1, 3, 0, 1, 5};
  CHECK(holds(suppress(corners, 3, 0.5, 0, {}), {6, 3}, three));
  CHECK(holds(suppress(corners, 2, 0.5, 0.4, {}), {4, 3}, {0, 0, 3, 0, 0, 0, 0, 1, 2, 0, 1, 3}));
  CHECK(holds(suppress(corners, 0, 0.5, 0, {}), {0, 3}, {}));
  CHECK(suppress(corners, 6, 1, 0, {}).getShape().front() == 12);
  std::vector<double> turned;
  for (size_t i = 0; i < corners.size(); i += 4) {
    turned.insert(turned.end(), {corners[i + 2], corners[i + 3], corners[i], corners[i + 1]});
  }
  CHECK(holds(suppress(turned, 3, 0.5, 0, {}), {6, 3}, three));
  CHECK(holds(suppress({0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1, 0.5, 0.4, 1, 1, 0.5, 10.5, 1, 1, 0.5, 10.6, 1, 1, 0.5, 100.5, 1, 1}, 30, 0.5, 0,
                       {{"center_point_box", int64_t(1)}}),
              {6, 3}, three));
  OnnxModel bare =
      OnnxModel(11).initializer("b", TensorProto::FLOAT, {1, 1, 4}, {0, 0, 1, 1}).initializer("s", TensorProto::FLOAT, {1, 1, 1}, {1});
  CHECK(run(bare, "NonMaxSuppression", {"b", "s"})[0].getNumElements() == 0); // at most 0 boxes a class
}

} // namespace ashlar::test::known_ops_test
