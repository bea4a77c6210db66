// SPDX-License-Identifier: Apache-2.0
//
// Sequences and optional values.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

namespace ashlar::test::sequence_test {

using onnx::TensorProto;

namespace {

// x (4, 2) = 1..8 and positions; nodes are added.
OnnxModel onRows(int64_t opset = 17) {
  return OnnxModel(opset)
      .input("x", {4, 2})
      .ints("two", {2, 2})
      .initializer("three", TensorProto::INT64, {}, {3})
      .initializer("one", TensorProto::INT64, {}, {1})
      .initializer("last", TensorProto::INT64, {}, {-1});
}

ashlar::reference::Tensor run(OnnxModel model) {
  return evaluate(model.output("y"), {f32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})})[0];
}

} // namespace

TEST_CASE("onnx sequences are known element by element", "[frontend]") {
  CHECK(holds(run(onRows().node("SplitToSequence", {"x", "two"}, {"s"}).node("SequenceAt", {"s", "last"}, {"y"})), {2, 2}, {5, 6, 7, 8}));
  CHECK(holds(run(onRows().node("SplitToSequence", {"x", "three"}, {"s"}).node("SequenceAt", {"s", "one"}, {"y"})), {1, 2}, {7, 8}));
  for (int64_t opset : {11, 17}) { // lists of axes and sizes were attributes before opset 13
    OnnxModel rows = onRows(opset).node("SplitToSequence", {"x"}, {"s"}, {{"keepdims", int64_t(0)}});
    CHECK(holds(run(OnnxModel(rows).node("SequenceAt", {"s", "one"}, {"y"})), {2}, {3, 4}));
    rows.node("ConcatFromSequence", {"s"}, {"y"}, {{"axis", int64_t(1)}, {"new_axis", int64_t(1)}});
    CHECK(holds(run(rows), {2, 4}, {1, 3, 5, 7, 2, 4, 6, 8}));
  }
  CHECK(holds(run(onRows().node("SplitToSequence", {"x"}, {"s"}, {{"axis", int64_t(1)}}).node("SequenceAt", {"s", "one"}, {"y"})), {4, 1},
              {2, 4, 6, 8}));
  CHECK(holds(run(onRows().node("SplitToSequence", {"x"}, {"s"}).node("SequenceLength", {"s"}, {"y"})), {}, {4}));
  // Built, changed and joined: x, 2x, then without the first.
  OnnxModel built = onRows().node("Add", {"x", "x"}, {"xx"}).node("SequenceEmpty", {}, {"e"}).node("SequenceInsert", {"e", "xx"}, {"s1"});
  built.initializer("zero", TensorProto::INT64, {}, {0}).node("SequenceInsert", {"s1", "x", "zero"}, {"s2"});
  OnnxModel stacked = built;
  stacked.node("ConcatFromSequence", {"s2"}, {"y"}, {{"axis", int64_t(0)}, {"new_axis", int64_t(1)}});
  CHECK(holds(run(stacked), {2, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 6, 8, 10, 12, 14, 16}));
  OnnxModel erased = built;
  erased.node("SequenceErase", {"s2", "zero"}, {"s3"})
      .node("Identity", {"s3"}, {"s4"})
      .node("ConcatFromSequence", {"s4"}, {"y"}, {{"axis", int64_t(1)}});
  CHECK(holds(run(erased), {4, 2}, {2, 4, 6, 8, 10, 12, 14, 16}));
  CHECK(holds(run(onRows().node("SequenceConstruct", {"x", "x"}, {"s"}).node("SequenceAt", {"s", "one"}, {"y"})), {4, 2},
              {1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_CASE("onnx sequences report their faults", "[frontend]") {
  OnnxModel split = onRows().node("SplitToSequence", {"x", "two"}, {"s"});
  auto error = [&](const std::string &op, std::vector<std::string> inputs) {
    OnnxModel model = split;
    return importError(model.node(op, std::move(inputs), {"y"}, {}, "n").output("y"));
  };
  CHECK_THAT(error("SequenceAt", {"s", "three"}), contains("position 3 is not in [-2, 2)"));
  CHECK_THAT(error("Relu", {"s"}), contains("\"s\" is a sequence of 2 tensors but is used as a tensor"));
  CHECK_THAT(error("SequenceLength", {"x"}), contains("input 0 is no sequence"));
  CHECK_THAT(importError(split.output("s")), contains("is a sequence of 2 tensors"));
}

TEST_CASE("onnx optional values", "[frontend]") {
  CHECK(holds(run(onRows().node("Optional", {"x"}, {"o"}).node("OptionalGetElement", {"o"}, {"y"})), {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK(holds(run(onRows().node("Optional", {"x"}, {"o"}).node("OptionalHasElement", {"o"}, {"y"})), {}, {1}));
  CHECK(holds(run(onRows().node("OptionalHasElement", {}, {"y"})), {}, {0}));
}

} // namespace ashlar::test::sequence_test
