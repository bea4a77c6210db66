// SPDX-License-Identifier: Apache-2.0
//
// B samples of T tokens, E experts, C slots of an expert for a sample.

#include "tools/ashlar_zoo/expert_layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace ashlar::zoo {

namespace {

class Experts {
public:
  Experts(ModelBuilder &b, const std::string &name, const ExpertSizes &sizes, int64_t sequence)
      : b(b), name(name), sizes(sizes), sequence(sequence) {
    if (sizes.chosen < 1 || sizes.chosen > sizes.experts) {
      throw std::runtime_error("a token cannot choose " + std::to_string(sizes.chosen) + " of " + std::to_string(sizes.experts) +
                               " experts");
    }
    const double even = static_cast<double>(sequence * sizes.chosen) / static_cast<double>(sizes.experts);
    slots = std::clamp<int64_t>(std::llround(std::ceil(sizes.capacity * even)), 1, sequence);
  }

  std::string build(const std::string &x, int64_t width, int64_t hidden) {
    route(x, width);
    // (B, E C, width): a row of zeros where a slot is free.
    std::string turned = b.addNode("Transpose", name + ".slots_turned", {places});
    b.setInts("perm", {0, 2, 1});
    std::string taken = b.addNode("MatMul", name + ".taken", {turned, x});
    std::string split = shaped(".by_expert", taken, {0, sizes.experts, slots, width});
    std::string moved = b.addNode("Transpose", name + ".moved", {split});
    b.setInts("perm", {1, 0, 2, 3});
    std::string y = shaped(".to_experts", moved, {sizes.experts, -1, width});
    y = b.addNode("MatMul", name + ".up", {y, b.addParameter(name + ".up.weight", {sizes.experts, width, hidden}, width)});
    y = b.addNode("Relu", name + ".relu", {y});
    y = b.addNode("MatMul", name + ".down", {y, b.addParameter(name + ".down.weight", {sizes.experts, hidden, width}, hidden)});
    std::string back = b.addNode("Transpose", name + ".back", {shaped(".from_experts", y, {sizes.experts, -1, slots, width})});
    b.setInts("perm", {1, 0, 2, 3});
    return b.addNode("MatMul", name, {weights, shaped(".by_sample", back, {0, sizes.experts * slots, width})});
  }

private:
  std::string dims(const std::string &end, const std::vector<int64_t> &elements) {
    return b.addConstant(name + end, {static_cast<int64_t>(elements.size())}, elements);
  }

  std::string shaped(const std::string &end, const std::string &x, const std::vector<int64_t> &shape) {
    return b.addNode("Reshape", name + end, {x, dims(end + ".shape", shape)});
  }

  // Numbers 0 and 1: where the element of x, in a new last dim, is its place in 0 .. count - 1.
  std::string oneHot(const std::string &end, const std::string &x, int64_t count) {
    std::vector<int64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::string isPlace =
        b.addNode("Equal", name + end + ".equal",
                  {b.addNode("Unsqueeze", name + end + ".column", {x, dims(end + ".last", {-1})}), dims(end + ".numbers", numbers)});
    return cast(end, isPlace, onnx::TensorProto::FLOAT);
  }

  std::string cast(const std::string &end, const std::string &x, onnx::TensorProto::DataType type) {
    std::string y = b.addNode("Cast", name + end, {x});
    b.setInt("to", type);
    return y;
  }

  std::string sum(const std::string &end, const std::string &x, int64_t dim, bool keep) {
    std::string y = b.addNode("ReduceSum", name + end, {x, dims(end + ".dim", {dim})});
    b.setInt("keepdims", keep);
    return y;
  }

  // Sets `places`, (B, T, E C), 1 where a token has a slot, and `weights`, the same times the token's weight of the expert.
  void route(const std::string &x, int64_t width) {
    const int64_t experts = sizes.experts;
    std::string scores = b.addNode("MatMul", name + ".gate", {x, b.addParameter(name + ".gate.weight", {width, experts}, width)});
    std::string probabilities = b.addNode("Softmax", name + ".probabilities", {scores});
    b.setInt("axis", -1);
    std::string largest = b.addNode("TopK", name + ".largest", {probabilities, dims(".chosen", {sizes.chosen})});
    std::string indices = b.addResult(name + ".largest.indices");
    std::string shares = b.addNode("Div", name + ".shares", {largest, sum(".total", largest, -1, /*keep=*/true)});
    std::string choices = oneHot(".choices", indices, experts); // (B, T, chosen, E)
    std::string chosen = sum(".mask", choices, 2, /*keep=*/false);
    std::string column = b.addNode("Unsqueeze", name + ".share_column", {shares, dims(".share_dim", {-1})});
    std::string expertShares = sum(".expert_shares", b.addNode("Mul", name + ".weighted", {choices, column}), 2, /*keep=*/false);
    // A token's slot is the number of earlier tokens of its sample that chose the expert; behind the last slot it has none.
    std::string slot = b.addNode("CumSum", name + ".slot", {chosen, b.addConstant(name + ".tokens_dim", {}, std::vector<int64_t>{1})});
    b.setInt("exclusive", 1);
    std::string atSlot = oneHot(".at_slot", cast(".slot_number", slot, onnx::TensorProto::INT64), slots); // (B, T, E, C)
    auto flat = [&](const std::string &end, const std::string &perExpert) {
      std::string last = b.addNode("Unsqueeze", name + end + ".column", {perExpert, dims(end + ".column_dim", {-1})});
      return shaped(end, b.addNode("Mul", name + end + ".product", {atSlot, last}), {0, sequence, experts * slots});
    };
    places = flat(".places", chosen);
    weights = flat(".weights", expertShares);
  }

  ModelBuilder &b;
  std::string name;
  ExpertSizes sizes;
  int64_t sequence, slots;
  std::string places, weights;
};

} // namespace

std::string addExperts(ModelBuilder &b, const std::string &name, const std::string &x, int64_t sequence, int64_t width, int64_t hidden,
                       const ExpertSizes &sizes) {
  return Experts(b, name, sizes, sequence).build(x, width, hidden);
}

} // namespace ashlar::zoo
