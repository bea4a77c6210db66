// SPDX-License-Identifier: Apache-2.0
//
// The times of the ops of a fused program, from the rates of the device and of the links: the input of the schedule and of a program's
// predicted time.

#ifndef ASHLAR_PASSES_LOWER_OVERLAP_COSTED_PROGRAM_H
#define ASHLAR_PASSES_LOWER_OVERLAP_COSTED_PROGRAM_H

#include "passes/analysis/schedule/overlap_schedule.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "passes/analysis/costs.h"

namespace ashlar::lower {

// A program as numbers. State: the instructions in order, and the op of each.
class CostedProgram {
public:
  // `handOverPs`: the target's (dialects/exec/target_traits.h); none of it counts as hidden. `sends`: else collectives take no time.
  CostedProgram(mlir::Block &block, const analysis::DeviceRates &rates, int64_t handOverPs, bool sends = true);

  // Returns the time of the program when it runs one op after the other.
  int64_t alonePs() const;

  // Returns the time of an op without overlap.
  int64_t alonePs(unsigned number) const { return ops[number].timePs - (ops[number].runsBeside ? handOverPs : 0); }

  std::vector<analysis::CostedOp> ops;
  std::vector<mlir::Operation *> instructions;
  int64_t handOverPs;
  bool sends;

private:
  analysis::CostedOp estimate(mlir::Operation &op, const analysis::DeviceRates &rates);
  void addNeeds(mlir::Value value, llvm::SmallVectorImpl<unsigned> &needs) const;
  void keepReadsAhead(nn::WriteOp write, mlir::Block &block);
  llvm::ArrayRef<nn::ReadOp> readsOf(nn::WriteOp write, mlir::Block &block);

  llvm::DenseMap<mlir::Operation *, unsigned> numbers;
  llvm::DenseMap<mlir::Attribute, llvm::SmallVector<nn::ReadOp>> reads; // by variable
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_OVERLAP_COSTED_PROGRAM_H
