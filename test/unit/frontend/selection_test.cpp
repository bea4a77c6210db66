// SPDX-License-Identifier: Apache-2.0
//
// Ops whose results have sizes that only a run finds, and what reads such results; expectations by NumPy. Results have their largest size,
// zeros behind the elements that are there, and counts behind the outputs.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ashlar::test::selection_test {

using onnx::TensorProto;

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// x (n, 2) and m (n): the rows of x where m holds are r, counted.
OnnxModel rowsModel(int64_t size = 4) {
  OnnxModel model = OnnxModel(18).input("x", {size, 2}).input("m", {size}, TensorProto::BOOL);
  return model.node("Compress", {"x", "m"}, {"r"}, {{"axis", int64_t(0)}}, "pick");
}

// Runs the model on the rows (1, 2), (3, 4), (5, 6), (7, 8).
std::vector<ashlar::reference::Tensor> run(const OnnxModel &model, std::vector<double> mask) {
  return evaluate(model, {f32({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), boolean({4}, std::move(mask))});
}

// Adds the node that reads r, and may read x.
OnnxModel reading(const std::string &op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
  return rowsModel().node(op, std::move(inputs), {"y"}, std::move(attributes), "n").output("y");
}

} // namespace

TEST_CASE("onnx NonZero of what a run knows", "[frontend]") {
  auto find = [](std::vector<int64_t> shape, ashlar::reference::Tensor x, int32_t type = TensorProto::FLOAT) {
    OnnxModel model = OnnxModel(17).input("x", {shape.begin(), shape.end()}, type).node("NonZero", {"x"}, {"y"}).output("y");
    return evaluate(model, {std::move(x)});
  };
  auto some = find({2, 3}, f32({2, 3}, {1, 0, -2, 0, 0, 3}));
  CHECK(holds(some[0], {2, 6}, {0, 0, 1, 0, 0, 0, 0, 2, 2, 0, 0, 0}));
  CHECK(holds(some[1], {}, {3}));
  CHECK(some[0].getType().getElementType().isInteger(64));
  auto none = find({2}, f32({2}, {0, -0.0}));
  CHECK((holds(none[0], {1, 2}, {0, 0}) && holds(none[1], {}, {0})));
  auto all = find({3}, f32({3}, {kNaN, kInfinity, 1e-45}));
  CHECK((holds(all[0], {1, 3}, {0, 1, 2}) && holds(all[1], {}, {3})));
  auto bools = find({5}, boolean({5}, {0, 1, 0, 1, 1}), TensorProto::BOOL);
  CHECK((holds(bools[0], {1, 5}, {1, 3, 4, 0, 0}) && holds(bools[1], {}, {3})));
  auto cube = find({2, 2, 3}, i64({2, 2, 3}, {0, 1, 0, 2, 0, 0, 0, 0, 3, 0, 4, 5}), TensorProto::INT64);
  CHECK(holds(cube[0], {3, 12},
              {0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0}));
  auto one = find({1}, f32({1}, {2}));
  CHECK((holds(one[0], {1, 1}, {0}) && holds(one[1], {}, {1})));
  OnnxModel scalar = OnnxModel(17).input("x", {}).node("NonZero", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(scalar), contains("input \"X\" is a scalar"));
}

TEST_CASE("onnx Compress by what a run knows", "[frontend]") {
  auto compress = [](int64_t size, std::vector<Attribute> attributes, std::vector<double> condition) {
    OnnxModel model = OnnxModel(11).input("x", {2, 3}).input("c", {size}, TensorProto::BOOL);
    model.node("Compress", {"x", "c"}, {"y"}, std::move(attributes)).output("y");
    return evaluate(model, {f32({2, 3}, {1, 2, 3, 4, 5, 6}), boolean({size}, std::move(condition))});
  };
  auto columns = compress(3, {{"axis", int64_t(1)}}, {1, 0, 1});
  CHECK((holds(columns[0], {2, 3}, {1, 3, 0, 4, 6, 0}) && holds(columns[1], {}, {2})));
  auto rows = compress(2, {{"axis", int64_t(-2)}}, {0, 1});
  CHECK((holds(rows[0], {2, 3}, {4, 5, 6, 0, 0, 0}) && holds(rows[1], {}, {1})));
  auto flat = compress(5, {}, {0, 1, 0, 1, 1});
  CHECK((holds(flat[0], {5}, {2, 4, 5, 0, 0}) && holds(flat[1], {}, {3})));
  CHECK(holds(compress(2, {{"axis", int64_t(0)}}, {0, 0})[1], {}, {0}));
}

