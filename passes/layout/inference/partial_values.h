// SPDX-License-Identifier: Apache-2.0
//
// The ops that may compute on the terms of a partial value: the combination of their results on the terms equals their result on the
// combination.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_PARTIAL_VALUES_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_PARTIAL_VALUES_H

#include "passes/layout/inference/factor_split.h"

namespace ashlar::layout {

// Returns the layouts of the results of an op that computes under `split` on operands of the layouts `operands`: the layouts of
// resultLayouts, partial also over the axes over which operands are. Failure, with the reason in `reason`, when the op cannot compute on
// terms, when the terms combine in different ways, or when a result would use an axis twice.
//   add of two values that are partial (sum) over tp      partial (sum) over tp
//   add of one that is and one that is not                "operand 0 is partial (sum) over ["tp"] and operand 1 is not"
mlir::FailureOr<llvm::SmallVector<Layout>> resultLayoutsOfParts(mlir::Operation *op, const ShardingRule &rule, const FactorSplit &split,
                                                                llvm::ArrayRef<Layout> operands, std::string &reason);

// Returns axes as errors name them: ["dp", "tp"].
std::string printAxes(llvm::ArrayRef<mlir::StringAttr> axes);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_PARTIAL_VALUES_H
