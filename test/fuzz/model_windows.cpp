// SPDX-License-Identifier: Apache-2.0
//
// Ops of random models that have windows: convolutions, pooling, resampling.

#include "test/fuzz/model_generator.h"

#include "dialects/nn/windows/window_views.h"
#include "dialects/support/tensor_values.h"
#include "test/unit/reference/random_convolution.h"

using namespace mlir;

namespace ashlar::fuzz {

// Windows along a dim of `size`, each with an element that is no padding.
nn::WindowAttr ModelGenerator::window(int64_t size) {
  while (true) {
    int64_t extent = 1 + laterDice.roll(3), dilation = 1 + laterDice.roll(2);
    int64_t most = dilation == 1 ? extent : 1; // of padding, so that a window cannot lie in it
    auto window = nn::WindowAttr::get(b.getContext(), extent, 1 + laterDice.roll(3), dilation,
                                      laterDice.roll(most + 1) - laterDice.oneIn(4), laterDice.roll(most));
    if (window.getLow() < extent && window.countPositions(size)) {
      return window;
    }
  }
}

// Sums and maxima over windows along one dim or two, and sums of elements at places.
void ModelGenerator::windows(Value x) {
  int64_t rank = shapeOf(x).size();
  SmallVector<int64_t> dims{laterDice.roll(rank)};
  if (dims.front() + 1 < rank && laterDice.oneIn(2)) {
    dims.push_back(dims.front() + 1 + laterDice.roll(rank - 1 - dims.front()));
  }
  SmallVector<Attribute> each;
  double elements = 1;
  for (int64_t dim : dims) {
    nn::WindowAttr window = this->window(shapeOf(x)[dim]);
    each.push_back(window);
    elements *= static_cast<double>(window.getSize());
  }
  ArrayAttr windows = b.getArrayAttr(each);
  double bound = boundOf(x);
  switch (laterDice.roll(options.jumps ? 5 : 4)) {
  case 0: {
    Value views = nn::WindowsOp::create(b, x, dims, windows);
    return add(nn::ReduceOp::create(b, Reduction::Sum, views, nn::windowDims(dims)), bound * elements);
  }
  case 1: {
    RankedTensorType type = floats(nn::withWindows(shapeOf(x), dims, windows));
    Value elementsOf = nn::UnwindowsOp::create(b, type, nn::WindowsOp::create(b, x, dims, windows), dims, windows);
    return add(nn::ReduceOp::create(b, Reduction::Sum, elementsOf, nn::windowDims(dims)), bound * elements);
  }
  case 2:
    return add(nn::MaxPoolOp::create(b, generic(x), dims, windows), bound + 1);
  case 3:
    return resample(x, dims.front());
  default: {
    Value y = generic(x), largest = nn::MaxPoolOp::create(b, y, dims, windows);
    Value place = nn::MaxPoolPlaceOp::create(b, y, largest, dims, windows);
    return add(nn::TanhOp::create(b, nn::CastOp::create(b, typeOf(largest), place)), 1);
  }
  }
}

void ModelGenerator::resample(Value x, int64_t dim) {
  int64_t terms = 1 + laterDice.roll(10), size = shapeOf(x)[dim];
  SmallVector<int64_t> places;
  SmallVector<double> weights;
  bool isWeighted = laterDice.oneIn(2);
  for (int64_t i = terms * (1 + laterDice.roll(2 * size)); i > 0; --i) {
    places.push_back(laterDice.roll(size + 2) - 1);
    if (isWeighted) {
      weights.push_back(0.25 * static_cast<double>(laterDice.roll(8)));
    }
  }
  add(nn::ResampleOp::create(b, x, dim, terms, places, weights), boundOf(x) * 2 * static_cast<double>(terms));
}

// A convolution, or a gradient of one.
void ModelGenerator::convolution() {
  Value x = pick();
  auto form = test::drawConvolution(b.getContext(), shapeOf(x), [&](int64_t limit) { return laterDice.roll(limit); });
  if (form && std::max(floats(form->second).getNumElements(), floats(form->result).getNumElements()) <= options.maxElements) {
    Value y = another(form->second);
    add(test::createConvolution(b, b.getLoc(), *form, x, y), form->terms * boundOf(x) * boundOf(y));
  }
}

} // namespace ashlar::fuzz
