// SPDX-License-Identifier: Apache-2.0
//
// The pass of this folder; see passes.td.

#ifndef ASHLAR_COMPILER_REFERENCE_PASSES_H
#define ASHLAR_COMPILER_REFERENCE_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ashlar::reference {

#define GEN_PASS_DECL
#include "compiler/reference/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/reference/passes.h.inc"

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_PASSES_H
