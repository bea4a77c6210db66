// SPDX-License-Identifier: Apache-2.0
//
// The numbers of the ABI for types, and for enums of the dialects.

#ifndef ASHLAR_COMPILER_TARGET_ABI_NUMBERS_H
#define ASHLAR_COMPILER_TARGET_ABI_NUMBERS_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

namespace ashlar::target {

// Returns the ABI's number of an element type, which it has.
uint32_t dtypeOf(mlir::Type type);

// Returns the ABI's number of a case.
uint32_t kindOf(CollectiveKind kind);
uint32_t reductionOf(Reduction reduction);
uint32_t roleOf(exec::Role role);
uint32_t roleOf(nn::ProgramRole role);
uint32_t spaceOf(exec::Space space);

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_ABI_NUMBERS_H
