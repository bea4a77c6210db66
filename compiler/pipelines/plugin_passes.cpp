// SPDX-License-Identifier: Apache-2.0
//
// The adders are of the process, like the plugins.

#include "compiler/pipelines/plugin_passes.h"

namespace ashlar::pipelines {

namespace {

std::vector<PassAdder> &passAdders() {
  static std::vector<PassAdder> adders;
  return adders;
}

} // namespace

void addPluginPasses(PassAdder adder) {
  passAdders().push_back(adder);
}

void runPassAdders(PassPoint point, mlir::OpPassManager &passes) {
  for (PassAdder adder : passAdders()) {
    adder(point, passes);
  }
}

} // namespace ashlar::pipelines