TEST_CASE("onnx Unique of what a run knows", "[frontend]") {
  const std::vector<std::string> outputs = {"y", "first", "inverse", "count"};
  auto unique = [&](std::vector<int64_t> shape, ashlar::reference::Tensor x, std::vector<Attribute> attributes, int32_t type) {
    OnnxModel model = OnnxModel(17).input("x", {shape.begin(), shape.end()}, type).node("Unique", {"x"}, outputs, std::move(attributes));
    for (const std::string &output : outputs) {
      model.output(output);
    }
    return evaluate(model, {std::move(x)});
  };
  const Attribute unsorted{"sorted", int64_t(0)};
  auto sorted = unique({6}, i64({6}, {2, 1, 1, 3, 4, 3}), {}, TensorProto::INT64);
  CHECK(holds(sorted[0], {6}, {1, 2, 3, 4, 0, 0}));
  CHECK(holds(sorted[1], {6}, {1, 0, 3, 4, 0, 0}));
  CHECK(holds(sorted[2], {6}, {1, 0, 0, 2, 3, 2}));
  CHECK(holds(sorted[3], {6}, {2, 1, 2, 1, 0, 0}));
  CHECK(sorted.size() == 5); // y, first and count have one count
  CHECK(holds(sorted[4], {}, {4}));
  auto kept = unique({6}, i64({6}, {2, 1, 1, 3, 4, 3}), {unsorted}, TensorProto::INT64);
  CHECK(holds(kept[0], {6}, {2, 1, 3, 4, 0, 0}));
  CHECK(holds(kept[1], {6}, {0, 1, 3, 4, 0, 0}));
  CHECK(holds(kept[2], {6}, {0, 1, 1, 2, 3, 2}));
  CHECK(holds(kept[3], {6}, {1, 2, 2, 1, 0, 0}));
  auto columns = unique({2, 3}, i64({2, 3}, {7, 1, 7, 8, 2, 8}), {{"axis", int64_t(-1)}}, TensorProto::INT64);
  CHECK(holds(columns[0], {2, 3}, {1, 7, 0, 2, 8, 0}));
  CHECK(holds(columns[1], {3}, {1, 0, 0}));
  CHECK(holds(columns[2], {3}, {1, 0, 1}));
  CHECK(holds(columns[4], {}, {2}));
  // Rows are ordered by the first element in which they differ; a later one does not count.
  auto rows = unique({4, 2}, f32({4, 2}, {2, 0, 1, 9, 2, -1, 1, 9}), {{"axis", int64_t(0)}}, TensorProto::FLOAT);
  CHECK(holds(rows[0], {4, 2}, {1, 9, 2, -1, 2, 0, 0, 0}));
  CHECK(holds(rows[2], {4}, {2, 0, 1, 0}));
  CHECK(holds(rows[3], {4}, {2, 1, 1, 0}));
  // A NaN is equal to itself, and the largest; both zeros are equal.
  auto odd = unique({6}, f32({6}, {kNaN, 1, kInfinity, kNaN, -0.0, 0}), {}, TensorProto::FLOAT);
  CHECK(holds(odd[0], {6}, {0, 1, kInfinity, kNaN, 0, 0}));
  CHECK(holds(odd[1], {6}, {4, 1, 2, 0, 0, 0}));
  CHECK(holds(odd[2], {6}, {3, 1, 2, 3, 0, 0}));
  auto flags = unique({2, 2}, boolean({2, 2}, {1, 0, 1, 1}), {}, TensorProto::BOOL);
  CHECK(holds(flags[0], {4}, {0, 1, 0, 0}));
  CHECK(flags[0].getType().getElementType().isInteger(1));
  OnnxModel large = OnnxModel(17).input("x", {40000}).node("Unique", {"x"}, {"y"}).output("y");
  CHECK_THAT(importError(large), contains("compares 40000 slices of input \"X\", each with each other, but at most 32768"));
}

namespace {

// Two samples of three classes and seven boxes, some of which overlap, some without an area, with equal scores and a NaN among them.
struct Scene {
  std::vector<double> boxes, scores;

