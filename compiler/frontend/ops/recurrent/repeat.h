// SPDX-License-Identifier: Apache-2.0
//
// A body that runs a number of times, known when compiling, as an nn.repeat: the steps of LSTM, GRU, RNN, Scan and Loop.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_REPEAT_H
#define ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_REPEAT_H

#include "compiler/frontend/body.h"
#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// The values that a body reads in one step: `carried` from the step before, `sliced` one row of each sliced tensor without dim 0. It may
// read all values around it, too; they are captured.
struct StepValues {
  llvm::ArrayRef<mlir::Value> carried, sliced;
};

// The results of one step, or of all steps: `carried` for the step after it, of the types of the values it got; `stacked` a row of each
// stacked result, without dim 0, or after all steps the rows as tensors.
struct StepResults {
  llvm::SmallVector<mlir::Value> carried, stacked;
};

// What the import of a node of a body takes from the budget.
inline constexpr int64_t kStepsOfNode = 64;

// Imports the nodes of a graph for one step. `names`: the values of the graph's inputs; `prefix`: of the names of its values. Its outputs
// from `firstOutput` on are the next states of `carried`, then the rows. Fails where one of them is no tensor, or a state changes its type.
StepResults importStep(Node &node, const onnx::GraphProto &body, const std::string &prefix, Names names, int firstOutput,
                       llvm::ArrayRef<mlir::Value> carried);

// Runs `body` `count` times and returns the carried values of the last step and the stacked rows of all. Step k reads row k of each sliced
// tensor, of `count` rows, and its rows become row k of the stacked results; `reversed` begins at the last row and ends at the first.
// Without steps the carried values are the first ones and the stacked results have no rows. Calls `body` once, while the builder stands in
// the body of the repeat. Fails where the steps are more than a program may have one after the other.
//
//   repeat(node, 3, /*reversed=*/false, {h}, {x}, body), x of 3 rows ==> h1, y1 = body(h, x[0]); h2, y2 = body(h1, x[1]); ...
//                                                                     returns {h3}, {concat(y1, y2, y3)}
StepResults repeat(const Node &node, int64_t count, bool reversed, llvm::ArrayRef<mlir::Value> carried, llvm::ArrayRef<mlir::Value> sliced,
                   llvm::function_ref<StepResults(const StepValues &)> body);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_REPEAT_H
