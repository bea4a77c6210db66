// SPDX-License-Identifier: Apache-2.0
//
// See squares.h.

#include "passes/train/update/squares.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::train {

Value sumOfSquares(ImplicitLocOpBuilder &builder, Value tensor) {
  Value sum = nn::MulOp::create(builder, tensor, tensor);
  if (int64_t rank = typeOf(tensor).getRank(); rank > 1) {
    sum = nn::ReduceOp::create(builder, Reduction::Sum, sum, llvm::to_vector(llvm::seq<int64_t>(1, rank)));
  }
  return typeOf(sum).getRank() == 0 ? sum : nn::ReduceOp::create(builder, Reduction::Sum, sum, ArrayRef<int64_t>{0}).getResult();
}

} // namespace ashlar::train
