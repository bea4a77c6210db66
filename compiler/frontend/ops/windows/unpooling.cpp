// SPDX-License-Identifier: Apache-2.0
//
// MaxUnpool: the elements that MaxPool took, back where they were, and zeros. It is a scatter by the indices that MaxPool gave. These count
// in the whole tensor, but lie in the channel of their window, so each channel of a sample is scattered for itself. Where windows overlap,
// several may have the same element; the last one stays, as in ONNX Runtime.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/windows/window_rules.h"
#include "compiler/frontend/registry.h"

#include "dialects/nn/windows/window_views.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// The windows of a MaxUnpool.
struct Unpooling {
  Shape kernel, strides, low, high;
};

Unpooling readUnpooling(Node &node, size_t rank) {
  if (!node.hasAttribute("kernel_shape")) {
    node.fail("has no attribute \"kernel_shape\"");
  }
  Unpooling unpooling;
  unpooling.kernel = readSpatialInts(node, "kernel_shape", rank, /*least=*/1, /*byDefault=*/1);
  unpooling.strides = readSpatialInts(node, "strides", rank, /*least=*/1, /*byDefault=*/1);
  std::tie(unpooling.low, unpooling.high) = readPads(node, rank);
  return unpooling;
}

// The least shape that the windows cover. Counted in 128 bits.
Shape coveredShape(const Node &node, const Unpooling &unpooling, ArrayRef<int64_t> pooled) {
  Shape shape(pooled.take_front(kFirstSpatial));
  for (size_t i = 0; i < unpooling.kernel.size(); ++i) {
    int64_t positions = pooled[kFirstSpatial + i], low = unpooling.low[i], high = unpooling.high[i];
    __int128 size = __int128(positions - 1) * unpooling.strides[i] + unpooling.kernel[i] - low - high;
    if (positions < 1 || size < 1 || size > kMostInWindow) {
      node.fail("spatial dim " + Twine(i) + " of the result has no size from 1 to " + Twine(kMostInWindow) + ": X has " + Twine(positions) +
                " positions, with stride " + Twine(unpooling.strides[i]) + ", a kernel of " + Twine(unpooling.kernel[i]) + ", pads " +
                Twine(low) + " and " + Twine(high));
    }
    shape.push_back(static_cast<int64_t>(size));
  }
  return shape;
}

// The shape that input "output_shape" gives; pads have no meaning then.
Shape givenShape(const Node &node, ArrayRef<int64_t> pooled) {
  Shape shape = node.intsInput(2, "output_shape");
  bool fits = shape.size() == pooled.size() && llvm::all_of(shape, [](int64_t size) { return size >= 1; }) &&
              ArrayRef(shape).take_front(kFirstSpatial) == pooled.take_front(kFirstSpatial);
  if (!fits) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::interleaveComma(shape, stream);
    node.fail("input \"output_shape\" is [" + text + "]; it needs the batch and the channels of X, " + describeTensor(node.inputType(0)) +
              ", and a positive size for each of its other dims");
  }
  return shape;
}

int64_t sizeOfPlane(ArrayRef<int64_t> shape) {
  return llvm::product_of(shape.drop_front(kFirstSpatial));
}

void checkIndices(const Node &node, const Shape &shape) {
  RankedTensorType expected = RankedTensorType::get(node.inputType(0).getShape(), node.builder().getI64Type());
  if (node.inputType(1) != expected) {
    node.fail("input I is " + describeTensor(node.inputType(1)) + ", not " + describeTensor(expected) + " as X has it");
  }
  DenseElementsAttr known = node.constantInput(1);
  if (!known) {
    return;
  }
  node.spend(known.getNumElements());
  const int64_t size = sizeOfPlane(shape), positions = sizeOfPlane(expected.getShape());
  for (auto [i, index] : llvm::enumerate(known.getValues<int64_t>())) {
    const int64_t begin = static_cast<int64_t>(i) / positions * size;
    if (index < begin || index >= begin + size) {
      node.fail("index " + Twine(index) + " is not in [" + Twine(begin) + ", " + Twine(begin + size) +
                "), the elements of its channel in the result");
    }
  }
}

