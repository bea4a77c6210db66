// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_STAGE_PASSES_H
#define ASHLAR_PASSES_STAGE_PASSES_H

#include "dialects/dist/dist.h"
#include "dialects/support/options/enum_option.h"
#include "passes/stage/schedule.h"

#include "mlir/Pass/Pass.h"

namespace ashlar::stage {

#define GEN_PASS_DECL
#include "passes/stage/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/stage/passes.h.inc"

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_PASSES_H