  Scene() {
    uint64_t state = 7;
    auto draw = [&](uint64_t below) {
      return static_cast<double>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) / 2147483648.0 *
             static_cast<double>(below);
    };
    for (int i = 0; i < 2 * 7 * 4; ++i) {
      boxes.push_back(std::floor(draw(12)) / 4);
    }
    for (int i = 0; i < 2 * 3 * 7; ++i) {
      scores.push_back(std::floor(draw(9)) / 8);
    }
    scores[4] = kNaN;
  }
};

// Boxes, scores and at most `most` a class: known to the compiler where their bits of `known` are set.
std::vector<ashlar::reference::Tensor> suppress(unsigned known, double most, double overlap, double least, int64_t isCentred) {
  Scene scene;
  OnnxModel model(11);
  std::vector<ashlar::reference::Tensor> inputs;
  auto add = [&](unsigned bit, const std::string &name, int32_t type, std::vector<int64_t> shape, std::vector<double> values) {
    if (known >> bit & 1) {
      model.initializer(name, type, shape, values);
      return;
    }
    model.input(name, {shape.begin(), shape.end()}, type);
    inputs.push_back(type == TensorProto::INT64 ? i64(shape, values) : f32(shape, values));
  };
  add(0, "b", TensorProto::FLOAT, {2, 7, 4}, scene.boxes);
  add(1, "s", TensorProto::FLOAT, {2, 3, 7}, scene.scores);
  add(2, "m", TensorProto::INT64, {1}, {most});
  add(3, "o", TensorProto::FLOAT, {}, {overlap});
  add(4, "l", TensorProto::FLOAT, {1}, {least});
  model.node("NonMaxSuppression", {"b", "s", "m", "o", "l"}, {"y"}, {{"center_point_box", isCentred}}).output("y");
  return evaluate(model, std::move(inputs));
}

} // namespace

// The compiler's own suppression, a plain loop over sorted boxes, says what is to be found.
TEST_CASE("onnx NonMaxSuppression of what a run knows", "[frontend]") {
  constexpr unsigned kAll = 0b11111;
  size_t least = 42, most = 0;
  for (int64_t isCentred : {0, 1}) {
    for (double overlap : {0.0, 0.3, 0.8}) {
      for (double count : {1.0, 3.0, 100.0}) {
        auto expected = suppress(kAll, count, overlap, 0.25, isCentred)[0];
        const auto rows = static_cast<size_t>(expected.getShape()[0]);
        least = std::min(least, rows), most = std::max(most, rows);
        for (unsigned known : {0u, 0b00100u, 0b11101u, 0b11110u}) {
          INFO(isCentred << " " << overlap << " " << count << " " << known);
          auto found = suppress(known, count, overlap, 0.25, isCentred);
          REQUIRE(holds(found[1], {}, {static_cast<double>(rows)}));
          const bool isBounded = known >> 2 & 1;
          REQUIRE(found[0].getShape()[0] == (isBounded ? 6 * std::min(static_cast<int64_t>(count), int64_t(7)) : 42));
          for (size_t i = 0; i < 3 * static_cast<size_t>(found[0].getShape()[0]); ++i) {
            REQUIRE(found[0].getInt(i) == (i < 3 * rows ? expected.getInt(i) : 0));
          }
        }
      }
    }
  }
  CHECK(least == 6); // one a class
  CHECK(most > 20);
}

TEST_CASE("onnx NonMaxSuppression reports its faults", "[frontend]") {
  auto model = [](std::vector<Dim> boxes, std::vector<Dim> scores) {
    return OnnxModel(11).input("b", std::move(boxes)).input("s", std::move(scores)).input("m", {}, TensorProto::INT64);
  };
  OnnxModel bare = model({1, 2, 4}, {1, 3, 2}).node("NonMaxSuppression", {"b", "s"}, {"y"}).output("y");
  CHECK(evaluate(bare, {f32({1, 2, 4}, std::vector<double>(8, 1)), f32({1, 3, 2}, std::vector<double>(6, 1)), i64({}, {1})})[0]
            .getNumElements() == 0);
  CHECK_THAT(importError(model({1, 2, 4}, {1, 3, 3}).node("NonMaxSuppression", {"b", "s", "m"}, {"y"}).output("y")),
             contains("they have to be (batch, boxes, 4) and (batch, classes, boxes) of f32"));
  CHECK_THAT(importError(model({1, 3000, 4}, {1, 1, 3000}).node("NonMaxSuppression", {"b", "s", "m"}, {"y"}).output("y")),
             contains("may keep 3000 boxes of a class, a round of the program each, but at most 2048 rounds are written out"));
}

