// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_SEARCH_PASSES_H
#define ASHLAR_PASSES_SEARCH_PASSES_H

#include "dialects/dist/dist.h"
#include "dialects/support/options/enum_option.h"
#include "passes/search/solver/effort.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

#include "passes/search/search_enums.h.inc"

#include <functional>
#include <memory>
#include <optional>

namespace ashlar::search {

// What a step of lowered programs takes.
struct LoweredCost {
  int64_t stepPs;
  int64_t bytes; // that each device must have
};

// Lowers a module of programs with given layouts, which is used up, and returns its cost; nothing where a pass refuses it.
using CostOfLowered = std::function<std::optional<LoweredCost>(mlir::OwningOpRef<mlir::ModuleOp>)>;

#define GEN_PASS_DECL
#include "passes/search/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/search/passes.h.inc"

// Returns the pass with a way to lower programs: the strategies are compared by that, and a limit of memory is one of complete programs.
std::unique_ptr<mlir::Pass> createSearchLayoutsPass(SearchLayoutsPassOptions options, CostOfLowered costOfLowered);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_PASSES_H
