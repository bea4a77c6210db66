// SPDX-License-Identifier: Apache-2.0
//
// Random training models, kept after each pass that makes their training step, and runs of them in the interpreter. For tests: an
// impossible request fails its test.

#ifndef ASHLAR_TEST_FUZZ_RANDOM_TRAINING_H
#define ASHLAR_TEST_FUZZ_RANDOM_TRAINING_H

#include "compiler/job/job.pb.h"
#include "compiler/reference/equivalence.h"
#include "test/fuzz/pass_snapshots.h"
#include "test/fuzz/random_program.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::fuzz {

using Values = std::map<std::string, reference::Tensor>; // of variables, by name

// A random training model and its form after each pass.
struct Training {
  job::Job job; // with weight decays by rule of a few parameters
  std::vector<PassSnapshot> snapshots;
  std::vector<reference::Tensor> inputs; // of @train_step, then the other inputs of @eval_step
  int64_t samples = 1;                   // that @eval_step sums over
  Values variables;

  // Returns the module after a pass, or before it.
  mlir::ModuleOp after(llvm::StringRef pass) { return *snapshots[indexOf(pass)].module; }
  mlir::ModuleOp before(llvm::StringRef pass) { return *snapshots[indexOf(pass) - 1].module; }

  size_t indexOf(llvm::StringRef pass);
};

// Draws random values for the variables of a module that have none in `values`; small integers, so that @ashlar.step stays small.
void drawVariables(mlir::ModuleOp module, uint64_t seed, Values &values);

// Returns random inputs of a function.
std::vector<reference::Tensor> drawInputs(mlir::ModuleOp module, llvm::StringRef function, uint64_t seed);

// Runs a function from these values of variables, which it updates. Inputs beyond its arguments are not needed.
std::vector<reference::Tensor> run(mlir::ModuleOp module, llvm::StringRef function, llvm::ArrayRef<reference::Tensor> inputs,
                                   Values &variables, const reference::Observer &observer = {});

// The same without a trace.
std::vector<reference::Tensor> evaluate(mlir::ModuleOp module, llvm::StringRef function, llvm::ArrayRef<reference::Tensor> inputs,
                                        Values variables);

// Returns the weight decay of a parameter that a rule sets; none when no rule does.
std::optional<double> ownDecay(const job::Job &job, const std::string &name);

// Calls `check` with the trainings of the first seeds that `isWanted`.
void forEachTraining(int count, const ProgramOptions &options, llvm::function_ref<bool(const job::Job &)> isWanted,
                     llvm::function_ref<void(Training &)> check);

// Wants every job.
bool isAny(const job::Job &job);

// Returns options with all precisions and sizes.
ProgramOptions varied();

// Whether all tensors are equal, bit by bit.
bool areEqual(llvm::ArrayRef<reference::Tensor> x, llvm::ArrayRef<reference::Tensor> y);

// Returns the module with each nn.gradient of @train_step as a further result; their variables in `names`.
mlir::OwningOpRef<mlir::ModuleOp> returnGradients(mlir::ModuleOp module, std::vector<std::string> &names);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_RANDOM_TRAINING_H