// Returns the indices, -1 for those that a later position among the neighbours repeats: two windows have an element in common where their
// positions are less than ceil(kernel / stride) apart in every dim.
Value keepLast(Node &node, const Unpooling &unpooling, Value indices) {
  RankedTensorType type = typeOf(indices);
  Shape dims, sizes;
  SmallVector<Attribute> windows;
  int64_t places = 1;
  for (auto [i, kernel] : llvm::enumerate(unpooling.kernel)) {
    int64_t dim = kFirstSpatial + i, apart = std::min<int64_t>(llvm::divideCeil(kernel, unpooling.strides[i]), type.getDimSize(dim)) - 1;
    dims.push_back(dim);
    sizes.push_back(2 * apart + 1);
    if (sizes.back() > kMostInWindow || llvm::MulOverflow(places, sizes.back(), places)) {
      node.fail("unpools windows that overlap in more than " + Twine(kMostInWindow) + " positions");
    }
    windows.push_back(nn::WindowAttr::get(node.builder().getContext(), sizes.back(), /*stride=*/1, /*dilation=*/1, apart, apart));
  }
  if (places == 1) {
    return indices;
  }
  Value counted = node.create<nn::AddOp>(indices, splatConstant(node, type, 1)); // from 1: 0 is what lies beyond the ends
  Value around = node.create<nn::WindowsOp>(counted, dims, node.builder().getArrayAttr(windows));
  RankedTensorType aroundType = typeOf(around), boolType = aroundType.clone(node.builder().getI1Type());
  SmallVector<int64_t> kept = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())), strides(type.getRank(), 0);
  llvm::append_range(strides, rowMajorStrides(sizes));
  Value isSame = node.create<nn::CompareOp>(boolType, nn::Predicate::Eq, around, node.create<nn::BroadcastOp>(aroundType, counted, kept));
  Value isLater = node.create<nn::CompareOp>(boolType, nn::Predicate::Gt, node.create<nn::IndexOp>(aroundType, strides),
                                             splatConstant(node, aroundType, static_cast<double>(places / 2)));
  Value repeats = convertTo(node, node.create<nn::AndOp>(isSame, isLater), type.getElementType());
  Value count = reduce(node, Reduction::Sum, repeats, nn::windowDims(dims));
  Value isRepeated =
      node.create<nn::CompareOp>(type.clone(node.builder().getI1Type()), nn::Predicate::Gt, count, splatConstant(node, type, 0));
  return node.create<nn::SelectOp>(type, isRepeated, splatConstant(node, type, -1), indices);
}

// Returns the indices counted from the first element of their sample's channel.
Value countInPlane(Node &node, Value indices, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> begins(shape.size(), 0);
  begins[1] = sizeOfPlane(shape);
  begins[0] = begins[1] * shape[1];
  return node.create<nn::SubOp>(indices, node.create<nn::IndexOp>(typeOf(indices), begins));
}

void importMaxUnpool(Node &node) {
  RankedTensorType type = node.inputType(0);
  if (type.getRank() <= kFirstSpatial) {
    node.fail("input 0 is " + describeTensor(type) + "; it needs a batch, channels and at least one spatial dim");
  }
  Unpooling unpooling = readUnpooling(node, type.getRank() - kFirstSpatial);
  Shape shape = node.hasInput(2) ? givenShape(node, type.getShape()) : coveredShape(node, unpooling, type.getShape());
  node.checkSize(shape, type.getElementType());
  checkIndices(node, shape);
  Value indices = countInPlane(node, keepLast(node, unpooling, node.input(1)), shape);
  const SmallVector<int64_t> flat = {shape[0], shape[1], sizeOfPlane(shape)};
  Value planes = node.create<nn::ScatterAddOp>(type.clone(flat), indices, node.input(0), /*batch_dims=*/kFirstSpatial);
  node.setResult(0, reshape(node, planes, shape));
}

constexpr RegistryRow kUnpoolingRows[] = {{"MaxUnpool", importMaxUnpool, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> unpoolingRows() {
  return kUnpoolingRows;
}

} // namespace ashlar::frontend
