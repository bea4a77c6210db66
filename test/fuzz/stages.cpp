// SPDX-License-Identifier: Apache-2.0
//
// Listening to a pass manager; see stages.h.

#include "test/fuzz/stages.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

// Keeps a copy of the module after each pass that has a flag; others only hold passes.
class Recorder : public PassInstrumentation {
public:
  Recorder(ModuleOp module, std::vector<Stage> &stages) : module(module), stages(stages) {}

  void runAfterPass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty()) {
      stages.push_back({pass->getArgument().str(), module.clone()});
    }
  }

private:
  ModuleOp module;
  std::vector<Stage> &stages;
};

} // namespace

std::vector<Stage> runStages(ModuleOp module, const std::function<void(OpPassManager &)> &addPasses) {
  std::vector<Stage> stages;
  stages.push_back({"", module.clone()});
  PassManager passes(module.getContext());
  addPasses(passes);
  passes.addInstrumentation(std::make_unique<Recorder>(module, stages));
  (void)passes.run(module);
  return stages;
}

} // namespace ashlar::fuzz
