// SPDX-License-Identifier: Apache-2.0
//
// How nn ops compute on tensors whose dims stand in another order in memory (DimOrderOpInterface).

#include "dialects/nn/windows/convolution.h"
#include "dialects/nn/windows/window_views.h"
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

// Takes and gives x and y with the channels last; weights stay as they are: operand 1, or the result.
void putChannelsLast(Operation *op, MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  Convolution conv = *Convolution::find(op);
  int64_t rank = typeOf(conv.x).getRank();
  bool makesWeights = conv.kind == ConvolutionKind::Weights;
  DimOrder images = conv.format.channelsLast ? identityOrder(rank) : channelsLastOrder(rank);
  operands[0] = images;
  operands[1] = makesWeights ? images : identityOrder(rank);
  results[0] = makesWeights ? identityOrder(rank) : images;
}

// Returns the order of the dims that are kept of a tensor in `order`, with numbers of their own.
DimOrder keptOrder(ArrayRef<int64_t> order, ArrayRef<int64_t> reduced) {
  DimOrder kept;
  for (int64_t dim : order) {
    if (!llvm::is_contained(reduced, dim)) {
      kept.push_back(dim - llvm::count_if(reduced, [&](int64_t other) { return other < dim; }));
    }
  }
  return kept;
}

// Returns the order of the dims of a tensor of which dim i is dim dims[i] of one in `order`.
DimOrder orderOfPart(ArrayRef<int64_t> order, ArrayRef<int64_t> dims) {
  DimOrder part = identityOrder(dims.size());
  llvm::sort(part, [&](int64_t left, int64_t right) { return placeOf(order, dims[left]) < placeOf(order, dims[right]); });
  return part;
}

// Returns the places of dims in increasing order.
SmallVector<int64_t> sortedPlaces(ArrayRef<int64_t> order, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> places = placesOf(order, dims);
  llvm::sort(places);
  return places;
}

// Returns the order of nn.windows of a tensor in `order`: the windows stand behind the last place that has some.
DimOrder orderWithWindows(ArrayRef<int64_t> order, ArrayRef<int64_t> dims) {
  int64_t last = dims.back(), count = dims.size(), lastPlace = sortedPlaces(order, dims).back();
  DimOrder result;
  for (auto [place, dim] : llvm::enumerate(order)) {
    result.push_back(dim <= last ? dim : dim + count);
    if (static_cast<int64_t>(place) == lastPlace) {
      llvm::append_range(result, llvm::seq(last + 1, last + 1 + count));
    }
  }
  return result;
}

// Computes along the places of `dims`, all operands alike. Returns false where the dims stand in another sequence: windows are read in
// theirs.
template <typename Op>
bool keepOrderAlongWindows(Op op, const DimOrder &order, MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  SmallVector<int64_t> places = placesOf(order, op.getDims());
  if (!llvm::is_sorted(places)) {
    return false;
  }
  op.setDims(places);
  llvm::fill(operands, order);
  llvm::fill(results, order);
  return true;
}

} // namespace

// The operand's dims stand as they do in the result.
bool BroadcastOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = orderOfPart(results.front(), getDims());
  setDims(sortedPlaces(results.front(), getDims()));
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
  if (!followsResult()) {
    return false; // its elements stand as they are
  }
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

bool MaxPoolOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrderAlongWindows(*this, orderOr(operands.front(), getInput()), operands, results);
}

bool MaxPoolPlaceOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrderAlongWindows(*this, commonOrder(operands, getType().getRank()), operands, results);
}

// Mean and variance stand side by side in front of the dims that are kept.
bool MomentsOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = orderOr(operands.front(), getInput());
  results.front() = {0};
  llvm::append_range(results.front(), llvm::map_range(keptOrder(operands.front(), getDims()), [](int64_t dim) { return dim + 1; }));
  setDims(sortedPlaces(operands.front(), getDims()));
  return true;
}

// Scale, shift and statistics have the dims `dims` of the input, and stand as these do.
bool NormalizeOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  results.front() = orderOr(operands.front(), getInput());
  llvm::fill(operands, orderOfPart(results.front(), getDims()));
  operands.front() = results.front();
  setDims(sortedPlaces(results.front(), getDims()));
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
  results.front() = keptOrder(operands.front(), getDims());
  setDims(sortedPlaces(operands.front(), getDims()));
  return true;
}

bool ResampleOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  operands.front() = results.front() = orderOr(operands.front(), getInput());
  setDim(placeOf(results.front(), getDim()));
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

// The windows stand behind the last place that has some, whatever they stood behind.
bool UnwindowsOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  int64_t last = getDims().back(), count = getDims().size();
  DimOrder elements;
  for (int64_t dim : orderOr(operands.front(), getInput())) {
    if (dim <= last || dim > last + count) {
      elements.push_back(dim <= last ? dim : dim - count);
    }
  }
  DimOrder order = orderWithWindows(elements, getDims());
  if (!keepOrderAlongWindows(*this, elements, {}, {})) {
    return false;
  }
  operands.front() = results.front() = order;
  return true;
}

bool WindowsOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  DimOrder order = orderOr(operands.front(), getInput()), windows = orderWithWindows(order, getDims());
  if (!keepOrderAlongWindows(*this, order, operands, {})) {
    return false;
  }
  results.front() = windows;
  return true;
}

} // namespace ashlar::nn
