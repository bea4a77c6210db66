// SPDX-License-Identifier: Apache-2.0
//
// The phases of the ops of a program, derived from its values. Only the forward pass's writes, of running statistics, carry an attribute.

#ifndef ASHLAR_DIALECTS_NN_PHASES_H
#define ASHLAR_DIALECTS_NN_PHASES_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace ashlar::nn {

enum class Phase {
  Forward,  // the results of the program and their operands, and writes with nn.forward_write
  Backward, // the nn.gradient ops, and their other operands
  Update    // the rest: users of the gradients, and state that steps keep besides
};

// The phase of each op of a program. Without gradients all operands of its results are Forward, and its writes are Update. Valid as long as
// no op is added; linear in the program.
class Phases {
public:
  // `body`: the one block of the program.
  explicit Phases(mlir::Block &body);

  // Returns the phase of an op of the program. The ops of a body have the phase of their repeat.
  Phase of(mlir::Operation *op) const {
    while (op->getBlock() != body && op->getParentOp()) {
      op = op->getParentOp();
    }
    auto found = phases.find(op);
    return found == phases.end() ? Phase::Update : found->second;
  }

private:
  // Gives `op` and the ops it depends on the phase, except ops that have one already.
  void mark(mlir::Operation *op, Phase phase);

  mlir::Block *body;
  llvm::DenseMap<mlir::Operation *, Phase> phases;
};

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PHASES_H
