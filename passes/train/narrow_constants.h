// SPDX-License-Identifier: Apache-2.0
//
// The conversion of f32 constants to a narrower type.

#ifndef ASHLAR_PASSES_TRAIN_NARROW_CONSTANTS_H
#define ASHLAR_PASSES_TRAIN_NARROW_CONSTANTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace ashlar::train {

// Returns true when a finite element of `elements` (f32) is infinite once rounded to `type`, like -3.4e38 in a mask.
bool overflows(mlir::ElementsAttr elements, mlir::FloatType type);

// Returns true when rounding to `type` changes no element. Assumes that `elements` holds one value only.
bool isExact(mlir::ElementsAttr splat, mlir::FloatType type);

// Returns `elements` (f32) rounded to `type`; null for data that is kept outside of the attribute, which is large.
mlir::ElementsAttr convertElements(mlir::ElementsAttr elements, mlir::FloatType type);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_NARROW_CONSTANTS_H
