// SPDX-License-Identifier: Apache-2.0
//
// The element types Ashlar computes with, and their size in memory. A bool (i1) is one byte.

#ifndef ASHLAR_DIALECTS_SUPPORT_ELEMENT_TYPE_H
#define ASHLAR_DIALECTS_SUPPORT_ELEMENT_TYPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeRange.h"

namespace ashlar {

// Returns the bytes of one element in memory: f32 4, f64 8, i32 4, i64 8, i1 1, f16 and bf16 2.
int64_t elementBytes(mlir::Type type);

// Returns true for the floats narrower than f32, f16 and bf16: ops on them compute in f32 and round their results.
bool isNarrowFloat(mlir::Type type);

// Returns the type in which an element is computed: f32 for bf16 and f16, integers without their sign, else the type itself. Each op rounds
// its result to the element type, so a value is the same number whether a kernel computes it or reads it.
mlir::Type computedType(mlir::Type element);

// Returns the type in which an element lies in memory: a byte for a bool, integers without their sign, else the type itself.
mlir::Type storedType(mlir::Type element);

// Returns the bytes of a dense tensor or memref of static shape.
int64_t byteSize(mlir::ShapedType type);

// Returns the bytes of all of them.
int64_t totalByteSize(mlir::TypeRange types);

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_ELEMENT_TYPE_H
