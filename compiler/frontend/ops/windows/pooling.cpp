// SPDX-License-Identifier: Apache-2.0
//
// Pooling and local response normalization: reductions over windows. Sums are divided by numbers known at import.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/windows/window_rules.h"
#include "compiler/frontend/registry.h"

#include "dialects/nn/windows/window_views.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

ArrayRef<int64_t> spatialSizes(const Node &node) {
  RankedTensorType type = node.inputType(0);
  if (type.getRank() <= kFirstSpatial) {
    node.fail("input 0 is " + describeTensor(type) + "; pooling needs a batch, channels and at least one spatial dim");
  }
  return type.getShape().drop_front(kFirstSpatial);
}

// The windows of a node, as the ops of nn take them, and how far each dim is padded without ceil_mode.
struct Pooling {
  SmallVector<int64_t> dims, sizes;
  ArrayAttr windows;
  SmallVector<int64_t> high;

  nn::WindowAttr window(size_t i) const { return nn::windowAt(windows, i); }
};

// Returns the window; fails when a number is larger than windows have.
nn::WindowAttr makeWindow(const Node &node, size_t spatialDim, int64_t size, int64_t stride, int64_t dilation, int64_t low, int64_t high) {
  if (std::max(size, high) > kMostInWindow) {
    node.fail("pools windows of " + Twine(size) + " elements with " + Twine(high) + " of padding behind in spatial dim " +
              Twine(spatialDim) + "; the most is " + Twine(kMostInWindow));
  }
  return nn::WindowAttr::get(node.builder().getContext(), size, stride, dilation, low, high);
}

// As many positions as begin within the input and the padding in front of it, the last ones reaching out of the padding behind.
nn::WindowAttr roundUp(const Node &node, size_t spatialDim, nn::WindowAttr window, int64_t size) {
  int64_t stride = window.getStride(), room = size + window.getLow() + window.getHigh() - window.getSpan();
  int64_t positions = llvm::divideCeil(room, stride) + 1;
  if ((positions - 1) * stride >= size + window.getLow()) {
    --positions;
  }
  int64_t high = std::max(window.getHigh(), (positions - 1) * stride + window.getSpan() - size - window.getLow());
  return makeWindow(node, spatialDim, window.getSize(), stride, window.getDilation(), window.getLow(), high);
}

Pooling readPooling(Node &node) {
  Pooling pooling;
  llvm::append_range(pooling.sizes, spatialSizes(node));
  WindowAttributes attributes = readWindowAttributes(node, pooling.sizes.size(), /*kernel=*/{});
  bool roundsUp = node.getInt("ceil_mode", 0) != 0 && attributes.autoPad == AutoPad::NotSet;
  SmallVector<Attribute> windows = windowsOver(node, attributes, pooling.sizes);
  for (auto [i, size] : llvm::enumerate(pooling.sizes)) {
    auto window = llvm::cast<nn::WindowAttr>(windows[i]);
    pooling.dims.push_back(kFirstSpatial + i);
    pooling.high.push_back(window.getHigh());
    windows[i] = roundsUp ? roundUp(node, i, window, size) : window;
  }
  pooling.windows = node.builder().getArrayAttr(windows);
  return pooling;
}

// Windows that hold each dim as a whole.
Pooling globalPooling(Node &node) {
  Pooling pooling;
  llvm::append_range(pooling.sizes, spatialSizes(node));
  SmallVector<Attribute> windows;
  for (auto [i, size] : llvm::enumerate(pooling.sizes)) {
    if (size == 0) {
      node.fail("input 0 is " + describeTensor(node.inputType(0)) + ", which has no elements to pool");
    }
    pooling.dims.push_back(kFirstSpatial + i);
    pooling.high.push_back(0);
    windows.push_back(makeWindow(node, i, size, /*stride=*/1, /*dilation=*/1, /*low=*/0, /*high=*/0));
  }
  pooling.windows = node.builder().getArrayAttr(windows);
  return pooling;
}

Value sumWindows(Node &node, Value input, const Pooling &pooling) {
  Value elements = node.create<nn::WindowsOp>(input, pooling.dims, pooling.windows);
  return reduce(node, Reduction::Sum, elements, nn::windowDims(pooling.dims));
}

Value multiply(Node &node, Value value, double factor) {
  return node.create<nn::MulOp>(value, splatConstant(node, typeOf(value), factor));
}

//===-- Max ---------------------------------------------------------------------------------------------------------------------------===//

