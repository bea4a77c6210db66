// SPDX-License-Identifier: Apache-2.0
//
// Layouts as users write them in rules: [{dp}, {tp:(1)2, ?}].

#ifndef ASHLAR_PASSES_LAYOUT_RULES_LAYOUT_TEXT_H
#define ASHLAR_PASSES_LAYOUT_RULES_LAYOUT_TEXT_H

#include "passes/analysis/planner/mesh_refinement.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace ashlar::layout {

using analysis::AxisPart;
using analysis::MeshRefinement;

// One dim of a layout: the axes that split it, major to minor, and whether inference may add more.
struct DimSplit {
  llvm::SmallVector<AxisPart, 2> axes;
  bool isOpen = false;
};

// Parses a layout: in brackets one pair of braces a dim, in it axes, major to minor, and last a `?` when inference may add more. Quotes
// around axes are optional. Reports errors with their position through `emitError`.
mlir::FailureOr<llvm::SmallVector<DimSplit>> parseLayoutText(llvm::StringRef text,
                                                             llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

// Returns a layout as it is written, without quotes.
std::string printLayoutText(llvm::ArrayRef<DimSplit> dims);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_RULES_LAYOUT_TEXT_H
