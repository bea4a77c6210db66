// SPDX-License-Identifier: Apache-2.0
//
// The steps of the reducer that are about the distribution of a program. A step lists its chances on a module: each is a change that can be
// made to it.

#ifndef ASHLAR_TEST_FUZZ_REDUCER_STEPS_H
#define ASHLAR_TEST_FUZZ_REDUCER_STEPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <vector>

namespace ashlar::fuzz {

using Chances = std::vector<std::function<void()>>;

// Returns the functions of a module, which chances may erase.
inline llvm::SmallVector<mlir::func::FuncOp> functionsOf(mlir::ModuleOp module) {
  return llvm::to_vector(module.getOps<mlir::func::FuncOp>());
}

// Adds chances to leave out given layouts, and single axes of them.
void leaveOutLayouts(mlir::ModuleOp module, Chances &chances);
void leaveOutAxes(mlir::ModuleOp module, Chances &chances);

// Adds chances to leave out the pipeline, or to make it smaller.
void leaveOutPipeline(mlir::ModuleOp module, Chances &chances);

// Adds chances to leave out settings: of the fusion of collectives, of recomputation, and details of layouts.
void leaveOutFusion(mlir::ModuleOp module, Chances &chances);
void leaveOutRecompute(mlir::ModuleOp module, Chances &chances);
void leaveOutDetails(mlir::ModuleOp module, Chances &chances);

// Adds chances to make the mesh smaller.
void shrinkMesh(mlir::ModuleOp module, Chances &chances);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_REDUCER_STEPS_H
