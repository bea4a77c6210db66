// SPDX-License-Identifier: Apache-2.0
//
// Conv and ConvTranspose. auto_pad, output_padding and output_shape become the padding of nn's windows here, and the bias an addition.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/windows/window_rules.h"
#include "compiler/frontend/registry.h"

#include "dialects/nn/windows/convolution.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int64_t kMostSpatialDims = 3;

// Checks what Conv and ConvTranspose have in common. Returns the number of spatial dims.
size_t checkInputs(Node &node) {
  RankedTensorType x = node.inputType(0), weights = node.inputType(1);
  int64_t spatial = x.getRank() - 2;
  if (spatial < 1 || spatial > kMostSpatialDims) {
    node.fail("input X is " + describeTensor(x) + ", with " + Twine(spatial) + " spatial dims; 1 to " + Twine(kMostSpatialDims) +
              " are supported");
  }
  if (weights.getRank() != x.getRank() || weights.getElementType() != x.getElementType()) {
    node.fail("input W is " + describeTensor(weights) + ", but X is " + describeTensor(x) + "; they need equal ranks and types");
  }
  return spatial;
}

// Reads how many groups there are, which divide the channels of X.
int64_t readGroups(Node &node) {
  int64_t groups = node.getInt("group", 1), channels = node.inputType(0).getDimSize(1);
  if (groups < 1 || channels % groups != 0) {
    node.fail("attribute \"group\" is " + Twine(groups) + ", which does not divide the " + Twine(channels) + " channels of X, " +
              describeTensor(node.inputType(0)));
  }
  return groups;
}

// Adds input B, if it is there, to each channel.
Value addBias(Node &node, Value value) {
  if (!node.hasInput(2)) {
    return value;
  }
  RankedTensorType type = typeOf(value), bias = node.inputType(2);
  if (bias != type.clone({type.getDimSize(1)})) {
    node.fail("input B is " + describeTensor(bias) + ", but the result has " + Twine(type.getDimSize(1)) + " channels of " +
              elementName(type.getElementType()));
  }
  Value repeated = node.create<nn::BroadcastOp>(type, node.input(2), ArrayRef<int64_t>{1});
  return node.create<nn::AddOp>(value, repeated);
}

void importConv(Node &node) {
  size_t spatial = checkInputs(node);
  int64_t groups = readGroups(node);
  RankedTensorType x = node.inputType(0), weights = node.inputType(1);
  if (weights.getDimSize(1) != x.getDimSize(1) / groups || weights.getDimSize(0) % groups != 0) {
    node.fail("input W is " + describeTensor(weights) + "; with " + Twine(groups) + " groups and X of " + describeTensor(x) +
              " it needs dim 1 of size " + Twine(x.getDimSize(1) / groups) + ", and a dim 0 that " + Twine(groups) + " divides");
  }
  WindowAttributes attributes = readWindowAttributes(node, spatial, weights.getShape().drop_front(2));
  ArrayAttr windows = node.builder().getArrayAttr(windowsOver(node, attributes, x.getShape().drop_front(2)));
  FailureOr<RankedTensorType> y =
      nn::inferConvolution(x, weights, windows, /*format=*/{}, [&] { return mlir::emitError(node.location()); });
  if (failed(y)) {
    node.fail("cannot convolve X of " + describeTensor(x) + " with W of " + describeTensor(weights));
  }
  node.checkSize(y->getShape(), y->getElementType());
  node.setResult(0, addBias(node, node.create<nn::ConvOp>(*y, node.input(0), node.input(1), windows, /*channels_last=*/false,
                                                          /*weights_last=*/false)));
}

// One spatial dim of a ConvTranspose: how large the result is, and what a convolution of it is padded with in front. Everything is
// counted in 128 bits.
struct TransposedDim {
  __int128 size, low;
};

// The result spans `whole` elements, of which padding takes some off; `output_shape` (-1: not given) and auto_pad say how many.
TransposedDim transposedDim(const WindowAttributes &attributes, size_t dim, int64_t positions, int64_t outputPadding, int64_t outputSize) {
  __int128 whole = __int128(attributes.strides[dim]) * (positions - 1) + attributes.span(dim) + outputPadding;
  bool isSame = attributes.autoPad == AutoPad::SameUpper || attributes.autoPad == AutoPad::SameLower;
  if (outputSize < 0 && !isSame) {
    return {whole - attributes.low[dim] - attributes.high[dim], attributes.low[dim]};
  }
  __int128 size = outputSize >= 0 ? __int128(outputSize) : __int128(attributes.strides[dim]) * positions;
  __int128 padding = whole - size, half = padding >= 0 ? padding / 2 : -((1 - padding) / 2); // rounded down
  return {size, attributes.autoPad == AutoPad::SameUpper ? half : padding - half};
}

