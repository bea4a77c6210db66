// SPDX-License-Identifier: Apache-2.0
//
// What the ops of a program are for, read off its values. Only writes that are the forward pass's, of running statistics, say so.

#ifndef ASHLAR_DIALECTS_NN_PHASES_H
#define ASHLAR_DIALECTS_NN_PHASES_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace ashlar::nn {

enum class Phase {
  Forward,  // what the results of the program depend on, and what it writes as nn.forward_write
  Backward, // the nn.gradient ops, and what else they depend on
  Update    // the rest: what becomes of the gradients, and the state that steps keep beside
};

// The phase of each op of a program. Without gradients all that its results depend on is Forward, and what it writes is Update. Valid as
// long as no op is added; linear in the program.
class Phases {
public:
  // `body`: the one block of the program.
  explicit Phases(mlir::Block &body);

  // Returns the phase of an op of the program.
  Phase of(mlir::Operation *op) const {
    auto found = phases.find(op);
    return found == phases.end() ? Phase::Update : found->second;
  }

private:
  // Gives `op` and what it depends on the phase, but for what has one already.
  void mark(mlir::Operation *op, Phase phase);

  llvm::DenseMap<mlir::Operation *, Phase> phases;
};

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PHASES_H
