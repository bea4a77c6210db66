// SPDX-License-Identifier: Apache-2.0
//
// Element types of integers: those with a sign are MLIR's signless ones (i8 to i64), those without its unsigned ones (ui8 to ui64), and a
// bool is i1. Ops of arith know no sign; who emits them asks here.

#ifndef ASHLAR_DIALECTS_SUPPORT_INTEGER_TYPE_H
#define ASHLAR_DIALECTS_SUPPORT_INTEGER_TYPE_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/APInt.h"

namespace ashlar {

// Returns true for integers without a sign, and for bools: false < true.
bool isUnsigned(mlir::Type type);

// Returns the least and the largest number of a type of integers or bools.
llvm::APInt lowestInteger(mlir::Type type);
llvm::APInt highestInteger(mlir::Type type);

// Returns the number that an integer of a type stands for; one of ui64 from 2^63 on as the negative number with the same bits.
int64_t integerValue(mlir::Type type, const llvm::APInt &value);

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_INTEGER_TYPE_H
