// SPDX-License-Identifier: Apache-2.0
//
// Running a function on global tensors, whatever the layouts of its arguments and results, and the question each pass has to answer: does
// the module after it compute the same numbers as the module before it?

#ifndef ASHLAR_COMPILER_REFERENCE_EQUIVALENCE_H
#define ASHLAR_COMPILER_REFERENCE_EQUIVALENCE_H

#include "compiler/reference/interpreter.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"

#include <random>

namespace ashlar::reference {

// Returns the piece of `global` that each device holds. Of a sum that is partial the device with coordinate 0 along the partial axes holds
// everything and the others zeros; of a maximum or minimum all hold the same. Padding is NaN, or an odd number: it must not matter.
RankTensors scatter(const Tensor &global, const dist::Layout &layout, dist::MeshAttr mesh);

// Returns the global tensor of the pieces, the inverse of scatter; partial values are combined. Failure when devices that should hold the
// same elements do not.
mlir::FailureOr<Tensor> gather(llvm::ArrayRef<Tensor> pieces, mlir::RankedTensorType globalType, const dist::Layout &layout,
                               dist::MeshAttr mesh);

// Returns random elements: floats uniform in [-1, 1), integers in [0, intLimit), bools.
Tensor randomTensor(mlir::RankedTensorType type, std::mt19937_64 &generator, int64_t intLimit);

// Returns the global types of a function's arguments: `dist.global_type` where there is one, else the type itself.
llvm::SmallVector<mlir::RankedTensorType> globalArgumentTypes(mlir::func::FuncOp function);

// Returns argument `i` of a function on every rank: pieces of `global` where it has `dist.global_type` and `dist.layout`, else all of it.
RankTensors scatterArgument(Interpreter &interpreter, mlir::func::FuncOp function, unsigned i, const Tensor &global);

// Returns result `i` of a function as a global tensor; emits an error when ranks that should hold the same do not.
mlir::FailureOr<Tensor> gatherResult(Interpreter &interpreter, mlir::func::FuncOp function, unsigned i, llvm::ArrayRef<Tensor> pieces);

// Runs a function on global inputs and returns its global results. Arguments and results with `dist.global_type` are scattered and gathered
// by their `dist.layout`; all others are whole on every rank, and results must agree.
mlir::FailureOr<std::vector<Tensor>> runGlobal(Interpreter &interpreter, llvm::StringRef function, llvm::ArrayRef<Tensor> inputs);

// Sets a variable from its global value, by its layout.
void setGlobalVariable(Interpreter &interpreter, llvm::StringRef name, const Tensor &value);

// Returns the global value of a variable; emits an error when it has none, or ranks disagree.
mlir::FailureOr<Tensor> getGlobalVariable(Interpreter &interpreter, llvm::StringRef name);

struct EquivalenceOptions {
  llvm::SmallVector<std::string> functions = {"forward"}; // run in this order, in both modules
  int64_t ranksBefore = 1;
  int64_t ranksAfter = 1;
  uint64_t seed = 1; // of inputs and of variables without initial value
  int64_t intLimit = 10;
};

// Returns the random global value with which a variable begins that has no other.
Tensor randomVariable(nn::VariableOp variable, const EquivalenceOptions &options);

// A global tensor that a run leaves behind.
struct NamedTensor {
  std::string name; // "@forward 1": a result; "@w": a variable
  Tensor value;
};

// What functions returned, one after the other, and the variables after them.
struct ModuleRun {
  std::vector<NamedTensor> results, variables;
};

// Returns random inputs of each function of the options.
mlir::FailureOr<std::vector<std::vector<Tensor>>> randomInputs(mlir::ModuleOp module, const EquivalenceOptions &options);

// Runs the functions of the options, each on its inputs; variables without initial value are random.
mlir::FailureOr<ModuleRun> runModule(mlir::ModuleOp module, int64_t ranks, llvm::ArrayRef<std::vector<Tensor>> inputs,
                                     const EquivalenceOptions &options, Observer observer = {});

// Returns the value in `after` of each value of `before`: of the results in order, and of the variables that both have. Failure, with an
// error on the module, when a function has another number of results.
mlir::FailureOr<std::vector<std::pair<const NamedTensor *, const Tensor *>>> pairUp(mlir::ModuleOp module, const ModuleRun &before,
                                                                                    const ModuleRun &after);

// Runs both modules on the same random inputs and variables; returns the largest maxDifference over all results and all variables that both
// have. Failure, with an error emitted, when one of them cannot be run.
mlir::FailureOr<double> compareModules(mlir::ModuleOp before, mlir::ModuleOp after, const EquivalenceOptions &options);

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_EQUIVALENCE_H
