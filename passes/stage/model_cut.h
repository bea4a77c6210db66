// SPDX-License-Identifier: Apache-2.0
//
// All functions of a model cut into the programs of its stages: which op runs in which program.

#ifndef ASHLAR_PASSES_STAGE_MODEL_CUT_H
#define ASHLAR_PASSES_STAGE_MODEL_CUT_H

#include "passes/stage/function_cut.h"

#include "llvm/ADT/StringSet.h"

#include <memory>

namespace ashlar::stage {

class ModelCut {
public:
  // Cuts the functions of a module except @init. `splitsBackward`: ops that no other virtual stage waits for are a program of their own.
  // Fails with an error on values that would go back in time.
  static mlir::FailureOr<ModelCut> create(mlir::ModuleOp module, const StageAssignment &assignment, bool splitsBackward);

  llvm::ArrayRef<std::unique_ptr<FunctionCut>> getFunctions() const { return functions; }

  // The programs of a micro-batch.
  FunctionCut &getStep() const { return *step; }

  const StageAssignment &getAssignment() const { return *assignment; }

private:
  ModelCut(const StageAssignment &assignment, bool splitsBackward)
      : assignment(&assignment), cut(assignment.getCut()), splitsBackward(splitsBackward) {}

  mlir::LogicalResult run(mlir::ModuleOp module);
  void divideStep(FunctionCut &function);
  void divideUpdate(FunctionCut &function);
  void divideEvaluation(FunctionCut &function);
  bool addUnreadWrites(FunctionCut &function);
  void addSharedWrites(FunctionCut &function);
  void addSharedWrite(FunctionCut &function, nn::WriteOp write, const StageProgram *maker, int64_t stage) const;
  void dividePreparation(FunctionCut &function);
  llvm::DenseSet<mlir::Operation *> findAwaited(mlir::Block &body, const nn::Phases &phases) const;
  StageProgram &stepProgram(FunctionCut &function, StepPhase phase, int64_t virtualStage) const;
  StageProgram &updateProgram(FunctionCut &function, int64_t round, int64_t stage) const;
  // Returns for each stage the variables that its programs read.
  std::vector<llvm::DenseSet<llvm::StringRef>> variablesRead() const;

  const StageAssignment *assignment;
  Cut cut;
  bool splitsBackward;
  llvm::SmallVector<std::unique_ptr<FunctionCut>> functions;
  FunctionCut *step = nullptr;
  llvm::StringSet<> isRead; // variables that some function reads
};

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_MODEL_CUT_H
