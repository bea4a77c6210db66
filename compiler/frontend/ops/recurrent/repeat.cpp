// SPDX-License-Identifier: Apache-2.0
//
// The steps of a body, unrolled.

#include "compiler/frontend/ops/recurrent/repeat.h"

#include "compiler/frontend/emit.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int64_t kStepsOfOp = 64; // of the budget, as a node of a Loop takes

SmallVector<int64_t> withRows(ArrayRef<int64_t> row, int64_t count) {
  SmallVector<int64_t> shape = {count};
  llvm::append_range(shape, row);
  return shape;
}

// Returns the rows of a tensor along dim 0. Tensors are halved until one row is left: the gradient of a slice is as large as the tensor
// that it is taken from, so slices of the whole would take the square of the number of rows.
SmallVector<Value> splitRows(const Node &node, Value value) {
  SmallVector<Value> parts = {value};
  while (shapeOf(parts.front())[0] > 1) { // the first part is never smaller than another one
    SmallVector<Value> halves;
    for (Value part : parts) {
      const int64_t size = shapeOf(part)[0], half = (size + 1) / 2;
      halves.push_back(sliceAlong(node, part, 0, 0, half));
      if (half < size) {
        halves.push_back(sliceAlong(node, part, 0, half, size));
      }
    }
    parts = std::move(halves);
  }
  for (Value &part : parts) {
    part = reshape(node, part, shapeOf(part).drop_front());
  }
  return parts;
}

// Pays for so many steps of `ops` ops each; fails where a program cannot have them one after the other.
void payForSteps(const Node &node, int64_t count, int64_t ops) {
  constexpr int64_t kMost = ImportBudget::kElements / kStepsOfOp;
  if (count > kMost || !node.getInfo().budget.spend(count * ops * kStepsOfOp)) {
    node.fail("has " + Twine(count) + " steps of at least " + Twine(ops) + " ops, but all steps of a model have at most " + Twine(kMost) +
              ", since they stand one after the other; cut its sequences in pieces");
  }
}

} // namespace

StepResults repeat(const Node &node, int64_t count, bool reversed, ArrayRef<Value> carried, ArrayRef<Value> sliced,
                   ArrayRef<Value> captured, function_ref<StepResults(const StepValues &)> body) {
  constexpr int64_t kOpsOfRow = 3; // two halves and a reshape
  payForSteps(node, count, 1 + kOpsOfRow * static_cast<int64_t>(sliced.size()));
  SmallVector<SmallVector<Value>> rows; // of each sliced tensor
  for (Value value : sliced) {
    assert(shapeOf(value)[0] == count && "a sliced tensor has a row for each step");
    auto type = typeOf(value).clone(shapeOf(value).drop_front());
    rows.push_back(count > 0 ? splitRows(node, value) : SmallVector<Value>{splatConstant(node, type, 0)});
  }
  node.followCounts(); // here, where an error names the input
  StepResults results;
  results.carried.assign(carried.begin(), carried.end());
  SmallVector<SmallVector<Value>> stacked; // the rows of each stacked result
  Block &block = *node.builder().getInsertionBlock();
  // Without steps the body still has to run, on zeros, for the types of the stacked results; nothing reads what it computes.
  for (int64_t step = 0; step < std::max<int64_t>(count, 1); ++step) {
    const int64_t row = reversed && count > 0 ? count - 1 - step : step;
    SmallVector<Value> current = llvm::map_to_vector(rows, [&](const SmallVector<Value> &each) { return each[row]; });
    Operation *last = block.empty() ? nullptr : &block.back();
    StepResults next = body({results.carried, current, captured});
    assert(llvm::equal(TypeRange(ValueRange(next.carried)), TypeRange(ValueRange(carried))) && "carried values keep their types");
    if (step == 0) {
      payForSteps(node, count, std::distance(last ? std::next(Block::iterator(last)) : block.begin(), block.end()));
      stacked.resize(next.stacked.size());
    }
    if (count > 0) {
      results.carried = std::move(next.carried);
    }
    for (auto [each, value] : llvm::zip_equal(stacked, next.stacked)) {
      each.push_back(value);
    }
  }
  for (SmallVector<Value> &each : stacked) {
    RankedTensorType type = typeOf(each.front());
    if (count == 0) {
      results.stacked.push_back(splatConstant(node, type.clone(withRows(type.getShape(), 0)), 0));
      continue;
    }
    if (reversed) {
      std::reverse(each.begin(), each.end());
    }
    for (Value &value : each) {
      value = reshape(node, value, withRows(type.getShape(), 1));
    }
    results.stacked.push_back(each.size() == 1 ? each.front() : node.create<nn::ConcatOp>(each, /*dim=*/0).getResult());
  }
  return results;
}

} // namespace ashlar::frontend
