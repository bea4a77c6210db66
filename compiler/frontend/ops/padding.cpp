// SPDX-License-Identifier: Apache-2.0
//
// Pad: by a constant, or by the tensor's own elements. Negative padding takes elements away, before anything is added.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int64_t kMostPadding = int64_t{1} << 46; // bytes of the largest tensor: sums of it and a size do not overflow

struct Padding {
  Shape low, high; // one a dim
};

// From opset 11 on an input; from 18 on only for the dims of `axes`, if there are any.
Padding readPadding(Node &node, int64_t rank) {
  Shape pads = node.getOpset() < 11 ? node.getInts("pads") : node.intsInput(1, "pads");
  Shape axes = node.getOpset() >= 18 && node.hasInput(3) ? node.intsInput(3, "axes") : llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (pads.size() != 2 * axes.size()) {
    node.fail("has " + Twine(pads.size()) + " pads for " + Twine(axes.size()) + " dims, which need " + Twine(2 * axes.size()));
  }
  Padding padding{Shape(rank, 0), Shape(rank, 0)};
  SmallVector<bool> seen(rank, false);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t dim = node.normalizeAxis(axis, rank), low = pads[i], high = pads[i + axes.size()];
    if (seen[dim]) {
      node.fail("axes name dim " + Twine(dim) + " twice");
    }
    seen[dim] = true;
    if (std::max(std::abs(low), std::abs(high)) > kMostPadding || low == INT64_MIN || high == INT64_MIN) {
      node.fail("pads dim " + Twine(dim) + " by " + Twine(low) + " and " + Twine(high) + ", more than a tensor can have");
    }
    padding.low[dim] = low;
    padding.high[dim] = high;
  }
  return padding;
}

// Takes away what negative padding says, and leaves the positive part.
Value crop(Node &node, Value value, Padding &padding) {
  ArrayRef<int64_t> shape = shapeOf(value);
  Shape starts(shape.size(), 0), limits(shape), steps(shape.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d) {
    starts[d] = std::max<int64_t>(0, -padding.low[d]);
    limits[d] = shape[d] - std::max<int64_t>(0, -padding.high[d]);
    if (starts[d] > limits[d]) {
      node.fail("pads of " + Twine(padding.low[d]) + " and " + Twine(padding.high[d]) + " take more away than the " + Twine(shape[d]) +
                " elements of dim " + Twine(d));
    }
    padding.low[d] = std::max<int64_t>(0, padding.low[d]);
    padding.high[d] = std::max<int64_t>(0, padding.high[d]);
  }
  bool isWhole = limits == Shape(shape) && llvm::all_of(starts, [](int64_t start) { return start == 0; });
  return isWhole ? value : node.create<nn::SliceOp>(value, starts, limits, steps).getResult();
}

// The scalar that fills the padding, null for 0.
Value fillOf(Node &node, Type element) {
  auto scalarType = RankedTensorType::get({}, element);
  if (node.getOpset() < 11) {
    double value = node.getFloat("value", 0);
    return value == 0 ? Value() : splatConstant(node, scalarType, value);
  }
  if (!node.hasInput(2)) {
    return {};
  }
  DenseElementsAttr known = node.constantInput(2);
  if (known && known.isSplat() && known == nn::splat(llvm::cast<RankedTensorType>(known.getType()), 0)) {
    return {};
  }
  Value fill = node.input(2);
  if (typeOf(fill).getNumElements() != 1 || typeOf(fill).getElementType() != element) {
    node.fail("constant_value is " + describeTensor(typeOf(fill)) + ", not one element of " + elementName(element));
  }
  return reshape(node, fill, {});
}

// `fill`: a scalar, null for 0.
Value padByConstant(Node &node, Value value, const Padding &padding, Value fill) {
  RankedTensorType from = typeOf(value);
  Shape shape(from.getShape()), interior(shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] += padding.low[d] + padding.high[d];
  }
  node.checkSize(shape, from.getElementType());
  RankedTensorType to = from.clone(shape);
  Value padded = node.create<nn::PadOp>(to, value, padding.low, interior);
  if (!fill) {
    return padded;
  }
  Type boolType = node.builder().getI1Type();
  Value inside = node.create<nn::PadOp>(to.clone(boolType), splatConstant(node, from.clone(boolType), 1), padding.low, interior);
  return node.create<nn::SelectOp>(to, inside, padded, broadcastTo(node, fill, shape));
}

// Repeats the first and the last element of a dim.
Value padByEdge(Node &node, Value value, int64_t dim, int64_t low, int64_t high) {
  RankedTensorType type = typeOf(value);
  auto repeat = [&](int64_t at, int64_t count) {
    Shape starts(type.getRank(), 0), limits(type.getShape()), steps(type.getRank(), 1), shape(type.getShape());
    starts[dim] = at;
    limits[dim] = at + 1;
    shape[dim] = count;
    node.checkSize(shape, type.getElementType());
    return broadcastTo(node, node.create<nn::SliceOp>(value, starts, limits, steps), shape);
  };
  SmallVector<Value> parts;
  if (low > 0) {
    parts.push_back(repeat(0, low));
  }
  parts.push_back(value);
  if (high > 0) {
    parts.push_back(repeat(type.getDimSize(dim) - 1, high));
  }
  return node.create<nn::ConcatOp>(parts, dim);
}

