// SPDX-License-Identifier: Apache-2.0
//
// See attention_mask.h. Masks that a model computes, as from the numbers of rows and keys, are computed by the ops' reference semantics.

#include "passes/train/attention_mask.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/reference_tensor.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;

namespace ashlar::train {

namespace {

using reference::Tensor;

constexpr int64_t kMostElements = int64_t{1} << 24;
constexpr size_t kMostOps = 64;

// Returns the ops that compute `value`, in program order; nothing where it depends on more than constants, or is too large.
std::optional<SmallVector<Operation *>> opsOfConstant(Value value) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> pending = {value};
  while (!pending.empty()) {
    Operation *op = nn::resolveCaptured(pending.pop_back_val()).getDefiningOp();
    bool isKnown = op && op->getNumResults() == 1 && isa<ReferenceOpInterface>(op) && isMemoryEffectFree(op) &&
                   typeOf(op->getResult(0)).getNumElements() <= kMostElements && ops.size() < kMostOps;
    if (!isKnown) {
      return std::nullopt;
    }
    if (ops.insert(op)) {
      llvm::append_range(pending, op->getOperands());
    }
  }
  SmallVector<Operation *> sorted = ops.takeVector();
  auto depth = [](Operation *op) { // in bodies: those further in read what those around them compute
    int64_t parents = 0;
    for (; (op = op->getParentOp()); ++parents) {
    }
    return parents;
  };
  llvm::sort(sorted,
             [&](Operation *a, Operation *b) { return a->getBlock() == b->getBlock() ? a->isBeforeInBlock(b) : depth(a) < depth(b); });
  return sorted;
}

// Returns the elements of a value that depends on constants alone; nothing for any other.
std::optional<Tensor> evaluateConstant(Value value) {
  std::optional<SmallVector<Operation *>> ops = opsOfConstant(value);
  if (!ops) {
    return std::nullopt;
  }
  DenseMap<Value, Tensor> tensors;
  for (Operation *op : *ops) {
    auto operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) { return tensors.lookup(nn::resolveCaptured(operand)); });
    tensors[op->getResult(0)] = cast<ReferenceOpInterface>(op).evaluate(operands);
  }
  return std::move(tensors[nn::resolveCaptured(value)]);
}

// Returns the value that `mask` repeats along dims before its rows and keys, which has the same elements in them.
Value withoutRepeatedBatch(Value mask) {
  mask = nn::resolveCaptured(mask);
  while (auto broadcast = mask.getDefiningOp<nn::BroadcastOp>()) {
    const int64_t rank = broadcast.getType().getRank();
    ArrayRef<int64_t> dims = broadcast.getDims(), shape = shapeOf(broadcast.getInput());
    const bool keepsRows =
        dims.size() >= 2 && dims.take_back(2) == ArrayRef<int64_t>{rank - 2, rank - 1} && shape.take_back(2) == shapeOf(mask).take_back(2);
    if (!keepsRows) {
      break;
    }
    mask = nn::resolveCaptured(broadcast.getInput());
  }
  return mask;
}

// The keys [first, end) that a row of a mask shows.
struct Shown {
  int64_t first, end;
};

// Finds the keys that one row of a mask shows; nothing where it shows none, or others between, or an element neither shows nor hides.
std::optional<Shown> findShown(const Tensor &mask, int64_t begin, int64_t keys, bool isInverted, bool &isInfinite) {
  Shown shown = {0, 0};
  for (int64_t j = 0; j < keys; ++j) {
    double element = mask.getNumber(begin + j);
    bool shows = mask.isFloat() ? element == 0 : (element != 0) != isInverted;
    if (mask.isFloat() && !shows && !hidesKey(mask.getType().getElementType(), element)) {
      return std::nullopt;
    }
    if (shows && shown.end == 0) {
      shown = {j, j};
    }
    if (shows && shown.end++ < j) {
      return std::nullopt;
    }
    isInfinite &= shows || !mask.isFloat() || std::isinf(element);
  }
  return shown.end == 0 ? std::nullopt : std::optional(shown);
}

