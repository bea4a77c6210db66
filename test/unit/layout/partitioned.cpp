// SPDX-License-Identifier: Apache-2.0
//
// The pass lists; compiler/pipelines has the same for jobs.

#include "test/unit/layout/partitioned.h"

#include "passes/layout/passes.h"
#include "passes/partition/passes.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace ashlar::test {

LogicalResult addTraining(ModuleOp module) {
  PassManager passes(module.getContext());
  train::OptimizerPassOptions optimizer;
  optimizer.kind = train::OptimizerKind::Momentum;
  optimizer.learningRate = 0.1;
  passes.addPass(train::createLossPass());
  passes.addPass(train::createAutodiffPass());
  passes.addPass(train::createOptimizerPass(optimizer));
  passes.addPass(train::createInitPass());
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createCSEPass());
  return passes.run(module);
}

LogicalResult partitionModule(ModuleOp module, bool splitVariables, ArrayRef<std::string> batchAxes) {
  PassManager passes(module.getContext());
  layout::SeedLayoutsPassOptions seed;
  llvm::append_range(seed.batchAxes, batchAxes);
  layout::PropagateLayoutsPassOptions propagate;
  propagate.splitVariables = splitVariables;
  passes.addPass(layout::createSeedLayoutsPass(seed));
  passes.addPass(layout::createPropagateLayoutsPass(propagate));
  passes.addPass(layout::createInsertRedistributionsPass());
  passes.addPass(layout::createVerifyLayoutsPass());
  passes.addPass(partition::createPartitionPass());
  passes.addPass(partition::createVerifyPartitionedPass());
  return passes.run(module);
}

} // namespace ashlar::test
