// SPDX-License-Identifier: Apache-2.0
//
// From instruction tables to what the machine runs, for the target that the command line names.

#ifndef ASHLAR_COMPILER_DRIVER_CODE_H
#define ASHLAR_COMPILER_DRIVER_CODE_H

#include "compiler/driver/compile.h"
#include "compiler/target/cuda/toolkit.h"
#include "compiler/target/image_info.h"
#include "dialects/exec/exec.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::driver {

// What code is made for.
struct CodeTarget {
  exec::Target target = exec::Target::Cpu;
  cuda::Toolkit toolkit;         // cuda
  std::vector<cuda::Chip> chips; // cuda; at least one, the oldest first

  // "cpu", or "cuda (sm_80, sm_90, later chips by PTX of compute_90)".
  std::string text() const;
};

// Returns the target of the options --target, --gpu-arch and --emit. Fails when one has no meaning, or the toolkit is not there.
llvm::Expected<CodeTarget> chooseTarget(const Options &options);

// Writes the output of a stage after instruction tables. Errors are reported.
mlir::LogicalResult generateCode(mlir::ModuleOp module, const target::ImageInfo &info, const CodeTarget &target, const Options &options);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_CODE_H
