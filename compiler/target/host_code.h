// SPDX-License-Identifier: Apache-2.0
//
// The part of a program that the CPU runs, as an object: main() and tables, on the cpu target the kernels too.

#ifndef ASHLAR_COMPILER_TARGET_HOST_CODE_H
#define ASHLAR_COMPILER_TARGET_HOST_CODE_H

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <string>

namespace ashlar::target {

// Which CPUs run the code.
enum class HostCpu {
  This, // this machine's, and others with hostCpuFeatures()
  Any   // every one of its architecture
};

// Gives `module` the data layout and triple of this machine. Before tables are added: the layout hands out sizes.
llvm::Error setHostTarget(llvm::Module &module);

// Optimises `module` and writes an object file.
llvm::Error emitObject(llvm::Module &module, llvm::StringRef path, HostCpu cpu = HostCpu::This);

// Returns which features of runtime/abi/cpu_features.h code for HostCpu::This may use, separated by commas.
std::string hostCpuFeatures();

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_HOST_CODE_H
