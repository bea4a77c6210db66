// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_PARTITION_PASSES_H
#define ASHLAR_PASSES_PARTITION_PASSES_H

#include "dialects/dist/dist.h"
#include "dialects/support/options/enum_option.h"
#include "passes/partition/fusion_setting.h"

#include "mlir/Pass/Pass.h"

namespace ashlar::partition {

#define GEN_PASS_DECL
#include "passes/partition/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/partition/passes.h.inc"

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_PASSES_H
