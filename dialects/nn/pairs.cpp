// SPDX-License-Identifier: Apache-2.0
//
// See pairs.h. All of it moves elements, so that it is computed on parts as on sums.

#include "dialects/nn/pairs.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns x under a new dim 0 of size 1.
Value asRow(ImplicitLocOpBuilder &b, Value x) {
  SmallVector<int64_t> shape = {1};
  llvm::append_range(shape, shapeOf(x));
  return ReshapeOp::create(b, typeOf(x).clone(shape), x);
}

} // namespace

Value pairUp(ImplicitLocOpBuilder &b, Value x, Value y) {
  return ConcatOp::create(b, ValueRange{asRow(b, x), asRow(b, y)}, /*dim=*/0);
}

Value partOf(ImplicitLocOpBuilder &b, Value pair, int64_t part) {
  SmallVector<int64_t> starts(typeOf(pair).getRank(), 0), limits(shapeOf(pair)), steps(typeOf(pair).getRank(), 1);
  starts.front() = part;
  limits.front() = part + 1;
  Value row = SliceOp::create(b, pair, starts, limits, steps);
  return ReshapeOp::create(b, typeOf(row).clone(shapeOf(row).drop_front()), row);
}

// Returns the elements of a constant that are all equal; null for any other value.
static DenseElementsAttr splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return elements && elements.isSplat() ? elements : DenseElementsAttr();
}

// Returns `value` from `starts` up to `limits`, which is all of it or a slice.
static Value sliceUp(ImplicitLocOpBuilder &b, Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits) {
  if (shapeOf(value) == limits && llvm::all_of(starts, [](int64_t start) { return start == 0; })) {
    return value;
  }
  return SliceOp::create(b, value, starts, limits, SmallVector<int64_t>(starts.size(), 1));
}

// Returns a slice of the one operand of a concat that holds all of it; null where none does.
static Value partOfConcat(ImplicitLocOpBuilder &b, ConcatOp concat, SmallVector<int64_t> starts, SmallVector<int64_t> limits) {
  const int64_t dim = concat.getDim();
  for (Value input : concat.getInputs()) {
    int64_t size = shapeOf(input)[dim];
    if (starts[dim] >= 0 && limits[dim] <= size) {
      return sliceUp(b, input, starts, limits);
    }
    starts[dim] -= size;
    limits[dim] -= size;
  }
  return {};
}

// Returns a slice of what is padded, or zeros; null where the slice has some of both.
static Value partOfPad(ImplicitLocOpBuilder &b, PadOp pad, SmallVector<int64_t> starts, SmallVector<int64_t> limits) {
  bool isInside = true, isOutside = false;
  for (size_t d = 0; d < starts.size(); ++d) {
    int64_t low = pad.getLow()[d], size = shapeOf(pad.getInput())[d];
    if (pad.getInterior()[d] != 0) {
      return {};
    }
    starts[d] -= low;
    limits[d] -= low;
    isInside = isInside && starts[d] >= 0 && limits[d] <= size;
    isOutside = isOutside || limits[d] <= 0 || starts[d] >= size;
  }
  if (isInside) {
    return sliceUp(b, pad.getInput(), starts, limits);
  }
  SmallVector<int64_t> shape;
  llvm::append_range(shape,
                     llvm::map_range(llvm::zip_equal(starts, limits), [](auto range) { return std::get<1>(range) - std::get<0>(range); }));
  return isOutside ? ConstantOp::create(b, splat(pad.getType().clone(shape), 0)).getResult() : Value();
}

// Returns what a slice takes of one of the values that pairs are made of; null where that is no simpler.
static Value partOfValue(ImplicitLocOpBuilder &b, Value value, SliceOp slice) {
  SmallVector<int64_t> starts(slice.getStarts()), limits(slice.getLimits());
  if (auto concat = value.getDefiningOp<ConcatOp>()) {
    return partOfConcat(b, concat, starts, limits);
  }
  if (auto pad = value.getDefiningOp<PadOp>()) {
    return partOfPad(b, pad, starts, limits);
  }
  DenseElementsAttr elements = splatOf(value);
  return elements ? ConstantOp::create(b, elements.resizeSplat(typeOf(value).clone(shapeOf(slice)))).getResult() : Value();
}

// Where all operands of an op stand for rows that are numbers of one other shape, or splats, has them stand for those: others compute so.
static void unfoldRows(ImplicitLocOpBuilder &b, Operation &op, IRMapping &mapping) {
  SmallVector<Value> numbers;
  for (Value operand : op.getOperands()) {
    Value part = mapping.lookup(operand);
    auto row = part.getDefiningOp<ReshapeOp>();
    numbers.push_back(row ? row.getInput() : part);
  }
  auto isRow = [&](Value number) { return !splatOf(number); };
  auto first = llvm::find_if(numbers, isRow);
  if (first == numbers.end() ||
      !llvm::all_of(numbers, [&](Value number) { return splatOf(number) || shapeOf(number) == shapeOf(*first); })) {
    return;
  }
  for (auto [operand, number] : llvm::zip_equal(op.getOperands(), numbers)) {
    DenseElementsAttr elements = splatOf(number);
    mapping.map(operand,
                elements ? ConstantOp::create(b, elements.resizeSplat(typeOf(number).clone(shapeOf(*first)))).getResult() : number);
  }
}

Value takePart(ImplicitLocOpBuilder &b, Operation *op) {
  auto slice = dyn_cast<SliceOp>(op);
  Operation *between = slice ? slice.getInput().getDefiningOp() : nullptr;
  if (!between || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; })) {
    return {};
  }
  if (!between->hasTrait<OpTrait::Elementwise>() || between->getNumResults() != 1) {
    return partOfValue(b, slice.getInput(), slice);
  }
  IRMapping mapping;
  for (Value operand : between->getOperands()) {
    Value part = partOfValue(b, operand, slice);
    if (!part) {
      return {};
    }
    mapping.map(operand, part);
  }
  unfoldRows(b, *between, mapping);
  Value result = b.clone(*between, mapping)->getResult(0);
  result.setType(slice.getType().clone(shapeOf(mapping.lookup(between->getOperand(0)))));
  return result.getType() == slice.getType() ? result : ReshapeOp::create(b, slice.getType(), result).getResult();
}

} // namespace ashlar::nn
