// SPDX-License-Identifier: Apache-2.0
//
// The module between every two passes of a pipeline.

#ifndef ASHLAR_TEST_FUZZ_PASS_SNAPSHOTS_H
#define ASHLAR_TEST_FUZZ_PASS_SNAPSHOTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <string>
#include <vector>

namespace ashlar::fuzz {

// The whole module after a pass; a pass on functions leaves one snapshot a function.
struct PassSnapshot {
  std::string pass; // its flag, "ashlar-loss"; "" before the first pass
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// Runs the passes on the module and returns it before them and after each one; fewer snapshots when one fails.
std::vector<PassSnapshot> snapshotPasses(mlir::ModuleOp module, const std::function<void(mlir::OpPassManager &)> &addPasses);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_PASS_SNAPSHOTS_H
