// SPDX-License-Identifier: Apache-2.0
//
// Listening to a pass manager; see pass_snapshots.h.

#include "test/fuzz/pass_snapshots.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

// Keeps a copy of the module after each pass that has a flag; others only hold passes.
class Recorder : public PassInstrumentation {
public:
  Recorder(ModuleOp module, std::vector<PassSnapshot> &snapshots) : module(module), snapshots(snapshots) {}

  void runAfterPass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty()) {
      snapshots.push_back({pass->getArgument().str(), module.clone()});
    }
  }

private:
  ModuleOp module;
  std::vector<PassSnapshot> &snapshots;
};

} // namespace

std::vector<PassSnapshot> snapshotPasses(ModuleOp module, const std::function<void(OpPassManager &)> &addPasses) {
  std::vector<PassSnapshot> snapshots;
  snapshots.push_back({"", module.clone()});
  PassManager passes(module.getContext());
  addPasses(passes);
  passes.addInstrumentation(std::make_unique<Recorder>(module, snapshots));
  (void)passes.run(module);
  return snapshots;
}

} // namespace ashlar::fuzz