// The number of the largest element in the whole input: that of the first element of the window, and the way to the place in the window.
Value indicesOf(Node &node, const Pooling &pooling, Value place, bool columnMajor) {
  RankedTensorType type = typeOf(place).clone(node.builder().getI64Type());
  place = convertTo(node, place, type.getElementType());
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  for (size_t d = kFirstSpatial; columnMajor && d < strides.size(); ++d) {
    strides[d] = d == kFirstSpatial ? 1 : strides[d - 1] * shape[d - 1];
  }
  SmallVector<int64_t> ofPositions(strides);
  SmallVector<int64_t> sizes;
  int64_t origin = 0;
  for (auto [i, dim] : llvm::enumerate(pooling.dims)) {
    ofPositions[dim] *= pooling.window(i).getStride();
    origin -= pooling.window(i).getLow() * strides[dim];
    sizes.push_back(pooling.window(i).getSize());
  }
  Value number = node.create<nn::IndexOp>(type, ofPositions);
  number = node.create<nn::AddOp>(number, splatConstant(node, type, origin));
  Value left = place;
  for (auto [i, size] : llvm::enumerate(rowMajorStrides(sizes))) {
    Value step = splatConstant(node, type, size);
    Value k = node.create<nn::DivOp>(left, step);
    left = node.create<nn::SubOp>(left, node.create<nn::MulOp>(k, step));
    number = node.create<nn::AddOp>(number, multiply(node, k, pooling.window(i).getDilation() * strides[pooling.dims[i]]));
  }
  return number;
}

Value largestOf(Node &node, Value input, const Pooling &pooling) {
  int64_t elements = 1;
  for (size_t i = 0; i < pooling.dims.size(); ++i) {
    elements *= pooling.window(i).getSize(); // each factor is below 2^31, and so is what came before
    if (elements > kMostInWindow) {
      node.fail("pools windows of 2^31 elements or more");
    }
  }
  return node.create<nn::MaxPoolOp>(input, pooling.dims, pooling.windows);
}

void importMaxPool(Node &node) {
  Pooling pooling = readPooling(node);
  int64_t order = node.getInt("storage_order", 0);
  if (order != 0 && order != 1) {
    node.fail("attribute \"storage_order\" is " + Twine(order) + "; use 0, row major, or 1, column major");
  }
  Type element = node.inputType(0).getElementType();
  if (element.isInteger() && (element.isInteger(1) || element.getIntOrFloatBitWidth() != 8)) {
    node.fail("input 0 is a tensor of " + elementName(element) + ", which the op does not take; its inputs are floats, int8 or uint8");
  }
  // A byte is exact in f32, and -infinity, of a window that holds padding only, becomes the least one.
  Value input = element.isInteger() ? convertTo(node, node.input(0), node.builder().getF32Type()) : node.input(0);
  Value largest = largestOf(node, input, pooling);
  node.setResult(0, convertTo(node, largest, element));
  if (node.hasResult(1)) {
    Value place = node.create<nn::MaxPoolPlaceOp>(input, largest, pooling.dims, pooling.windows);
    node.setResult(1, indicesOf(node, pooling, place, order == 1));
  }
}

void importGlobalMaxPool(Node &node) {
  Pooling pooling = globalPooling(node);
  node.setResult(0, largestOf(node, node.input(0), pooling));
}

//===-- Average -----------------------------------------------------------------------------------------------------------------------===//

// Returns how many elements the windows at each position hold, along one dim: of the input, or of the padding too.
SmallVector<int64_t> countElements(Node &node, const Pooling &pooling, size_t i, bool withPadding) {
  nn::WindowAttr window = pooling.window(i);
  int64_t size = pooling.sizes[i], positions = *window.countPositions(size);
  int64_t low = withPadding ? -window.getLow() : 0, high = withPadding ? size + pooling.high[i] : size;
  node.spend(positions);
  node.spend(positions * window.getSize());
  SmallVector<int64_t> counts(positions, 0);
  for (int64_t o = 0; o < positions; ++o) {
    for (int64_t k = 0; k < window.getSize(); ++k) {
      int64_t at = window.elementAt(o, k);
      counts[o] += at >= low && at < high;
    }
    if (counts[o] == 0) {
      node.fail("the window at position " + Twine(o) + " of spatial dim " + Twine(i) +
                " holds padding only, which has no average; pad less, or set count_include_pad");
    }
  }
  return counts;
}

// Divides sums by the number of elements of their windows.
Value divideByCounts(Node &node, Value sum, const Pooling &pooling, bool withPadding) {
  RankedTensorType type = typeOf(sum);
  SmallVector<double> shares{1};
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < pooling.dims.size(); ++i) {
    SmallVector<int64_t> counts = countElements(node, pooling, i, withPadding);
    shape.push_back(counts.size());
    node.spend(shares.size() * counts.size());
    SmallVector<double> next;
    for (double share : shares) {
      for (int64_t count : counts) {
        next.push_back(share * count);
      }
    }
    shares = std::move(next);
  }
  if (llvm::all_equal(shares)) {
    return multiply(node, sum, 1 / shares.front());
  }
  SmallVector<Attribute> inverses;
  for (double count : shares) {
    inverses.push_back(FloatAttr::get(type.getElementType(), 1 / count));
  }
  RankedTensorType inverseType = type.clone(shape);
  Value inverse = node.create<nn::ConstantOp>(inverseType, DenseElementsAttr::get(inverseType, inverses));
  return node.create<nn::MulOp>(sum, node.create<nn::BroadcastOp>(type, inverse, pooling.dims));
}

