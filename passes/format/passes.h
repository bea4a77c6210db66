// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_FORMAT_PASSES_H
#define ASHLAR_PASSES_FORMAT_PASSES_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "dialects/support/options/enum_option.h"

#include "mlir/Pass/Pass.h"

namespace ashlar::format {

#define GEN_PASS_DECL
#include "passes/format/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/format/passes.h.inc"

} // namespace ashlar::format

#endif // ASHLAR_PASSES_FORMAT_PASSES_H
