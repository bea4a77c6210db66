// SPDX-License-Identifier: Apache-2.0
//
// The pass lists of compiler/pipelines on modules that have their mesh.

#ifndef ASHLAR_TEST_UNIT_LAYOUT_PARTITIONED_H
#define ASHLAR_TEST_UNIT_LAYOUT_PARTITIONED_H

#include "compiler/pipelines/pipelines.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::test {

// Returns the variant of the module's own mesh. `splitVariables` lets inference split variables that have no layout.
pipelines::Variant variantOf(mlir::ModuleOp module, bool splitVariables = false);

// Makes a model with the output "logits" a module of @init, @train_step and @eval_step: softmax cross entropy, Momentum.
mlir::LogicalResult addTraining(mlir::ModuleOp module);

// Turns a module with a mesh and given layouts into one device's program, verified at each border. Given `batchAxes` the batch is split
// first.
mlir::LogicalResult partitionModule(mlir::ModuleOp module, bool splitVariables = false, llvm::ArrayRef<std::string> batchAxes = {});

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LAYOUT_PARTITIONED_H
