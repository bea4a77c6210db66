// SPDX-License-Identifier: Apache-2.0
//
// The cost of an assignment: the time of a step, the bytes that a device sends, the memory that it needs. The IR is not touched.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_ESTIMATE_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_ESTIMATE_H

#include "passes/layout/inference/propagate_layouts.h"
#include "passes/layout/redistribute/local_program.h"

namespace ashlar::layout {

struct ProgramEstimate {
  int64_t computePs = 0; // of the kernels and library calls, one after the other
  int64_t sendPs = 0;    // of the collectives
  int64_t exposedPs = 0; // the part that computation does not hide
  int64_t bytesSent = 0; // by a device
  int64_t peakBytes = 0; // of the values that are alive at once and have no name; variables, inputs and outputs do not count

  // Returns the time of a run.
  int64_t timePs() const { return computePs + exposedPs; }
};

struct Estimate {
  llvm::SmallVector<ProgramEstimate> programs;                      // as the problem has them
  int64_t parameterBytes = 0, stateBytes = 0, inputOutputBytes = 0; // of a device

  // Returns the bytes that a device needs: programs run one at a time.
  int64_t memoryBytes() const;
};

// Estimates a program on devices of these rates. `handOverPs`: the overhead of launching a collective on the asynchronous channel.
//
// Time: ops that generated kernels can hold and that depend on each other are one kernel between two library calls or collectives; it takes
// the time of its arithmetic or of its memory traffic, whichever is longer. Ops of one device alone (parameter ownership) count for the
// device with most of them. Collectives over links that move data while devices compute are scheduled as in lowering
// (passes/lower/overlap); others are exposed. Memory: a value lies in memory when an op outside of its kernel reads it, from there on to
// its last reader; one that dies in a kernel makes room for one that the kernel makes, and updates are in place.
ProgramEstimate estimateProgram(const LocalProgram &program, const analysis::DeviceRates &rates, int64_t handOverPs = 0);

// The memory traffic of an op in a cost estimate: for a search, which takes ops one by one.
struct OpTraffic {
  struct Read {
    unsigned operand; // through which it is read, maybe by views
    int64_t bytes;
  };
  llvm::SmallVector<Read, 2> reads;     // a value that several ops of a kernel read counts once
  llvm::SmallVector<bool, 1> isWritten; // one a result: whether it lies in memory
  int64_t bytesAgain = 0;               // of a sum: that its kernel reads again once a collective stands between it and its users
  bool isCall = false;                  // an instruction of its own
  bool isMemoryBound = false;           // its kernel takes the time of memory, not of arithmetic
};

// Returns the traffic of each op of a program.
std::vector<OpTraffic> trafficOf(const LocalProgram &program, const analysis::DeviceRates &rates);

// Estimates an assignment. `planner` is the mesh's planner.
Estimate estimate(const LayoutProblem &problem, const Assignment &assignment, analysis::Planner &planner,
                  const analysis::DeviceRates &rates, int64_t handOverPs = 0);

// Estimates a module whose values all have layouts, on its mesh and device. Fails, with an error, where nothing can be decided.
mlir::FailureOr<Estimate> estimateLayouts(mlir::ModuleOp module);

// Estimates the inferred layouts of a module, as estimateLayouts() does once they are written. `inferred` is as before afterwards. Fails,
// with an error, where nothing can be decided.
mlir::FailureOr<Estimate> estimateInferred(mlir::ModuleOp module, Inferred &inferred, analysis::Planner &planner);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_ESTIMATE_H
