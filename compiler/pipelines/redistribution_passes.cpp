// SPDX-License-Identifier: Apache-2.0
//
// The passes on global shapes once all layouts are known.

#include "compiler/pipelines/pipelines.h"

#include "passes/layout/passes.h"

using namespace mlir;

namespace ashlar::pipelines {

void addOptimizerParallelPasses(OpPassManager &passes, const Variant &variant) {
  if (variant.mesh.empty() || !variant.optimizerParallel) {
    return;
  }
  layout::SplitOptimizerPassOptions split;
  split.level = variant.optimizerParallel->level;
  split.threshold = variant.optimizerParallel->threshold;
  split.shardSize = variant.optimizerParallel->shardSize;
  passes.addPass(layout::createSplitOptimizerPass(split));
}

void addRedistributionPasses(OpPassManager &passes, const Variant &variant) {
  if (!variant.mesh.empty()) {
    passes.addPass(layout::createInterleavePartsPass()); // on the layouts of all values
    passes.addPass(layout::createInsertRedistributionsPass());
  }
}

} // namespace ashlar::pipelines
