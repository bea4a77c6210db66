// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_LOWER_PASSES_H
#define ASHLAR_PASSES_LOWER_PASSES_H

#include "dialects/exec/exec.h"
#include "dialects/support/options/enum_option.h"

#include "mlir/Pass/Pass.h"

namespace ashlar::lower {

#define GEN_PASS_DECL
#include "passes/lower/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/lower/passes.h.inc"

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_PASSES_H