// A boolean index of torch: NonZero, Transpose, GatherND; and what follows for each element by itself.
TEST_CASE("onnx ops for each element of a counted dim", "[frontend]") {
  OnnxModel model = OnnxModel(17).input("x", {2, 3}).initializer("w", TensorProto::FLOAT, {}, {10}).ints("one", {1});
  model.node("Greater", {"x", "zero"}, {"m"}).initializer("zero", TensorProto::FLOAT, {}, {0}).node("NonZero", {"m"}, {"places"});
  model.node("Transpose", {"places"}, {"tuples"}).node("GatherND", {"x", "tuples"}, {"v"}).node("Mul", {"v", "w"}, {"scaled"});
  model.node("Unsqueeze", {"scaled", "one"}, {"column"}).node("Cast", {"tuples"}, {"t"}, {{"to", int64_t(TensorProto::FLOAT)}});
  model.node("Concat", {"t", "column"}, {"y"}, {{"axis", int64_t(1)}}).output("y").output("m").output("places");
  auto results = evaluate(model, {f32({2, 3}, {-1, 5, 0, 7, -2, 9})});
  CHECK(holds(results[0], {6, 3}, {0, 1, 50, 1, 0, 70, 1, 2, 90, 0, 0, -10, 0, 0, -10, 0, 0, -10}));
  CHECK(holds(results[3], {}, {3}));
  std::string text = print(*import(model));
  CHECK_THAT(text, contains("nn.counts = [\"y.count\", \"\"], nn.name = \"y\"") &&
                       contains("nn.counts = [\"\", \"y.count\"], nn.name = \"places\""));
  CHECK_THAT(text, contains("tensor<i64> {nn.internal, nn.name = \"y.count\"}"));
}

TEST_CASE("onnx reductions of a counted dim", "[frontend]") {
  auto reduce = [](const std::string &op, std::vector<double> axes, std::vector<double> mask, int64_t keep = 0) {
    OnnxModel model = rowsModel().ints("axes", std::move(axes)).node(op, {"r", "axes"}, {"y"}, {{"keepdims", keep}}).output("y");
    return run(model, std::move(mask))[0];
  };
  const std::vector<double> mask = {1, 0, 1, 0}; // (1, 2), (5, 6)
  CHECK(holds(reduce("ReduceSum", {0}, mask), {2}, {6, 8}));
  CHECK(holds(reduce("ReduceSum", {0, 1}, mask), {}, {14}));
  CHECK(holds(reduce("ReduceMean", {0}, mask, 1), {1, 2}, {3, 4}));
  CHECK(holds(reduce("ReduceMean", {0, 1}, mask), {}, {3.5}));
  CHECK(holds(reduce("ReduceMin", {0}, mask), {2}, {1, 2}));
  CHECK(holds(reduce("ReduceMax", {0}, {1, 0, 0, 0}), {2}, {1, 2}));
  CHECK(holds(reduce("ReduceProd", {0}, mask), {2}, {5, 12}));
  CHECK(holds(reduce("ReduceL2", {0, 1}, mask), {}, {std::sqrt(66)}));
  CHECK(
      holds(reduce("ReduceLogSumExp", {0}, mask), {2}, {std::log(std::exp(1.0) + std::exp(5.0)), std::log(std::exp(2.0) + std::exp(6.0))}));
  CHECK(holds(reduce("ReduceSum", {0}, {0, 0, 0, 0}), {2}, {0, 0}));
  CHECK(holds(reduce("ReduceMax", {0}, {0, 0, 0, 0}), {2}, {-kInfinity, -kInfinity}));
  // Along another dim the rows stay apart.
  auto rows = run(rowsModel().ints("axes", {1}).node("ReduceMean", {"r", "axes"}, {"y"}, {{"keepdims", int64_t(0)}}).output("y"), mask);
  CHECK((holds(rows[0], {4}, {1.5, 5.5, 0, 0}) && holds(rows[1], {}, {2})));
  OnnxModel integers = OnnxModel(18).input("x", {3}, TensorProto::INT64).input("m", {3}, TensorProto::BOOL).ints("axes", {0});
  integers.node("Compress", {"x", "m"}, {"r"}).node("ReduceMin", {"r", "axes"}, {"y"}).node("ReduceMean", {"r", "axes"}, {"z"});
  auto found = evaluate(integers.output("y").output("z"), {i64({3}, {7, -9, 4}), boolean({3}, {1, 0, 1})});
  CHECK((holds(found[0], {1}, {4}) && holds(found[1], {1}, {5})));
}

