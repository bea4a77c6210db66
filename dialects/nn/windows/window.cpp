// SPDX-License-Identifier: Apache-2.0
//
// #nn.window: the arithmetic of windowed ops.

#include "dialects/nn/nn.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

constexpr int64_t kLimit = int64_t{1} << 31; // a tensor's dim is below 2^46: sums and products of these fit in 64 bits

} // namespace

LogicalResult WindowAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t size, int64_t stride, int64_t dilation, int64_t low,
                                 int64_t high) {
  if (size < 1 || stride < 1 || dilation < 1) { // C1
    return emitError() << "window of size " << size << ", stride " << stride << " and dilation " << dilation
                       << "; all three must be at least 1";
  }
  for (int64_t number : {size, stride, dilation, low, high}) {
    if (number >= kLimit || number <= -kLimit) { // C2
      return emitError() << "window of size " << size << ", stride " << stride << ", dilation " << dilation << ", padding " << low
                         << " and " << high << ": numbers must be below " << kLimit;
    }
  }
  return success();
}

std::optional<int64_t> WindowAttr::countPositions(int64_t size) const {
  int64_t room = size + getLow() + getHigh() - getSpan();
  return room < 0 ? std::nullopt : std::optional(room / getStride() + 1);
}

// Element i of block q is in the window of position o where o * stride + k * dilation - low = i for a k.
Access WindowAttr::getPositionsOfBlocks() const {
  return {1, llvm::divideCeilSigned(getLow() - getSpan() + 1, getStride()),
          llvm::divideFloorSigned(getStride() - 1 + getLow(), getStride()) + 1};
}

WindowAttr WindowAttr::getOnRun(int64_t low, int64_t elements, int64_t positions) const {
  return get(getContext(), getSize(), getStride(), getDilation(), low, (positions - 1) * getStride() + getSpan() - low - elements);
}

} // namespace ashlar::nn
