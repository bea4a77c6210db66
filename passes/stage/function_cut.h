// SPDX-License-Identifier: Apache-2.0
//
// One function of a model cut into the programs of its stages.

#ifndef ASHLAR_PASSES_STAGE_FUNCTION_CUT_H
#define ASHLAR_PASSES_STAGE_FUNCTION_CUT_H

#include "dialects/dist/dist.h"
#include "dialects/nn/programs.h"
#include "passes/stage/stage_assignment.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <optional>
#include <tuple>

namespace ashlar::stage {

// The role of the program of a phase, and the phase and chunk of a program; nothing for one of no phase.
nn::ProgramRole roleOf(StepPhase phase);
std::optional<Part> partOf(nn::ProgramAttr role);

// A program of a stage: ops of the function, and the values that cross its border.
struct StageProgram {
  std::string name; // of its function: no variable has it
  nn::ProgramAttr role;
  int64_t stage = 0;
  int64_t time = 0;                                                 // programs of a lower time never take its results
  llvm::SetVector<mlir::Operation *> ops;                           // that it runs, of those with Access::Fixed
  llvm::SmallVector<mlir::Operation *> writes;                      // of variables, at its end
  llvm::SmallVector<unsigned> results;                              // of the function, that it returns
  llvm::SetVector<mlir::Value> inputs;                              // arguments of the function
  llvm::MapVector<mlir::Value, StageProgram *> imports;             // values of other programs, with their producer
  llvm::MapVector<mlir::Value, llvm::SmallVector<int64_t>> exports; // values that others take, with the other stages among them
};

// How a value that crosses is called, and the number of the message that takes it from one stage to another.
struct Crossing {
  llvm::function_ref<mlir::StringAttr(mlir::Value)> name;
  llvm::function_ref<int64_t(mlir::Value, int64_t from, int64_t to)> channel;
};

// Collects the programs of a function. The block's ops are put into programs with add(), then finish() finds the values that cross.
class FunctionCut {
public:
  FunctionCut(mlir::func::FuncOp function, const StageAssignment &assignment) : function(function), assignment(assignment) {}

  // Returns the program of a stage with that role; makes it when there is none. `time` orders the programs.
  StageProgram &program(int64_t stage, nn::ProgramAttr role, int64_t time);

  // Lets a program run an op.
  void add(mlir::Operation *op, StageProgram &program);

  // Lets a program write a variable at its end.
  void addWrite(mlir::Operation *write, StageProgram &program);

  // Lets a program return a result of the function that is a variable's value. Other results are returned by the program that makes them.
  void addResult(unsigned result, StageProgram &program);

  // Returns the program that runs an op; null when none does.
  StageProgram *programOf(mlir::Operation *op) const { return programs.lookup(op); }

  // Finds the values that the programs take of each other. Fails with an error on values that would go back in time.
  mlir::LogicalResult finish();

  // Has the first program take the inputs that none takes: whoever runs the function gives it all of its inputs.
  void takeUnusedInputs();

  // Returns the programs of a stage, in the order in which a micro-batch meets them.
  llvm::SmallVector<StageProgram *> programsOf(int64_t stage);

  // Makes the function of a program at the builder's place.
  mlir::func::FuncOp emit(mlir::OpBuilder &builder, StageProgram &program, const Crossing &crossing);

  mlir::func::FuncOp getFunction() const { return function; }

  // Returns the role of the function, of a chunk where it may have several.
  nn::ProgramAttr roleOf(int64_t chunk) const;

  // Returns the variables that a program reads.
  llvm::SmallVector<llvm::StringRef> variablesRead(StageProgram &program);

private:
  std::string nameOf(nn::ProgramAttr role) const;

  // Decides which ops of its stage a program rematerializes, so that least is passed on to it: a minimum cut of the values between those
  // that only their makers can compute and those that the program takes. An op that takes no more than a walk over its result may be
  // rematerialized.
  void planRematerialization(StageProgram &program);

  // Returns the bytes of an op's results, without those that are passed on to the stage anyway.
  int64_t bytesToPass(mlir::Operation *op, const StageProgram &program);

  // Whether a program computes an op that another one runs, too, instead of getting its result. Assumes planRematerialization() of what the
  // ops of the program take.
  bool rematerializes(mlir::Operation *op, const StageProgram &program);

  // The same, as far as no plan decides it; nothing where one does.
  std::optional<bool> rematerializesAnyway(mlir::Operation *op, const StageProgram &program);

  // Whether a program of the same stage writes a variable before this one runs.
  bool isWrittenBefore(llvm::StringRef variable, const StageProgram &program) const;

  // Returns the program that passes the results of an op on to another one.
  StageProgram *makerOf(mlir::Operation *op, const StageProgram &program);

  // The ends of a message: what makes a value, and what takes it first in a program.
  dist::EndAttr makerEnd(mlir::Value value) const;
  dist::EndAttr takerEnd(mlir::Value value, StageProgram &program);

  // Returns the program of a stage that takes a value first; null when none does.
  StageProgram *firstTaker(mlir::Value value, int64_t stage);

  llvm::SmallVector<mlir::Operation *> emitSources(mlir::OpBuilder &builder, StageProgram &program, const Crossing &crossing,
                                                   mlir::IRMapping &mapping);
  void emitSinks(mlir::OpBuilder &builder, StageProgram &program, const Crossing &crossing, const mlir::IRMapping &mapping);

  using Need = std::pair<mlir::Value, StageProgram *>;

  // Calls `visit` with each value that the ops, the writes and the results of a program take.
  void forEachTaken(const StageProgram &program, llvm::function_ref<void(mlir::Value)> visit);

  // Makes sure that a program will have a value, and all that it is made of.
  mlir::LogicalResult need(mlir::Value value, StageProgram &program);

  // Adds a value to a program, and its operands to `pending`.
  mlir::LogicalResult need(mlir::Value value, StageProgram &program, llvm::SmallVectorImpl<Need> &pending);

  mlir::func::FuncOp function;
  const StageAssignment &assignment;
  std::map<std::tuple<int64_t, nn::ProgramRole, int64_t, int64_t>, StageProgram> list; // by stage, role, chunk and round
  llvm::DenseMap<mlir::Operation *, StageProgram *> programs;
  std::map<std::pair<int64_t, llvm::StringRef>, int64_t> writeTimes; // by stage and variable: of the first program that writes it
  llvm::DenseMap<std::pair<mlir::Operation *, const StageProgram *>, bool> planned; // whether one rematerializes an op
  llvm::DenseMap<StageProgram *, llvm::DenseSet<mlir::Operation *>> rematerialized; // by program
};

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_FUNCTION_CUT_H
