// SPDX-License-Identifier: Apache-2.0
//
// Draws first the windows, then the channels.

#include "test/unit/reference/random_convolution.h"

#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::test {

namespace {

constexpr int64_t kMost = 3; // places, strides, channels of a group

// Returns a window along a dim of x, or of y, of `size` elements; sets the size of the dim in the other one.
nn::WindowAttr drawWindow(MLIRContext *context, int64_t size, bool isY, int64_t &other, function_ref<int64_t(int64_t)> roll) {
  int64_t places = 1 + roll(kMost), stride = 1 + roll(kMost), dilation = 1 + roll(2);
  int64_t low = roll(4) - 1, high = roll(4) - 1, span = (places - 1) * dilation + 1;
  int64_t in = isY ? (size - 1) * stride + span - low - high + roll(stride) : size;
  if (in < 1) { // x has at least one element
    low -= 1 - in;
    in = 1;
  }
  high += std::max<int64_t>(span - in - low - high, 0); // and y too
  auto window = nn::WindowAttr::get(context, places, stride, dilation, low, high);
  other = isY ? in : *window.countPositions(in);
  return window;
}

} // namespace

std::optional<RandomConvolution> drawConvolution(MLIRContext *context, ArrayRef<int64_t> shape, function_ref<int64_t(int64_t)> roll) {
  size_t rank = shape.size();
  if (rank < 3 || rank > 5) {
    return std::nullopt;
  }
  auto kind = static_cast<nn::ConvolutionKind>(roll(3));
  RandomConvolution form{kind, {roll(2) == 0, roll(3) == 0}, {}, {}, {}};
  bool isY = kind == nn::ConvolutionKind::Data;
  SmallVector<int64_t> other(shape), weights(2), sizes;
  SmallVector<Attribute> windows;
  for (size_t i = 0; i + 2 < rank; ++i) {
    int64_t &dim = other[i + (form.format.channelsLast ? 1 : 2)];
    windows.push_back(drawWindow(context, dim, isY, dim, roll));
    weights.push_back(cast<nn::WindowAttr>(windows.back()).getSize());
    form.terms *= kind == nn::ConvolutionKind::Weights ? dim : weights.back();
  }
  form.windows = ArrayAttr::get(context, windows);
  int64_t &channels = other[form.format.channelsLast ? rank - 1 : 1], given = channels;
  int64_t groups = roll(2) == 0 ? 1 : given % 2 == 0 && roll(2) == 0 ? 2 : given;
  channels = groups * (1 + roll(kMost));
  weights[0] = isY ? given : channels;
  weights[1] = (isY ? channels : given) / groups;
  if (form.format.weightsLast) {
    std::rotate(weights.begin() + 1, weights.begin() + 2, weights.end());
  }
  form.terms *= kind == nn::ConvolutionKind::Weights ? shape[0] : given / groups;
  form.second = kind == nn::ConvolutionKind::Weights ? other : weights;
  form.result = kind == nn::ConvolutionKind::Weights ? weights : other;
  return form;
}

Value createConvolution(OpBuilder &builder, Location loc, const RandomConvolution &form, Value first, Value second) {
  return nn::createConvolution(builder, loc, form.kind, typeOf(first).clone(form.result), {first, second}, form.windows, form.format);
}

} // namespace ashlar::test
