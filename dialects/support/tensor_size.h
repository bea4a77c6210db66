// SPDX-License-Identifier: Apache-2.0
//
// How large a tensor may be. The one place that counts elements and bytes of shapes which nobody has checked yet; whatever passes here can
// be multiplied out in 64 bits afterwards, strides and sums over all devices of a mesh included.

#ifndef ASHLAR_DIALECTS_SUPPORT_TENSOR_SIZE_H
#define ASHLAR_DIALECTS_SUPPORT_TENSOR_SIZE_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Types.h"

#include <string>

namespace ashlar {

// No tensor has more bytes, 64 TiB: a mesh has at most 2^16 devices, so the sum of its bytes on all of them is below 2^63.
inline constexpr int64_t kMostTensorBytes = int64_t{1} << 46;

// Returns why no tensor has this shape, "" when one may: a negative dim, or more than kMostTensorBytes. A dim of size 0 counts as 1 here,
// so that no product of some of the dims overflows either.
//   [65536, 65536, 65536] of f32  ->  "[65536, 65536, 65536] of f32 has more than 70368744177664 bytes, the most that a tensor may have"
std::string findSizeFault(llvm::ArrayRef<int64_t> shape, mlir::Type element);

// Fails with a diagnostic when a tensor among the operands or results of the op is too large.
mlir::LogicalResult verifyTensorSizes(mlir::Operation *op);

// Trait of ops whose operands and results verifyTensorSizes checks.
template <typename Op> class SizedTensors : public mlir::OpTrait::TraitBase<Op, SizedTensors> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) { return verifyTensorSizes(op); }
};

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_TENSOR_SIZE_H
