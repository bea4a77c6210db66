// SPDX-License-Identifier: Apache-2.0
//
// The jobs and variants that the lists are asked with.

#include "test/unit/layout/partitioned.h"

#include "dialects/dist/dist.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace ashlar::test {

pipelines::Variant variantOf(ModuleOp module, bool splitVariables) {
  pipelines::Variant variant;
  variant.name = "default";
  variant.inferParameters = splitVariables;
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes())) {
    variant.mesh.push_back({axis.str(), size});
  }
  return variant;
}

LogicalResult addTraining(ModuleOp module) {
  job::Job job;
  job.mutable_loss()->mutable_softmax_cross_entropy()->set_labels("labels");
  job.mutable_optimizer()->mutable_momentum();
  job.mutable_optimizer()->set_learning_rate(0.1);
  PassManager passes(module.getContext());
  pipelines::addTrainPasses(passes, job);
  return passes.run(module);
}

LogicalResult partitionModule(ModuleOp module, bool splitVariables, ArrayRef<std::string> batchAxes) {
  pipelines::Variant variant = variantOf(module, splitVariables);
  variant.batchAxes.assign(batchAxes.begin(), batchAxes.end());
  PassManager passes(module.getContext());
  pipelines::addLayoutPasses(passes, variant, job::Job());
  pipelines::addDistPasses(passes, variant);
  return passes.run(module);
}

} // namespace ashlar::test
