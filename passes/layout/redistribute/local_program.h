// SPDX-License-Identifier: Apache-2.0
//
// The computation and communication of one device as numbers: the program that partitioning will make of an assignment, or has made,
// without its IR. Cost estimates are computed from it.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_LOCAL_PROGRAM_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_LOCAL_PROGRAM_H

#include "passes/layout/inference/assignment.h"

namespace ashlar::layout {

// An op of one device, a step of a redistribution, or, with neither op nor kind, another name of its operand.
struct LocalOp {
  mlir::Operation *op = nullptr;
  std::optional<CollectiveKind> kind;      // of a step, or of a collective
  dist::AxisList axes;                     // of a step: of its group
  int64_t dim = -1;                        // of a step, as analysis::Step has it
  bool isPlaced = false;                   // a step that the model places itself
  llvm::SmallVector<unsigned, 3> operands; // numbers of values
  llvm::SmallVector<unsigned, 1> results;
  int64_t bytes = 0, timePs = 0; // of a step or collective: that a device sends, and how long it takes
  bool movesBeside = false;      // of one: its links move data while the device computes
  analysis::Work work;           // that the device computes
  int64_t runs = 1;              // how often a run of the program runs it; bytes and timePs are of all of these
  std::optional<int64_t> owner;  // the only device that computes it (parameter ownership); none: all do
};

struct LocalProgram {
  std::vector<LocalOp> ops;                                // in program order; nothing that no output needs
  std::vector<mlir::RankedTensorType> values;              // the local types
  std::vector<std::optional<unsigned>> makers;             // of each value: its op; none for an argument
  std::shared_ptr<mlir::OwningOpRef<mlir::ModuleOp>> flat; // holds the ops of a function with repeats, in the flat form
};

// Returns the program that an assignment is partitioned into: redistributions are the steps of their plans, equal ops are one, pairs of
// collectives that undo each other are left out.
LocalProgram localProgram(const LayoutProblem &problem, const ProblemProgram &program, const Assignment &assignment,
                          analysis::Planner &planner);

// Returns the program of one device that a function holds. Assumes that it was partitioned, or that there is one device.
LocalProgram localProgram(mlir::func::FuncOp function);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_LOCAL_PROGRAM_H
