// SPDX-License-Identifier: Apache-2.0
//
// Runs the stages of a pipeline in the reference interpreter, in the order in which they are scheduled, each on the simulated ranks of its
// mesh. The oracle of passes/stage. Tensors that go in and out are global ones; layouts are those of the stages' programs.

#ifndef ASHLAR_COMPILER_REFERENCE_PIPELINE_RUN_H
#define ASHLAR_COMPILER_REFERENCE_PIPELINE_RUN_H

#include "compiler/reference/interpreter.h"
#include "dialects/dist/dist.h"

#include <deque>
#include <map>

namespace ashlar::reference {

class PipelineRun {
public:
  // Returns an input of a micro-batch of the step.
  using Inputs = llvm::function_ref<Tensor(llvm::StringRef name, int64_t microBatch)>;

  // What a micro-batch left in the outputs, by name.
  using Outputs = llvm::StringMap<Tensor>;

  // Interprets the modules of the stages in `model`, each on `numRanks` ranks. `model` must outlive this.
  explicit PipelineRun(mlir::ModuleOp model, int64_t numRanks = 1);

  // Sets a variable in every stage that has it.
  void setVariable(llvm::StringRef name, const Tensor &value);

  // Whether a stage has the variable.
  bool hasVariable(llvm::StringRef name) const;

  // Returns a variable that a stage has. Fails with an error when it has no value, or when ranks or stages have different ones.
  mlir::FailureOr<Tensor> getVariable(llvm::StringRef name);

  // Runs @init of each stage that has one.
  mlir::LogicalResult runInit();

  // Runs one step. Returns the outputs of its last micro-batch. Fails with an error when an op cannot be executed, when a slot is read that
  // was taken again, or when the stages wait for each other.
  mlir::FailureOr<Outputs> runStep(Inputs inputs);

  // Evaluates so many batches, as micro-batches from 0 on, in the runtime's order (runtime/run/evaluation.h). Returns the outputs of
  // each.
  mlir::FailureOr<std::vector<Outputs>> evaluate(int64_t batches, Inputs inputs);

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
    std::vector<Run> step;                                // the order of one
    std::vector<Run> order;                               // that is being run
    size_t at = 0;                                        // of the next run
    std::map<std::pair<int64_t, std::string>, Kept> kept; // by slot and name
  };

  // Whether everything that the next run of a stage receives is there.
  bool canRun(const Stage &stage) const;
  mlir::LogicalResult runNext(Stage &stage, Inputs inputs, std::vector<Outputs> &outputs);

  // Reads a value of a run from its slot or a message, and writes one to its slot and to messages.
  mlir::FailureOr<RankTensors> take(Stage &stage, const Run &run, dist::SlotOpInterface op);
  void put(Stage &stage, const Run &run, dist::SlotOpInterface op, const RankTensors &value);

  // Runs the orders of all stages. Returns the outputs by micro-batch.
  mlir::FailureOr<std::vector<Outputs>> run(Inputs inputs);

  // What was sent and not received: by sender, receiver, channel and micro-batch.
  using Message = std::tuple<int64_t, int64_t, int64_t, int64_t>;

  std::deque<Stage> stages;
  std::map<Message, RankTensors> messages;
};

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_PIPELINE_RUN_H
