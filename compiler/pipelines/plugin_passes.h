// SPDX-License-Identifier: Apache-2.0
//
// Passes that plugins add to the pipelines.

#ifndef ASHLAR_COMPILER_PIPELINES_PLUGIN_PASSES_H
#define ASHLAR_COMPILER_PIPELINES_PLUGIN_PASSES_H

#include "mlir/Pass/PassManager.h"

namespace ashlar::pipelines {

// Where a pipeline runs passes of plugins, each on a module.
enum class PassPoint {
  Model, // the imported model: @forward
  Step,  // the programs on global shapes, before layouts: @init, @train_step, @eval_step or @forward
  Device // the programs of one device, on local shapes, before ops are fused to kernels
};

// Adds passes for a point, none or more.
using PassAdder = void (*)(PassPoint point, mlir::OpPassManager &passes);

// Has all later pipelines call `adder` at each point. Not safe beside another thread.
void addPluginPasses(PassAdder adder);

// Adds the passes of plugins for a point, in the order in which the plugins came.
void runPassAdders(PassPoint point, mlir::OpPassManager &passes);

} // namespace ashlar::pipelines

#endif // ASHLAR_COMPILER_PIPELINES_PLUGIN_PASSES_H
