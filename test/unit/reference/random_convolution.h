// SPDX-License-Identifier: Apache-2.0
//
// Random convolutions for generators of programs: of any kind, with groups, and windows of any size, stride, dilation and padding.

#ifndef ASHLAR_TEST_UNIT_REFERENCE_RANDOM_CONVOLUTION_H
#define ASHLAR_TEST_UNIT_REFERENCE_RANDOM_CONVOLUTION_H

#include "dialects/nn/windows/convolution.h"

namespace ashlar::test {

// A convolution of a first operand that is given.
struct RandomConvolution {
  nn::ConvolutionKind kind;
  nn::ConvolutionFormat format;
  mlir::ArrayAttr windows;
  llvm::SmallVector<int64_t> second, result; // shapes
  int64_t terms = 1;                         // that an element of the result adds up, at most
};

// Draws a convolution whose first operand, x or y, has this shape; nothing when it cannot have it. `roll(n)` returns a number below n.
std::optional<RandomConvolution> drawConvolution(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> shape,
                                                 llvm::function_ref<int64_t(int64_t)> roll);

// Creates it.
mlir::Value createConvolution(mlir::OpBuilder &builder, mlir::Location loc, const RandomConvolution &form, mlir::Value first,
                              mlir::Value second);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_REFERENCE_RANDOM_CONVOLUTION_H