std::optional<CausalMask> findCausal(const Tensor &mask, bool isInverted) {
  if (mask.getType().getRank() < 2) {
    return std::nullopt;
  }
  const int64_t rows = mask.getShape().end()[-2], keys = mask.getShape().back();
  CausalMask result;
  int64_t least = INT64_MIN;     // of a diagonal that shows all keys to the rows so far that see them
  std::optional<int64_t> hidden; // the last distance key - row before what rows see
  int64_t most = INT64_MAX;      // of that distance where rows see the first key
  for (int64_t begin = 0, i = 0; begin < mask.getNumElements(); begin += keys, i = (i + 1) % rows) {
    std::optional<Shown> shown = findShown(mask, begin, keys, isInverted, result.isInfinite);
    if (!shown) {
      return std::nullopt;
    }
    const int64_t diagonal = shown->end - 1 - i, before = shown->first - 1 - i;
    if (shown->end == keys) {
      least = std::max(least, diagonal);
    } else if (result.diagonal && *result.diagonal != diagonal) {
      return std::nullopt;
    } else {
      result.diagonal = diagonal;
    }
    if (shown->first == 0) {
      most = std::min(most, before);
    } else if (hidden && *hidden != before) {
      return std::nullopt;
    } else {
      hidden = before;
    }
  }
  if ((result.diagonal && *result.diagonal < least) || (hidden && (*hidden > most || !result.diagonal))) {
    return std::nullopt;
  }
  result.window = hidden ? *result.diagonal - *hidden : 0;
  return result;
}

} // namespace

bool hidesKey(Type type, double element) {
  return element <= reference::roundTo(type, kHidesKey);
}

std::optional<CausalMask> CausalMasks::find(Value repeated, bool isInverted) {
  const Value mask = withoutRepeatedBatch(repeated);
  auto [place, isNew] = (isInverted ? inverted : found).try_emplace(mask);
  if (isNew) {
    std::optional<Tensor> elements = evaluateConstant(mask);
    place->second = elements ? findCausal(*elements, isInverted) : std::nullopt;
  }
  return place->second;
}

Value withoutRepeats(ImplicitLocOpBuilder &b, Value mask) {
  SmallVector<Type> conversions;                                              // the last one first
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(mask).getRank())); // of the mask, that those of `value` are
  Value value = mask;
  while (true) {
    if (auto cast = value.getDefiningOp<nn::CastOp>()) {
      conversions.push_back(cast.getType().getElementType());
      value = cast.getInput();
    } else if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>()) {
      dims = llvm::map_to_vector(broadcast.getDims(), [&](int64_t dim) { return dims[dim]; });
      value = broadcast.getInput();
    } else {
      break;
    }
  }
  SmallVector<int64_t> shape(typeOf(mask).getRank(), 1);
  for (auto [dim, size] : llvm::zip_equal(dims, shapeOf(value))) {
    shape[dim] = size;
  }
  if (ArrayRef(shape) == shapeOf(mask)) {
    return mask;
  }
  if (shapeOf(value) != ArrayRef(shape)) {
    value = nn::ReshapeOp::create(b, typeOf(value).clone(shape), value);
  }
  for (Type element : llvm::reverse(conversions)) {
    value = nn::CastOp::create(b, typeOf(value).clone(element), value);
  }
  return value;
}

std::optional<double> splatOfValue(Value value) {
  Type element = typeOf(value).getElementType(); // to which a conversion rounds
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::CastOp, nn::BroadcastOp, nn::ReshapeOp>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.isSplat() || !isa<FloatType>(elements.getElementType()) || !isa<FloatType>(element)) {
    return std::nullopt;
  }
  return reference::roundTo(element, elements.getSplatValue<APFloat>().convertToDouble());
}

} // namespace ashlar::train