void importConvTranspose(Node &node) {
  size_t spatial = checkInputs(node);
  int64_t groups = readGroups(node);
  RankedTensorType y = node.inputType(0), weights = node.inputType(1); // of the convolution that this is the transpose of
  if (weights.getDimSize(0) != y.getDimSize(1)) {
    node.fail("input W is " + describeTensor(weights) + ", but X of " + describeTensor(y) + " needs dim 0 of size " +
              Twine(y.getDimSize(1)));
  }
  WindowAttributes attributes = readWindowAttributes(node, spatial, weights.getShape().drop_front(2));
  Shape outputPadding = readSpatialInts(node, "output_padding", spatial, /*least=*/0, /*byDefault=*/0);
  Shape outputShape = readSpatialInts(node, "output_shape", spatial, /*least=*/1, /*byDefault=*/-1);
  Shape shape = {y.getDimSize(0), weights.getDimSize(1) * groups};
  SmallVector<Attribute> windows;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t positions = y.getDimSize(2 + i);
    TransposedDim dim = transposedDim(attributes, i, positions, outputPadding[i], outputShape[i]);
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    __int128 high = __int128(attributes.strides[i]) * (positions - 1) + attributes.span(i) - dim.low - dim.size;
    auto isOut = [](__int128 number) { return number > kMost || number < -kMost; };
    if (positions < 1 || dim.size < 1 || isOut(dim.size) || isOut(dim.low) || isOut(high)) {
      node.fail("spatial dim " + Twine(i) + " of the result has no size from 1 to " + Twine(kMost) + ": X has " + Twine(positions) +
                " positions, with stride " + Twine(attributes.strides[i]) + ", a kernel that spans " + Twine(attributes.span(i)) +
                ", output_padding " + Twine(outputPadding[i]) + ", pads " + Twine(attributes.low[i]) + " and " + Twine(attributes.high[i]) +
                (outputShape[i] < 0 ? Twine("") : ", output_shape " + Twine(outputShape[i])));
    }
    shape.push_back(static_cast<int64_t>(dim.size));
    windows.push_back(nn::WindowAttr::get(node.builder().getContext(), attributes.kernel[i], attributes.strides[i], attributes.dilations[i],
                                          static_cast<int64_t>(dim.low), static_cast<int64_t>(high)));
  }
  node.checkSize(shape, y.getElementType());
  node.setResult(
      0, addBias(node, node.create<nn::ConvDataOp>(y.clone(shape), node.input(0), node.input(1), node.builder().getArrayAttr(windows),
                                                   /*channels_last=*/false, /*weights_last=*/false)));
}

// Each channel is convolved by a kernel of its own, with what came before it: the end of the past, or zeros.
void importCausalConv(Node &node) {
  RankedTensorType x = node.inputType(0), weights = node.inputType(1);
  std::string activation = node.getString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    node.fail("attribute \"activation\" is \"" + activation + "\"; one of none, silu, swish");
  }
  if (x.getRank() != 3) {
    node.fail("input of " + describeTensor(x) + " is not (batch, channels, length)");
  }
  const int64_t channels = x.getDimSize(1), size = weights.getRank() == 3 ? weights.getDimSize(2) : 0;
  if (size < 1 || weights != x.clone({channels, 1, size})) {
    node.fail("weight of " + describeTensor(weights) + " is not (channels, 1, size) for an input of " + describeTensor(x));
  }
  RankedTensorType before = x.clone({x.getDimSize(0), channels, size - 1});
  if (node.hasInput(3) && node.inputType(3) != before) {
    node.fail("past_state of " + describeTensor(node.inputType(3)) + " is not " + describeTensor(before));
  }
  Value past = node.isGiven(3) ? node.input(3) : splatConstant(node, before, 0);
  Value padded = node.create<nn::ConcatOp>(ValueRange{past, node.input(0)}, /*dim=*/2);
  auto window = nn::WindowAttr::get(node.builder().getContext(), size, /*stride=*/1, /*dilation=*/1, /*low=*/0, /*high=*/0);
  Value y = node.create<nn::ConvOp>(x, padded, node.input(1), node.builder().getArrayAttr({window}), /*channels_last=*/false,
                                    /*weights_last=*/false);
  y = addBias(node, y);
  if (activation != "none") {
    y = node.create<nn::MulOp>(y, node.create<nn::SigmoidOp>(y));
  }
  node.setResult(0, y);
  int64_t length = shapeOf(padded)[2];
  node.setResult(1, sliceAlong(node, padded, 2, length - before.getDimSize(2), length));
}

constexpr RegistryRow kConvolutionRows[] = {{"CausalConvWithState", importCausalConv, Accepts::Floats},
                                            {"Conv", importConv, Accepts::Floats},
                                            {"ConvTranspose", importConvTranspose, Accepts::Floats}};

} // namespace

ArrayRef<RegistryRow> convolutionRows() {
  return kConvolutionRows;
}

} // namespace ashlar::frontend
