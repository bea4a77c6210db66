// SPDX-License-Identifier: Apache-2.0
//
// The product with the input stands in front of the steps, one for all steps of a direction; its rows are ordered by sample and then by
// step, so that a split of the batch passes through the reshapes around it. One for both directions would be cut where units are split. A
// row that ends early keeps its state from then on. In reverse such a row begins late: its steps behind the end pass the first state on, so
// that nothing has to be reversed within a row.

#include "compiler/frontend/ops/recurrent/recurrent_layer.h"

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/activation.h"
#include "compiler/frontend/ops/recurrent/repeat.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

using Sizes = SmallVector<int64_t>;

// Returns a value with its first two dims swapped.
Value swapFirst(const Node &node, Value value) {
  Sizes permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
  std::swap(permutation[0], permutation[1]);
  auto before = value.getDefiningOp<nn::TransposeOp>(); // an exporter's, which turned (batch, steps) round
  return before && before.getPermutation() == ArrayRef(permutation) ? before.getInput() : transpose(node, value, permutation);
}

Value concat(const Node &node, ArrayRef<Value> parts, int64_t dim) {
  return parts.size() == 1 ? parts.front() : node.create<nn::ConcatOp>(parts, dim).getResult();
}

} // namespace

RecurrentLayer::RecurrentLayer(Node &node, int64_t gates, int64_t innerGates, ArrayRef<StringRef> defaults) : node(node), gates(gates) {
  readDirections();
  functions = readGateFunctions(node, directions, defaults);
  isBatchFirst = node.getInt("layout", 0) != 0;
  if (node.hasAttribute("clip")) {
    clip = node.getFloat("clip", 0);
    if (!(*clip > 0)) {
      node.fail("attribute \"clip\" is " + std::to_string(*clip) + ", not positive");
    }
  }
  readSizes();
  bias = readInput(kB, "B", {directions, 2 * gates * hidden});
  multiplyInput(innerGates);
  readLengths();
}

void RecurrentLayer::readDirections() {
  std::string direction = node.getString("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    node.fail("attribute \"direction\" is \"" + direction + "\"; one of forward, reverse, bidirectional");
  }
  directions = direction == "bidirectional" ? 2 : 1;
  beginsReversed = direction == "reverse";
}

void RecurrentLayer::readSizes() {
  for (auto [index, name] : {std::pair(kX, "X"), std::pair(kW, "W"), std::pair(kR, "R")}) {
    if (!node.hasInput(index)) {
      node.fail("input " + Twine(name) + " is missing");
    }
  }
  RankedTensorType x = node.inputType(kX), r = node.inputType(kR);
  if (x.getRank() != 3) {
    node.fail("input X is " + describeTensor(x) + ", not " + (isBatchFirst ? "(batch, steps, size)" : "(steps, batch, size)"));
  }
  steps = x.getDimSize(isBatchFirst ? 1 : 0);
  batch = x.getDimSize(isBatchFirst ? 0 : 1);
  inputs = x.getDimSize(2);
  element = x.getElementType();
  const int64_t given = node.getInt("hidden_size", 0);
  if (node.hasAttribute("hidden_size") && given < 1) {
    node.fail("attribute \"hidden_size\" is " + Twine(given) + ", not at least 1");
  }
  if (r.getRank() != 3) {
    node.fail("input R is " + describeTensor(r) + ", not (directions, " + Twine(gates) + " * hidden size, hidden size)");
  }
  hidden = given > 0 ? given : r.getDimSize(2);
}

Value RecurrentLayer::readInput(size_t index, StringRef name, ArrayRef<int64_t> shape) const {
  if (!node.hasInput(index)) {
    return {};
  }
  RankedTensorType type = node.inputType(index), expected = RankedTensorType::get(shape, element);
  if (type != expected) {
    node.fail("input " + name + " is " + describeTensor(type) + " but X is " + describeTensor(node.inputType(kX)) + ", which needs " +
              describeTensor(expected) + " for " + Twine(directions) + (directions == 1 ? " direction" : " directions") +
              " of hidden size " + Twine(hidden));
  }
  return widen(node, node.input(index));
}

