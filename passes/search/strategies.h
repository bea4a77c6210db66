// SPDX-License-Identifier: Apache-2.0
//
// Strategies of a module: ways to give layouts, and the predicted cost of their programs.

#ifndef ASHLAR_PASSES_SEARCH_STRATEGIES_H
#define ASHLAR_PASSES_SEARCH_STRATEGIES_H

#include "passes/layout/redistribute/estimate.h"
#include "passes/search/layout_graph.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::search {

// The cost of a step, estimated from layouts.
struct Prediction {
  int64_t stepPs = 0; // computation and exposed communication
  // Of a device.
  int64_t parameterBytes = 0, stateBytes = 0, inputOutputBytes = 0;
  int64_t valueBytes = 0;            // intermediate values, where they take most
  int64_t memoryBytes = 0;           // all of it
  std::vector<int64_t> programBytes; // all of it while a program runs, by program of the module
};

// Returns the programs of a module that a step runs, in the order of the module.
llvm::SmallVector<WeightedProgram> programsOfStep(mlir::ModuleOp module);

// Predicts a step with the layouts inferred from the given ones of a module, which is used up. Nothing where inference refuses them: a
// user would not have asked for them either. `planner` is the mesh's planner.
std::optional<Prediction> predict(mlir::OwningOpRef<mlir::ModuleOp> given, analysis::Planner &planner);

// The same of a module whose layouts are inferred.
std::optional<Prediction> predict(mlir::ModuleOp module, layout::Inferred &inferred, analysis::Planner &planner);

// Returns the work of predicting a module, in units of a search's effort (solver/effort.h).
int64_t predictionUnits(mlir::ModuleOp given);

// Returns the layouts inferred from the given ones of a module, as choices of the graph of its problem. Nothing where the graph lacks them.
std::optional<Choices> encodeInferred(const LayoutGraph &graph, mlir::ModuleOp given);

// Gives tensors and ops of a problem the decided layouts, except the update: its layouts are inferred from the variables.
void giveLayouts(const layout::LayoutProblem &problem, const DecidedLayouts &decided);

// Returns a copy of a module with only the programs that a step runs, if there are any: the evaluation and the initialization, which follow
// from them, are a quarter of the ops of a large model.
mlir::OwningOpRef<mlir::ModuleOp> copyStep(mlir::ModuleOp module);

// Returns a copy of a module with the layouts that copyStep() of it was given. Tensors between the nodes of the model get, in other
// programs, the layout that they have in those: an evaluation is laid out as the step that was searched.
mlir::OwningOpRef<mlir::ModuleOp> giveOtherPrograms(mlir::ModuleOp module, mlir::ModuleOp given);

// Returns a strategy without its layouts of the backward pass, which are inferred, too. `before`: the module to which it was given.
mlir::OwningOpRef<mlir::ModuleOp> leaveOutBackward(mlir::ModuleOp before, mlir::ModuleOp given);

// Splits dim 0 of the arguments that hold the batch over all axes of the mesh, unless something splits them already. Returns whether any
// was split.
bool splitBatch(mlir::ModuleOp module, int64_t batch);

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_STRATEGIES_H
