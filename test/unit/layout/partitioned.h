// SPDX-License-Identifier: Apache-2.0
//
// The passes of train, layout and partition, as the tests run them.

#ifndef ASHLAR_TEST_UNIT_LAYOUT_PARTITIONED_H
#define ASHLAR_TEST_UNIT_LAYOUT_PARTITIONED_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LogicalResult.h"

namespace ashlar::test {

// Makes a model with the output "logits" a module of @init, @train_step and @eval_step: softmax cross entropy, Momentum.
mlir::LogicalResult addTraining(mlir::ModuleOp module);

// Turns a module with a mesh and given layouts into one device's program, verified at each border. Given `batchAxes` the batch is split
// first; `splitVariables` lets inference split variables that have no layout.
mlir::LogicalResult partitionModule(mlir::ModuleOp module, bool splitVariables = false, llvm::ArrayRef<std::string> batchAxes = {});

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LAYOUT_PARTITIONED_H
