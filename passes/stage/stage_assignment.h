// SPDX-License-Identifier: Apache-2.0
//
// Which virtual stage each op of a program belongs to, and which stage each variable.

#ifndef ASHLAR_PASSES_STAGE_STAGE_ASSIGNMENT_H
#define ASHLAR_PASSES_STAGE_STAGE_ASSIGNMENT_H

#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "passes/analysis/costs.h"
#include "passes/stage/schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ashlar::stage {

// How a program can have a value that another one made.
enum class Access {
  Free,    // it computes it itself: constants, tables, numbers made of these, and reads of variables that no program writes meanwhile
  Counted, // the same in every stage, but only at the start of a micro-batch: made of counters that the step itself writes
  Fixed    // one program makes it, and passes it on
};

// Whether an op writes its operands out at greater length for next to nothing, as a broadcast does: it is not sent but made where it is
// used.
bool expands(mlir::Operation *op);

// Virtual stages and stages are numbered from 0; where each stage has one chunk they are the same.
class StageAssignment {
public:
  // Assigns the ops of @train_step, as ashlar-assign-stages did, or by the rules on the module and by cost, and then the ops of the other
  // functions. Fails with an error that names the edge when the virtual stages would go backward, the rule that matches no op, or the stage
  // that stays empty.
  static mlir::FailureOr<StageAssignment> create(mlir::ModuleOp module, const Cut &cut);

  const Cut &getCut() const { return cut; }

  // Returns how programs have the results of an op.
  Access accessOf(mlir::Operation *op) const { return access.lookup(op); }

  // Returns the virtual stage of an op with Access::Fixed; of one of @update, which does not go through the model in turn, its stage.
  int64_t of(mlir::Operation *op) const { return stageOf.lookup(op); }

  // Returns the stage that updates a variable; nothing for one with a copy in each stage that uses it: the compiler's counters, and tables
  // that are never written.
  std::optional<int64_t> homeOf(llvm::StringRef variable) const {
    std::optional<int64_t> found = firstTakerOf(variable);
    return found ? std::optional(cut.stageOf(*found)) : std::nullopt;
  }

  // Returns the first virtual stage that takes a variable which one stage keeps up to date; nothing for others.
  std::optional<int64_t> firstTakerOf(llvm::StringRef variable) const {
    auto found = firstTakers.find(variable);
    return found == firstTakers.end() ? std::nullopt : std::optional(found->second);
  }

  // Returns the other stages that take a parameter: each has a copy, which gets every new value.
  llvm::ArrayRef<int64_t> copiesOf(llvm::StringRef variable) const {
    auto found = copies.find(variable);
    return found == copies.end() ? llvm::ArrayRef<int64_t>() : llvm::ArrayRef<int64_t>(found->second);
  }

  // Whether a stage has the value of a variable.
  bool holds(int64_t stage, llvm::StringRef variable) const {
    return homeOf(variable).value_or(stage) == stage || llvm::is_contained(copiesOf(variable), stage);
  }

private:
  StageAssignment(mlir::ModuleOp module, const Cut &cut) : module(module), cut(cut), stages(cut.virtualStages()) {}

  mlir::LogicalResult run();
  void findAccess(mlir::func::FuncOp function);
  bool takeAssigned(mlir::func::FuncOp step);
  void notePath(mlir::Operation *op);
  void findHomes(mlir::func::FuncOp step);
  void assignBackward(mlir::func::FuncOp step);
  void assignEvaluation(mlir::func::FuncOp function);
  void assignUpdate(mlir::func::FuncOp function);
  bool joinsGradients(mlir::Operation *op, const nn::Phases &phases) const;
  std::optional<int64_t> stageOfValue(mlir::Value value) const;

  // Forward ops (forward_stages.cpp).
  mlir::LogicalResult readRules(mlir::func::FuncOp step);
  llvm::SmallVector<mlir::Operation *> lossOps(mlir::func::FuncOp step) const;
  llvm::StringMap<int64_t>::const_iterator ruleOf(mlir::Operation *op) const;
  mlir::LogicalResult checkBody(mlir::func::FuncOp step, mlir::Operation *loop, int64_t stage);
  mlir::LogicalResult assignForward(mlir::func::FuncOp step);
  mlir::LogicalResult assignLoss(mlir::func::FuncOp step, llvm::DenseSet<mlir::Operation *> &isRuled);
  void joinUsers(llvm::ArrayRef<mlir::Operation *> ops, const llvm::DenseSet<mlir::Operation *> &movable);
  std::optional<analysis::Link> slowestLink() const;
  mlir::LogicalResult balance(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<std::optional<int64_t>> ruled);

  // The noun for a virtual stage in errors: "stage" where that is the same.
  llvm::StringRef noun() const { return cut.chunks == 1 ? "stage" : "virtual stage"; }

  mlir::ModuleOp module;
  Cut cut;
  int64_t stages; // virtual ones
  llvm::DenseMap<mlir::Operation *, Access> access;
  llvm::DenseMap<mlir::Operation *, int64_t> stageOf; // the virtual one
  llvm::StringMap<int64_t> pathStages;                // of the forward ops of @train_step
  llvm::StringMap<int64_t> rules;                     // the same, by rules
  llvm::StringMap<std::string> origins;               // of these, for errors
  llvm::StringMap<int64_t> firstTakers;               // by variable: a virtual stage
  llvm::StringMap<llvm::SmallVector<int64_t>> copies; // by parameter
  llvm::StringSet<> kept;                             // of the compiler's own variables: written by one stage in the step
};

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_STAGE_ASSIGNMENT_H
