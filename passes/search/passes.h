// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_SEARCH_PASSES_H
#define ASHLAR_PASSES_SEARCH_PASSES_H

#include "dialects/dist/dist.h"
#include "dialects/support/options/enum_option.h"
#include "passes/search/solver/effort.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/Pass/Pass.h"

#include "passes/search/search_enums.h.inc"

namespace ashlar::search {

#define GEN_PASS_DECL
#include "passes/search/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/search/passes.h.inc"

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_PASSES_H
