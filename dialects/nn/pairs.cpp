// SPDX-License-Identifier: Apache-2.0
//
// See pairs.h. All of it moves elements, so that it is computed on parts as on sums.

#include "dialects/nn/pairs.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns x under a new dim 0 of size 1.
Value asRow(ImplicitLocOpBuilder &b, Value x) {
  SmallVector<int64_t> shape = {1};
  llvm::append_range(shape, shapeOf(x));
  return ReshapeOp::create(b, typeOf(x).clone(shape), x);
}

} // namespace

Value pairUp(ImplicitLocOpBuilder &b, Value x, Value y) {
  return ConcatOp::create(b, ValueRange{asRow(b, x), asRow(b, y)}, /*dim=*/0);
}

Value partOf(ImplicitLocOpBuilder &b, Value pair, int64_t part) {
  SmallVector<int64_t> starts(typeOf(pair).getRank(), 0), limits(shapeOf(pair)), steps(typeOf(pair).getRank(), 1);
  starts.front() = part;
  limits.front() = part + 1;
  Value row = SliceOp::create(b, pair, starts, limits, steps);
  return ReshapeOp::create(b, typeOf(row).clone(shapeOf(row).drop_front()), row);
}

} // namespace ashlar::nn
