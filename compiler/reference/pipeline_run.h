// SPDX-License-Identifier: Apache-2.0
//
// Runs the stages of a pipeline in the reference interpreter, in the order in which they are scheduled. The oracle of passes/stage.

#ifndef ASHLAR_COMPILER_REFERENCE_PIPELINE_RUN_H
#define ASHLAR_COMPILER_REFERENCE_PIPELINE_RUN_H

#include "compiler/reference/interpreter.h"

#include <deque>
#include <map>

namespace ashlar::reference {

class PipelineRun {
public:
  // Returns an input of a micro-batch of the step, on every rank of a stage.
  using Inputs = llvm::function_ref<RankTensors(llvm::StringRef name, int64_t microBatch)>;

  // Interprets the modules of the stages in `model`, each on `numRanks` ranks. `model` must outlive this.
  explicit PipelineRun(mlir::ModuleOp model, int64_t numRanks = 1);

  // Sets a variable in every stage that has it.
  void setVariable(llvm::StringRef name, const RankTensors &value);

  // Returns a variable of the first stage that has it; null when none has. `isAlike` becomes false when stages have different values.
  const RankTensors *getVariable(llvm::StringRef name, bool &isAlike) const;

  // Runs one step. Returns what the last micro-batch left in the outputs, by name. Fails with an error when an op cannot be executed, when
  // a slot is read that was taken again, or when the stages wait for each other.
  mlir::FailureOr<llvm::StringMap<RankTensors>> runStep(Inputs inputs);

private:
  struct Run {
    std::string program;
    int64_t microBatch;
  };

  // A value in a slot, and the micro-batch that it is of.
  struct Kept {
    int64_t microBatch;
    RankTensors value;
  };

  struct Stage {
    explicit Stage(mlir::ModuleOp module, int64_t numRanks) : module(module), interpreter(module, numRanks) {}

    mlir::ModuleOp module;
    Interpreter interpreter;
    int64_t index = 0, slots = 1;
    std::vector<Run> order;
    size_t at = 0;                                        // of the next run
    std::map<std::pair<int64_t, std::string>, Kept> kept; // by slot and name
  };

  // Whether everything that the next run of a stage receives is there.
  bool canRun(const Stage &stage) const;
  mlir::LogicalResult runNext(Stage &stage, Inputs inputs, llvm::StringMap<RankTensors> &outputs);

  // What was sent and not received: by sender, receiver, channel and micro-batch.
  using Message = std::tuple<int64_t, int64_t, int64_t, int64_t>;

  std::deque<Stage> stages;
  std::map<Message, RankTensors> messages;
};

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_PIPELINE_RUN_H