int64_t modulo(int64_t value, int64_t period) {
  return (value % period + period) % period;
}

// The element that stands at place `at` of a dim which goes on as its mirror image, the last element not repeated; or from its start.
int64_t reflected(int64_t at, int64_t size) {
  int64_t period = std::max<int64_t>(1, 2 * (size - 1)), within = modulo(at, period);
  return within < size ? within : period - within;
}
int64_t wrapped(int64_t at, int64_t size) {
  return modulo(at, size);
}

Value padByElements(Node &node, Value value, int64_t dim, int64_t low, int64_t high, int64_t (*elementAt)(int64_t at, int64_t size)) {
  RankedTensorType type = typeOf(value);
  Shape shape(type.getShape());
  shape[dim] += low + high;
  node.checkSize(shape, type.getElementType());
  node.spend(shape[dim]);
  Shape places;
  for (int64_t i = 0; i < shape[dim]; ++i) {
    places.push_back(elementAt(i - low, type.getDimSize(dim)));
  }
  return node.create<nn::ResampleOp>(value, dim, /*terms=*/1, places, ArrayRef<double>());
}

Value padByOwnElements(Node &node, Value value, const Padding &padding, StringRef mode) {
  for (int64_t dim = 0; dim < typeOf(value).getRank(); ++dim) {
    int64_t low = padding.low[dim], high = padding.high[dim];
    if (low == 0 && high == 0) {
      continue;
    }
    if (shapeOf(value)[dim] == 0) {
      node.fail("has no element in dim " + Twine(dim) + " to pad with");
    }
    value = mode == "edge" ? padByEdge(node, value, dim, low, high)
                           : padByElements(node, value, dim, low, high, mode == "reflect" ? reflected : wrapped);
  }
  return value;
}

void importPad(Node &node) {
  std::string mode = node.getString("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    node.fail("attribute \"mode\" is \"" + mode + "\"; use constant, edge, reflect or wrap");
  }
  Value input = node.input(0);
  RankedTensorType type = typeOf(input);
  Padding padding = readPadding(node, type.getRank());
  Value value = crop(node, input, padding);
  bool isPadded = llvm::any_of(llvm::concat<int64_t>(padding.low, padding.high), [](int64_t pad) { return pad > 0; });
  if (mode == "constant" || !isPadded) {
    Value fill = fillOf(node, type.getElementType());
    value = isPadded ? padByConstant(node, value, padding, fill) : value;
  } else {
    value = convertTo(node, padByOwnElements(node, asNumbers(node, value), padding, mode), type.getElementType());
    if (node.getOpset() < 11) {
      node.getFloat("value", 0); // has no meaning here
    } else {
      node.hasInput(2);
    }
  }
  value == input ? node.aliasResult(0, 0) : node.setResult(0, value);
}

// What a dim has too much or too little is halved; the odd element is behind.
void importCenterCropPad(Node &node) {
  RankedTensorType type = node.inputType(0);
  Shape sizes = node.intsInput(1, "shape"), axes = node.getInts("axes");
  if (axes.empty()) {
    axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  }
  if (axes.size() != sizes.size()) {
    node.fail("has " + Twine(sizes.size()) + " sizes for " + Twine(axes.size()) + " axes");
  }
  Padding padding{Shape(type.getRank(), 0), Shape(type.getRank(), 0)};
  Shape shape(type.getShape());
  for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
    int64_t dim = node.normalizeAxis(axis, type.getRank());
    if (size < 0 || size > kMostPadding) {
      node.fail("size " + Twine(size) + " of dim " + Twine(dim) + " is not a possible size");
    }
    shape[dim] = size;
    padding.low[dim] = (size - type.getDimSize(dim)) / 2;
    padding.high[dim] = size - type.getDimSize(dim) - padding.low[dim];
  }
  if (ArrayRef(shape) == type.getShape()) {
    return node.aliasResult(0, 0);
  }
  Value value = crop(node, node.input(0), padding);
  bool isPadded = shapeOf(value) != ArrayRef(shape);
  node.setResult(0, isPadded ? padByConstant(node, value, padding, /*fill=*/{}) : value);
}

constexpr RegistryRow kPaddingRows[] = {{"CenterCropPad", importCenterCropPad}, {"Pad", importPad, Accepts::Any, /*knownFloats=*/0b100}};

} // namespace

ArrayRef<RegistryRow> paddingRows() {
  return kPaddingRows;
}

} // namespace ashlar::frontend
