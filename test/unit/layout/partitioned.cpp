// SPDX-License-Identifier: Apache-2.0
//
// The pass list; compiler/pipelines has the same for jobs.

#include "test/unit/layout/partitioned.h"

#include "passes/layout/passes.h"
#include "passes/partition/passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace ashlar::test {

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