void RecurrentLayer::multiplyInput(int64_t innerGates) {
  const int64_t columns = gates * hidden;
  Value w = readInput(kW, "W", {directions, columns, inputs}), x = widen(node, node.input(kX)), sum;
  Value rows = reshape(node, isBatchFirst ? x : swapFirst(node, x), {batch * steps, inputs});
  if (bias) {
    Value ofInput = sliceAlong(node, bias, 1, 0, columns), ofState = sliceAlong(node, bias, 1, columns, 2 * columns);
    if (innerGates > 0) {
      const int64_t added = columns - innerGates * hidden;
      Value zeros = splatConstant(node, typeOf(bias).clone({directions, columns - added}), 0);
      ofState = concat(node, {sliceAlong(node, ofState, 1, 0, added), zeros}, 1);
    }
    sum = node.create<nn::AddOp>(ofInput, ofState);
  }
  for (int64_t direction = 0; direction < directions; ++direction) {
    Value result = reshape(node, product(rows, rowOf(w, direction)), {batch, steps, columns});
    if (sum) {
      result = node.create<nn::AddOp>(result, broadcastTo(node, rowOf(sum, direction), shapeOf(result)));
    }
    fromInput.push_back(transpose(node, result, {1, 0, 2}));
  }
}

void RecurrentLayer::readLengths() {
  if (!node.hasInput(kSequenceLens)) {
    return;
  }
  RankedTensorType type = node.inputType(kSequenceLens), expected = RankedTensorType::get({batch}, node.builder().getI32Type());
  if (type != expected) {
    node.fail("input sequence_lens is " + describeTensor(type) + " but X is " + describeTensor(node.inputType(kX)) + ", which needs " +
              describeTensor(expected));
  }
  mayBeEmpty = true;
  if (DenseElementsAttr known = node.constantInput(kSequenceLens)) {
    node.spend(batch);
    int64_t least = steps;
    for (const APInt &length : known.getValues<APInt>()) {
      if (length.isNegative() || length.sgt(steps)) {
        node.fail("length " + Twine(length.getSExtValue()) + " in sequence_lens is not in [0, " + Twine(steps) + "]");
      }
      least = std::min(least, length.getSExtValue());
    }
    if (least == steps) {
      return;
    }
    mayBeEmpty = least == 0;
  }
  lengths = convertTo(node, node.input(kSequenceLens), node.builder().getI64Type());
}

Value RecurrentLayer::readState(size_t index, StringRef name) const {
  Sizes shape = {directions, batch, hidden}, swapped = {batch, directions, hidden};
  Value state = readInput(index, name, isBatchFirst ? swapped : shape);
  if (!state) {
    return splatConstant(node, typeOf(fromInput.front()).clone(shape), 0);
  }
  return isBatchFirst ? swapFirst(node, state) : state;
}

Value RecurrentLayer::rowOf(Value value, int64_t direction) const {
  return reshape(node, sliceAlong(node, value, 0, direction, direction + 1), shapeOf(value).drop_front());
}

Value RecurrentLayer::gateOf(Value value, int64_t gate) const {
  return sliceAlong(node, value, typeOf(value).getRank() - 1, gate * hidden, (gate + 1) * hidden);
}

Value RecurrentLayer::activate(const GateFunction &function, Value x) const {
  return function.apply(node, clip ? clamp(node, x, -*clip, *clip) : x);
}

Value RecurrentLayer::product(Value states, Value weights) const {
  return node.create<nn::MatMulOp>(states, weights, /*transpose_a=*/false, /*transpose_b=*/true);
}

