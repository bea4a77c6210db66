// SPDX-License-Identifier: Apache-2.0
//
// How nn ops compute on tensors whose dims stand in another order in memory (DimOrderOpInterface).

#include "dialects/nn/convolution.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::nn {
namespace {

// Returns the first of the orders that is given and not the identity, else the identity.
DimOrder commonOrder(ArrayRef<DimOrder> orders, int64_t rank) {
  const auto *found = llvm::find_if(orders, [](const DimOrder &order) { return !isIdentity(order); });
  return found == orders.end() ? identityOrder(rank) : *found;
}

// Returns the order of the operand, that of the dims where it is open.
DimOrder orderOr(const DimOrder &order, Value operand) {
  return order.empty() ? identityOrder(typeOf(operand).getRank()) : order;
}

// The dims with more than one element.
SmallVector<int64_t> longDims(ArrayRef<int64_t> shape) {
  return llvm::to_vector(llvm::make_filter_range(llvm::seq<int64_t>(0, shape.size()), [&](int64_t dim) { return shape[dim] != 1; }));
}

// Dims that a reshape joins and cuts.
struct Stretch {
  SmallVector<int64_t> from, to;
};

// Returns the shortest runs of operand dims and of result dims with as many elements. Dims of one element are in none.
SmallVector<Stretch> stretchesOf(ArrayRef<int64_t> fromShape, ArrayRef<int64_t> toShape) {
  SmallVector<int64_t> from = longDims(fromShape), to = longDims(toShape);
  SmallVector<Stretch> stretches;
  for (size_t i = 0, j = 0; i < from.size() && j < to.size();) {
    Stretch &stretch = stretches.emplace_back();
    int64_t left = 1, right = 1;
    do {
      if (left <= right) {
        left *= fromShape[from[i]];
        stretch.from.push_back(from[i++]);
      } else {
        right *= toShape[to[j]];
        stretch.to.push_back(to[j++]);
      }
    } while (left != right);
  }
  return stretches;
}

// Takes and gives x and y with the channels last; weights stay as they are.
void putChannelsLast(Operation *op, MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  Convolution conv = *Convolution::find(op);
  auto orderOfTensor = [&](Value tensor) {
    int64_t rank = typeOf(tensor).getRank();
    return tensor == conv.weights || conv.channelsLast ? identityOrder(rank) : channelsLastOrder(rank);
  };
  llvm::transform(op->getOperands(), operands.begin(), orderOfTensor);
  llvm::transform(op->getResults(), results.begin(), orderOfTensor);
}

} // namespace

// The operand's dims stand as they do in the result.
bool BroadcastOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  SmallVector<int64_t> places = placesOf(results.front(), getDims());
  operands.front() = identityOrder(places.size());
  llvm::sort(operands.front(), [&](int64_t left, int64_t right) { return places[left] < places[right]; });
  llvm::sort(places);
  setDims(places);
  return true;
}

bool BroadcastOp::followsResult() {
  return true;
}

bool ConcatOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  results.front() = commonOrder(operands, getType().getRank());
  llvm::fill(operands, results.front());
  setDim(placeOf(results.front(), getDim()));
  return true;
}

bool ConstantOp::reorderDims(MutableArrayRef<DimOrder> /*operands*/, MutableArrayRef<DimOrder> results) {
  auto dense = cast<DenseElementsAttr>(getValue());
  setValueAttr(dense.resizeSplat(inOrder(results.front(), getType())));
  return true;
}

bool ConstantOp::followsResult() {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  return dense && dense.isSplat();
}

bool ConvOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  putChannelsLast(*this, operands, results);
  setChannelsLast(true);
  return true;
}

bool ConvDataOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  putChannelsLast(*this, operands, results);
  setChannelsLast(true);
  return true;
}

bool ConvWeightsOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  putChannelsLast(*this, operands, results);
  setChannelsLast(true);
  return true;
}

bool IndexOp::reorderDims(MutableArrayRef<DimOrder> /*operands*/, MutableArrayRef<DimOrder> results) {
  setStrides(inOrder(results.front(), getStrides()));
  return true;
}

bool IndexOp::followsResult() {
  return true;
}

bool PadOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = results.front() = orderOr(operands.front(), getInput());
  setLow(inOrder(results.front(), getLow()));
  setInterior(inOrder(results.front(), getInterior()));
  return true;
}

// Seed, counter and stream are scalars.
bool RandomOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = results.front();
  return true;
}

bool RandomOp::followsResult() {
  return true;
}

// The dims that are kept stand as they did.
bool ReduceOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = orderOr(operands.front(), getInput());
  for (int64_t dim : operands.front()) {
    if (!llvm::is_contained(getDims(), dim)) {
      int64_t removed = llvm::count_if(getDims(), [&](int64_t reduced) { return reduced < dim; });
      results.front().push_back(dim - removed);
    }
  }
  SmallVector<int64_t> places = placesOf(operands.front(), getDims());
  llvm::sort(places);
  setDims(places);
  return true;
}

// Each stretch has to stay in one piece: [B, C, H, W] with the channels last is [B, C, HW] with the channels last, and no [B, CH, W].
bool ReshapeOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  DimOrder order = orderOr(operands.front(), getInput()), result;
  ArrayRef<int64_t> from = shapeOf(getInput()), to = getType().getShape();
  if (llvm::is_contained(from, 0)) {
    return false;
  }
  SmallVector<int64_t> dims = llvm::to_vector(llvm::make_filter_range(order, [&](int64_t dim) { return from[dim] != 1; }));
  SmallVector<Stretch> stretches = stretchesOf(from, to);
  for (ArrayRef<int64_t> rest(dims); !rest.empty();) {
    const auto *stretch = llvm::find_if(stretches, [&](const Stretch &each) { return each.from.front() == rest.front(); });
    if (stretch == stretches.end() || rest.take_front(stretch->from.size()) != ArrayRef<int64_t>(stretch->from)) {
      return false;
    }
    result.append(stretch->to);
    rest = rest.drop_front(stretch->from.size());
  }
  for (auto [dim, size] : llvm::enumerate(to)) { // a dim of one element stands behind the one ahead of it
    if (size == 1) {
      auto *place = dim == 0 ? result.begin() : llvm::find(result, static_cast<int64_t>(dim) - 1) + 1;
      result.insert(place, dim);
    }
  }
  operands.front() = order;
  results.front() = result;
  return true;
}

bool SliceOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = results.front() = orderOr(operands.front(), getInput());
  setStarts(inOrder(results.front(), getStarts()));
  setLimits(inOrder(results.front(), getLimits()));
  setSteps(inOrder(results.front(), getSteps()));
  return true;
}

// Where the operand stands in another order already, nothing has to move: the result stands as the operand does.
bool TransposeOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = orderOr(operands.front(), getInput());
  if (isIdentity(operands.front())) {
    results.front() = operands.front();
    return true;
  }
  results.front() = placesOf(getPermutation(), operands.front());
  setPermutation(identityOrder(getType().getRank()));
  return true;
}

} // namespace ashlar::nn