void importAveragePool(Node &node) {
  Pooling pooling = readPooling(node);
  bool withPadding = node.getInt("count_include_pad", 0) != 0;
  node.setResult(0, divideByCounts(node, sumWindows(node, node.input(0), pooling), pooling, withPadding));
}

// Reduces the spatial dims and keeps them with size 1.
Value reduceSpatial(Node &node, Value value) {
  SmallVector<int64_t> shape(shapeOf(value).take_front(kFirstSpatial));
  auto dims = llvm::to_vector(llvm::seq<int64_t>(kFirstSpatial, typeOf(value).getRank()));
  shape.append(dims.size(), 1);
  return reshape(node, reduce(node, Reduction::Sum, value, dims), shape);
}

void importGlobalAveragePool(Node &node) {
  int64_t count = 1;
  for (int64_t size : spatialSizes(node)) {
    count *= size;
  }
  if (count == 0) {
    node.fail("input 0 is " + describeTensor(node.inputType(0)) + ", which has no elements to pool");
  }
  node.setResult(0, multiply(node, reduceSpatial(node, node.input(0)), 1.0 / count));
}

//===-- Lp ----------------------------------------------------------------------------------------------------------------------------===//

int64_t readNorm(Node &node) {
  int64_t p = node.getInt("p", 2);
  if (p < 1) {
    node.fail("attribute \"p\" is " + Twine(p) + ", not a positive norm");
  }
  return p;
}

Value constantPower(Node &node, Value value, double exponent) {
  return node.create<nn::PowOp>(value, splatConstant(node, typeOf(value), exponent));
}

// Returns |x|^p.
Value powers(Node &node, Value x, int64_t p) {
  if (p == 2) {
    return node.create<nn::MulOp>(x, x);
  }
  Value size = node.create<nn::AbsOp>(x);
  return p == 1 ? size : constantPower(node, size, static_cast<double>(p));
}

Value root(Node &node, Value sum, int64_t p) {
  return p == 1 ? sum : p == 2 ? node.create<nn::SqrtOp>(sum).getResult() : constantPower(node, sum, 1.0 / static_cast<double>(p));
}

void importLpPool(Node &node) {
  Pooling pooling = readPooling(node);
  int64_t p = readNorm(node);
  node.setResult(0, root(node, sumWindows(node, powers(node, node.input(0), p), pooling), p));
}

void importGlobalLpPool(Node &node) {
  int64_t p = readNorm(node);
  if (llvm::is_contained(spatialSizes(node), 0)) {
    node.fail("input 0 is " + describeTensor(node.inputType(0)) + ", which has no elements to pool");
  }
  node.setResult(0, root(node, reduceSpatial(node, powers(node, node.input(0), p)), p));
}

//===-- Local response normalization --------------------------------------------------------------------------------------------------===//

// x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta
void importLrn(Node &node) {
  Value x = node.input(0);
  if (typeOf(x).getRank() < 2) {
    node.fail("input 0 is " + describeTensor(typeOf(x)) + "; it needs a batch and channels");
  }
  if (!node.hasAttribute("size")) {
    node.fail("attribute \"size\" is missing");
  }
  int64_t size = node.getInt("size", 1);
  if (size < 1 || size > kMostInWindow) {
    node.fail("attribute \"size\" is " + Twine(size) + ", not a number of channels");
  }
  double alpha = node.getFloat("alpha", 1e-4), beta = node.getFloat("beta", 0.75), bias = node.getFloat("bias", 1.0);
  int64_t low = (size - 1) / 2;
  Pooling channels;
  channels.dims = {1};
  channels.windows = node.builder().getArrayAttr(nn::WindowAttr::get(node.builder().getContext(), size, 1, 1, low, size - 1 - low));
  Value sum = sumWindows(node, powers(node, x, 2), channels);
  Value scaled = multiply(node, sum, alpha / static_cast<double>(size));
  Value base = node.create<nn::AddOp>(scaled, splatConstant(node, typeOf(scaled), bias));
  node.setResult(0, node.create<nn::MulOp>(x, constantPower(node, base, -beta)).getResult());
}

constexpr RegistryRow kPoolingRows[] = {
    {"AveragePool", importAveragePool, Accepts::Floats},
    {"GlobalAveragePool", importGlobalAveragePool, Accepts::Floats},
    {"GlobalLpPool", importGlobalLpPool, Accepts::Floats},
    {"GlobalMaxPool", importGlobalMaxPool, Accepts::Floats},
    {"LRN", importLrn, Accepts::Floats},
    {"LpPool", importLpPool, Accepts::Floats},
    {"MaxPool", importMaxPool},
};

} // namespace

ArrayRef<RegistryRow> poolingRows() {
  return kPoolingRows;
}

} // namespace ashlar::frontend
