// SPDX-License-Identifier: Apache-2.0
//
// See measured_partition.h.

#include "test/unit/layout/measured_partition.h"

#include "compiler/reference/equivalence.h"
#include "passes/layout/inference/propagate_layouts.h"
#include "passes/layout/passes.h"
#include "passes/layout/redistribute/estimate.h"
#include "test/unit/layout/partitioned.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

using namespace mlir;

namespace ashlar::test {

MeasuredPartition measurePartition(ModuleOp module, std::optional<int64_t> intLimit) {
  MeasuredPartition found;
  OwningOpRef<ModuleOp> inferred = module.clone(), after = module.clone();
  PassManager passes(module.getContext());
  passes.addPass(layout::createMoveReshapedRowsPass()); // as partitionModule()
  REQUIRE(succeeded(passes.run(*inferred)));
  REQUIRE(succeeded(layout::propagateLayouts(*inferred, /*splitVariables=*/false)));
  FailureOr<layout::Estimate> estimate = layout::estimateLayouts(*inferred);
  REQUIRE(succeeded(estimate));
  found.estimatedBytes = estimate->programs.front().bytesSent;
  REQUIRE(succeeded(partitionModule(*after)));
  after->walk([&](dist::CollectiveOpInterface op) {
    found.bytes += dist::collectiveBytes(op);
    ++(op.getCollectiveKind() == CollectiveKind::Halo ? found.halos : found.others);
  });
  found.isCut = dist::findMesh(*after).getMesh() != dist::findMesh(module).getMesh();
  reference::EquivalenceOptions options;
  options.functions = {"f"};
  options.intLimit = intLimit.value_or(options.intLimit);
  options.ranksAfter = dist::findMesh(module).getMesh().numDevices();
  FailureOr<double> difference = reference::compareModules(module, *after, options);
  REQUIRE(succeeded(difference));
  found.difference = *difference;
  return found;
}

} // namespace ashlar::test
