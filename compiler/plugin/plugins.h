// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins into this process.

#ifndef ASHLAR_COMPILER_PLUGIN_PLUGINS_H
#define ASHLAR_COMPILER_PLUGIN_PLUGINS_H

#include "compiler/plugin/plugin.h"

#include "llvm/Support/Error.h"

#include <string>

namespace ashlar::plugin {

// Loads a shared library for the rest of the process and returns what it exports. Fails where it is no plugin, or one for another compiler.
llvm::Expected<PluginInfo> open(const std::string &path);

// Opens plugins and adds their dialects, ONNX ops and passes to the compiler. Fails with an error that names the file; the compiler is of
// no use then. Must run before the first import.
llvm::Error load(llvm::ArrayRef<std::string> paths);

} // namespace ashlar::plugin

#endif // ASHLAR_COMPILER_PLUGIN_PLUGINS_H