TEST_CASE("onnx Softmax along a counted dim", "[frontend]") {
  auto rows = run(reading("Softmax", {"r"}, {{"axis", int64_t(0)}}), {0, 1, 1, 0}); // (3, 4), (5, 6)
  const double share = 1 / (1 + std::exp(2.0));
  CHECK(holds(rows[0], {4, 2}, {share, share, 1 - share, 1 - share, 0, 0, 0, 0}));
  CHECK(holds(rows[1], {}, {2}));
}

TEST_CASE("onnx Shape and Size of a counted dim", "[frontend]") {
  CHECK(holds(run(reading("Shape", {"r"}), {1, 1, 0, 1})[0], {2}, {3, 2}));
  CHECK(holds(run(reading("Shape", {"r"}, {{"end", int64_t(1)}}), {0, 0, 0, 0})[0], {1}, {0}));
  CHECK(holds(run(reading("Size", {"r"}), {1, 1, 0, 1})[0], {}, {6}));
  // A size that is known stays so.
  OnnxModel model = rowsModel().node("Shape", {"r"}, {"s"}, {{"start", int64_t(1)}}).node("ConstantOfShape", {"s"}, {"y"}).output("y");
  CHECK(holds(run(model, {1, 1, 0, 1})[0], {2}, {0, 0}));
}

TEST_CASE("onnx Gather and GatherND from a counted dim", "[frontend]") {
  auto rows = run(rowsModel().ints("i", {-1, 0, 2}).node("Gather", {"r", "i"}, {"y"}).output("y"), {1, 1, 0, 0});
  CHECK(holds(rows[0], {3, 2}, {3, 4, 1, 2, 0, 0}));
  CHECK(rows.size() == 1); // no dim of the result is counted
  OnnxModel last = rowsModel().initializer("i", TensorProto::INT64, {}, {-1}).node("Gather", {"r", "i"}, {"y"}).output("y");
  CHECK(holds(run(last, {1, 0, 1, 0})[0], {2}, {5, 6}));
  OnnxModel tuples = rowsModel().initializer("i", TensorProto::INT64, {2, 2}, {-1, 1, 0, -2}).node("GatherND", {"r", "i"}, {"y"});
  CHECK(holds(run(tuples.output("y"), {0, 1, 1, 0})[0], {2}, {6, 3}));
}

TEST_CASE("onnx selections from a counted dim", "[frontend]") {
  // The rows of r whose first element is above 2.
  OnnxModel model = rowsModel().ints("zero", {0}).node("Gather", {"r", "zero"}, {"first"}, {{"axis", int64_t(1)}});
  model.ints("one", {1}).initializer("two", TensorProto::FLOAT, {}, {2}).node("Squeeze", {"first", "one"}, {"f"});
  model.node("Greater", {"f", "two"}, {"large"}).node("Compress", {"r", "large"}, {"y"}, {{"axis", int64_t(0)}}).output("y");
  auto rows = run(model, {1, 0, 1, 1});
  CHECK((holds(rows[0], {4, 2}, {5, 6, 7, 8, 0, 0, 0, 0}) && holds(rows[1], {}, {2})));
  OnnxModel places = rowsModel().node("NonZero", {"r"}, {"y"}).output("y");
  auto found = run(places, {1, 0, 0, 0});
  CHECK((holds(found[0], {2, 8}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}) && holds(found[1], {}, {2})));
  // Padding is no row of its own, and has no place among them.
  OnnxModel unique = OnnxModel(18).input("x", {4}).input("m", {4}, TensorProto::BOOL).node("Compress", {"x", "m"}, {"r"});
  unique.node("Unique", {"r"}, {"y", "first", "inverse", "count"}).output("y").output("inverse").output("count");
  auto distinct = evaluate(unique, {f32({4}, {3, 1, 3, -2}), boolean({4}, {1, 1, 1, 0})});
  CHECK((holds(distinct[0], {4}, {1, 3, 0, 0}) && holds(distinct[2], {4}, {1, 2, 0, 0})));
  CHECK((holds(distinct[3], {}, {2}) && holds(distinct[4], {}, {3}))); // of y and count; of inverse
  CHECK((distinct[1].getInt(0) == 1 && distinct[1].getInt(1) == 0 && distinct[1].getInt(2) == 1));
}

