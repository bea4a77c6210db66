// SPDX-License-Identifier: Apache-2.0
//
// Transposes around convolutions. What is channels last already, as a memory format makes it, stays as it is.

#include "passes/lower/fusion/convolution_forms.h"

#include "dialects/exec/target_traits.h"
#include "dialects/nn/convolution.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// Returns the permutation that takes [b, c, h, w] to [b, h, w, c], or back.
SmallVector<int64_t> channelsTo(bool last, int64_t rank) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (last) {
    std::rotate(permutation.begin() + 1, permutation.begin() + 2, permutation.end());
  } else {
    std::rotate(permutation.begin() + 1, permutation.end() - 1, permutation.end());
  }
  return permutation;
}

bool isEmpty(Value value) {
  return typeOf(value).getNumElements() == 0;
}

} // namespace

LogicalResult checkConvolution(Operation *op, exec::Target target) {
  if (!nn::Convolution::find(op)) {
    return success();
  }
  if (!exec::traitsOf(target).convolves) {
    return op->emitOpError("is a convolution, which is not implemented for target ")
           << stringifyTarget(target) << "; compile for target cpu";
  }
  if (typeOf(op->getResult(0)).getElementType().isF64()) {
    return op->emitOpError("is a convolution of f64, which is not implemented; use f32 in the model");
  }
  return success();
}

Value putChannelsLast(ImplicitLocOpBuilder &b, Operation *op) {
  std::optional<nn::Convolution> conv = nn::Convolution::find(op);
  if (!conv) {
    return {};
  }
  RankedTensorType type = typeOf(op->getResult(0));
  if (isEmpty(conv->x) || isEmpty(conv->weights) || isEmpty(conv->y)) {
    return nn::ConstantOp::create(b, nn::splat(type, 0));
  }
  if (conv->channelsLast) {
    return {};
  }
  SmallVector<int64_t> toLast = channelsTo(/*last=*/true, type.getRank());
  auto withChannelsLast = [&](Value value) { return nn::TransposeOp::create(b, value, toLast).getResult(); };
  if (conv->kind == nn::ConvolutionKind::Weights) {
    return nn::createConvolution(b, op->getLoc(), conv->kind, type, {withChannelsLast(conv->x), withChannelsLast(conv->y)}, conv->windows,
                                 /*channelsLast=*/true);
  }
  SmallVector<int64_t> shape = llvm::map_to_vector(toLast, [&](int64_t dim) { return type.getDimSize(dim); });
  Value result = nn::createConvolution(b, op->getLoc(), conv->kind, type.clone(shape), {withChannelsLast(op->getOperand(0)), conv->weights},
                                       conv->windows, /*channelsLast=*/true);
  return nn::TransposeOp::create(b, result, channelsTo(/*last=*/false, type.getRank()));
}

} // namespace ashlar::lower
