// SPDX-License-Identifier: Apache-2.0
//
// The reference interpreter: runs the functions of a module of nn and dist ops by plain loops, on n simulated ranks in lockstep (all ranks
// execute one op, then all the next), so that a collective just reads what every rank holds. It is the oracle of the passes.

#ifndef ASHLAR_COMPILER_REFERENCE_INTERPRETER_H
#define ASHLAR_COMPILER_REFERENCE_INTERPRETER_H

#include "dialects/nn/repeat.h"
#include "dialects/support/reference_tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <functional>

namespace ashlar::reference {

// One value on every rank.
using RankTensors = std::vector<Tensor>;

// Sees every op that a rank computes on its own, after it did; it may change the result.
using Observer = std::function<void(mlir::Operation *op, llvm::ArrayRef<Tensor> operands, Tensor &result)>;

// Reads the values of ops that take them from the slot of a micro-batch, and writes the values of ops that put them there
// (SlotOpInterface).
struct SlotAccess {
  std::function<mlir::FailureOr<RankTensors>(mlir::Operation *op)> take;
  std::function<void(mlir::Operation *op, const RankTensors &value)> put;
};

class Interpreter {
public:
  // Interprets `module`, which must outlive this, on `numRanks` ranks. Variables with a dense or #nn.fill `init` have that value on every
  // rank; the others have none until @init or setVariable gives them one. Every rank's ops are shown to `observer`, when there is one.
  explicit Interpreter(mlir::ModuleOp module, int64_t numRanks = 1, Observer observer = {});

  int64_t getNumRanks() const { return numRanks; }
  mlir::ModuleOp getModule() const { return module; }

  // Sets a variable on every rank; one that a rank keeps alone is spoiled on the others. Assumes one tensor a rank.
  void setVariable(llvm::StringRef name, RankTensors value);

  // Sets @ashlar.seed, when the module has it.
  void setSeed(int64_t seed);

  // Returns a variable on every rank; null when it has no value yet.
  const RankTensors *getVariable(llvm::StringRef name) const;

  // Sets where ops on slots find and leave values. Without it they cannot be executed.
  void setSlot(SlotAccess access) { slot = std::move(access); }

  // Runs a function: inputs[i] is argument i. Returns its results; emits an error on the op that cannot be executed.
  mlir::FailureOr<std::vector<RankTensors>> run(llvm::StringRef function, llvm::ArrayRef<RankTensors> inputs);

private:
  using Values = llvm::DenseMap<mlir::Value, RankTensors>;

  mlir::FailureOr<std::vector<RankTensors>> runBlock(mlir::Block &block, std::vector<RankTensors> arguments);
  mlir::LogicalResult execute(mlir::Operation *op, Values &values);
  mlir::LogicalResult executeRepeat(nn::RepeatOp op, Values &values);
  mlir::FailureOr<std::vector<RankTensors>> executeSimple(mlir::Operation *op, const Values &values);

  mlir::OwningOpRef<mlir::ModuleOp> nested; // a copy of a module with flat repeats, as nn.repeat
  mlir::ModuleOp module;
  int64_t numRanks;
  Observer observer;
  SlotAccess slot;
  llvm::StringMap<RankTensors> variables;
};

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_INTERPRETER_H
