// SPDX-License-Identifier: Apache-2.0
//
// exp, log, tanh and erf of f32 without calls, so that loops over them vectorise. docs/numbers.md has their errors.

#ifndef ASHLAR_COMPILER_TARGET_CPU_FUNCTIONS_H
#define ASHLAR_COMPILER_TARGET_CPU_FUNCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::cpu {

// Replaces math.exp, math.log, math.tanh and math.erf of f32 in a kernel by arithmetic. Every result is right for every operand: within the
// error above, and as IEEE 754 has it for zeros, infinities, NaN and subnormal numbers.
mlir::LogicalResult expandFunctions(mlir::func::FuncOp kernel);

} // namespace ashlar::cpu

#endif // ASHLAR_COMPILER_TARGET_CPU_FUNCTIONS_H