// An assignment by a boolean index: updates that are not there go nowhere.
TEST_CASE("onnx ScatterND of counted updates", "[frontend]") {
  OnnxModel model = rowsModel().node("NonZero", {"m"}, {"places"}).node("Transpose", {"places"}, {"tuples"});
  model.node("GatherND", {"x", "tuples"}, {"v"}).node("Neg", {"v"}, {"u"}).node("ScatterND", {"x", "tuples", "u"}, {"y"}).output("y");
  CHECK(holds(run(model, {0, 1, 0, 1})[0], {4, 2}, {1, 2, -3, -4, 5, 6, -7, -8}));
}

TEST_CASE("onnx ops that would mix padding in are refused", "[frontend]") {
  auto error = [](const std::string &op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    return importError(reading(op, std::move(inputs), std::move(attributes)));
  };
  const std::string most =
      "input 0 \"r\" has at most 4 elements along a dim, how many only a run finds, and the op would mix them with the "
      "padding after them; keep the original tensor, and a mask of the selection";
  CHECK_THAT(error("Gemm", {"r", "x"}, {{"transA", int64_t(1)}}), contains("node \"n\" (Gemm, opset 18): " + most));
  CHECK_THAT(error("Flatten", {"r"}, {{"axis", int64_t(0)}}), contains(most));
  CHECK_THAT(error("Concat", {"r", "x"}, {{"axis", int64_t(0)}}), contains(most));
  CHECK_THAT(error("ArgMax", {"r"}, {{"axis", int64_t(0)}}), contains(most));
  CHECK_THAT(error("LpNormalization", {"r"}, {{"axis", int64_t(0)}}), contains(most));
  CHECK_THAT(error("Add", {"r", "x"}), contains("and the op joins them with a tensor that always has 4 elements there"));
  CHECK_THAT(error("Concat", {"x", "r"}, {{"axis", int64_t(1)}}), contains("input 1 \"r\" has at most 4 elements"));
  CHECK_THAT(error("RandomUniformLike", {"r"}), contains("takes the shape of input 0 \"r\", which only a run finds"));
  OnnxModel two = rowsModel().input("k", {4}, TensorProto::BOOL).node("Compress", {"x", "k"}, {"s"}, {{"axis", int64_t(0)}});
  CHECK_THAT(importError(two.node("Add", {"r", "s"}, {"y"}).output("y")), contains("joins them with a tensor that has another count"));
  // A row that is repeated fits any number of rows.
  OnnxModel row = rowsModel().initializer("b", TensorProto::FLOAT, {1, 2}, {10, 20}).node("Add", {"r", "b"}, {"y"}).output("y");
  CHECK(holds(run(row, {1, 0, 0, 0})[0], {4, 2}, {11, 22, 10, 20, 10, 20, 10, 20}));
}

TEST_CASE("onnx losses of a counted dim are refused", "[frontend]") {
  ashlar::frontend::ImportOptions options;
  options.training = true;
  options.loss = "y";
  CHECK_THAT(importError(reading("Relu", {"r"}), options), contains("the loss is of \"y\", which has a dim whose size only a run finds"));
  OnnxModel reduced = rowsModel().ints("axes", {0, 1}).node("ReduceMean", {"r", "axes"}, {"y"}).output("y").output("r");
  std::string text = print(*import(reduced, options));
  CHECK(text.find("nn.counts") == std::string::npos); // nothing is written
}

// A count has a name that no output has.
TEST_CASE("onnx counts have names of their own", "[frontend]") {
  OnnxModel model = rowsModel().node("Relu", {"r"}, {"y"}).node("Neg", {"x"}, {"y.count"}).output("y").output("y.count");
  CHECK_THAT(print(*import(model)), contains("nn.counts = [\"y.count_\", \"\"]"));
}

} // namespace ashlar::test::selection_test
