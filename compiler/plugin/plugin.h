// SPDX-License-Identifier: Apache-2.0
//
// What a plugin of ashlarc exports: dialects with ops of its own, the ONNX ops that become them, and passes. docs/plugins.md has an
// example.

#ifndef ASHLAR_COMPILER_PLUGIN_PLUGIN_H
#define ASHLAR_COMPILER_PLUGIN_PLUGIN_H

#include "compiler/frontend/registry.h"
#include "compiler/pipelines/plugin_passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "llvm/Config/llvm-config.h"

#include <cstdint>

namespace ashlar {

// Changes with every change of this header, or of a header that it includes, after which a plugin has to be built again.
inline constexpr uint32_t kPluginVersion = 1;

// A member may be null where a plugin has nothing of the kind.
struct PluginInfo {
  uint32_t version = kPluginVersion;
  const char *llvmVersion = LLVM_VERSION_STRING;
  // Registers the dialects.
  void (*addDialects)(mlir::DialectRegistry &registry) = nullptr;
  // Returns the rows of the ONNX ops, which must live as long as the process. An op of another domain than ai.onnx has that before its
  // name: "demo.TanhExp".
  llvm::ArrayRef<frontend::RegistryRow> (*getImportRows)() = nullptr;
  // Adds passes at a point of the pipeline; called for each point, once a pipeline.
  pipelines::PassAdder addPasses = nullptr;
  // Registers the passes by name, for ashlar-opt.
  void (*registerPasses)() = nullptr;
};

} // namespace ashlar

// The one symbol that a plugin exports: returns an object that lives as long as the process.
extern "C" const ashlar::PluginInfo *ashlarGetPluginInfo();

#endif // ASHLAR_COMPILER_PLUGIN_PLUGIN_H