Value RecurrentLayer::finish(Value state) const {
  if (!mayBeEmpty || !lengths) {
    return state;
  }
  Value hasSteps = compare(node, nn::Predicate::Gt, lengths, 0);
  Value ofRow = node.create<nn::BroadcastOp>(typeOf(hasSteps).clone(shapeOf(state)), hasSteps, ArrayRef<int64_t>{0});
  return select(node, ofRow, state, splatConstant(node, typeOf(state), 0));
}

void RecurrentLayer::build(ArrayRef<std::pair<size_t, StringRef>> firstStates, Capture capture, Cell cell) {
  const int64_t each = static_cast<int64_t>(functions.size()) / directions;
  Value recurrences = readInput(kR, "R", {directions, gates * hidden, hidden}), isValid;
  if (lengths) {
    auto type = RankedTensorType::get({steps, batch}, node.builder().getI64Type());
    Value index = node.create<nn::IndexOp>(type, ArrayRef<int64_t>{1, 0});
    isValid = compare(node, nn::Predicate::Lt, index, broadcastTo(node, lengths, type.getShape()));
  }
  SmallVector<Value> first = llvm::map_to_vector(firstStates, [&](const auto &state) { return readState(state.first, state.second); });
  SmallVector<Value> outputs;
  SmallVector<SmallVector<Value>> last(first.size()); // of each state, by direction
  for (int64_t direction = 0; direction < directions; ++direction) {
    SmallVector<Value> carried = llvm::map_to_vector(first, [&](Value state) { return rowOf(state, direction); });
    SmallVector<Value> sliced = {fromInput[direction]};
    if (isValid) {
      sliced.push_back(isValid);
    }
    auto ofDirection = ArrayRef(functions).slice(direction * each, each);
    SmallVector<Value> captured = capture(direction, rowOf(recurrences, direction));
    auto body = [&](const StepValues &values) {
      StepResults next = {cell({values.carried, values.sliced[0], captured, ofDirection}), {}};
      next.stacked = {next.carried[0]};
      if (isValid) {
        RankedTensorType type = typeOf(next.carried[0]);
        Value here = node.create<nn::BroadcastOp>(RankedTensorType::get(type.getShape(), node.builder().getI1Type()), values.sliced[1],
                                                  ArrayRef<int64_t>{0});
        next.stacked[0] = select(node, here, next.stacked[0], splatConstant(node, type, 0));
        for (auto [state, before] : llvm::zip_equal(next.carried, values.carried)) {
          state = select(node, here, state, before);
        }
      }
      return next;
    };
    StepResults run = repeat(node, steps, beginsReversed || direction == 1, carried, sliced, body);
    outputs.push_back(run.stacked[0]);
    for (auto [states, state] : llvm::zip_equal(last, run.carried)) {
      states.push_back(finish(state));
    }
  }
  setOutputs(outputs);
  for (auto [i, states] : llvm::enumerate(last)) {
    setState(i + 1, states);
  }
}

void RecurrentLayer::setOutputs(ArrayRef<Value> ofDirections) const {
  if (!node.hasResult(0)) {
    return;
  }
  SmallVector<Value> parts =
      llvm::map_to_vector(ofDirections, [&](Value output) { return reshape(node, output, {steps, 1, batch, hidden}); });
  Value all = concat(node, parts, 1);
  node.setResult(0, convertTo(node, isBatchFirst ? transpose(node, all, {2, 0, 1, 3}) : all, element));
}

void RecurrentLayer::setState(size_t result, ArrayRef<Value> ofDirections) const {
  if (!node.hasResult(result)) {
    return;
  }
  SmallVector<Value> parts = llvm::map_to_vector(ofDirections, [&](Value state) { return reshape(node, state, {1, batch, hidden}); });
  Value all = concat(node, parts, 0);
  node.setResult(result, convertTo(node, isBatchFirst ? swapFirst(node, all) : all, element));
}

} // namespace ashlar::frontend
