// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_LAYOUT_PASSES_H
#define ASHLAR_PASSES_LAYOUT_PASSES_H

#include "dialects/dist/dist.h"

#include "mlir/Pass/Pass.h"

namespace ashlar::layout {

#define GEN_PASS_DECL
#include "passes/layout/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/layout/passes.h.inc"

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_PASSES_H
