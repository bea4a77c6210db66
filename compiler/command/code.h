// SPDX-License-Identifier: Apache-2.0
//
// From instruction tables to machine code, for the target of the command line.

#ifndef ASHLAR_COMPILER_COMMAND_CODE_H
#define ASHLAR_COMPILER_COMMAND_CODE_H

#include "compiler/command/options.h"
#include "compiler/target/host_code.h"
#include "compiler/target/image_emitter.h"
#include "compiler/target/image_info.h"
#include "dialects/exec/exec.h"

#include "mlir/IR/BuiltinOps.h"

namespace ashlar::command {

// The target of the code.
class CodeTarget {
public:
  // The host's module with the target's additions, and the device code in its object.
  struct Code {
    std::unique_ptr<llvm::Module> host;
    std::vector<target::DeviceCode> devices;
  };

  virtual ~CodeTarget() = default;
  virtual exec::Target kind() const = 0;

  // "cpu", or "cuda (sm_80, sm_90, later chips by PTX of compute_90)".
  virtual std::string text() const = 0;

  // Makes code of the kernels; files go into the folder `scratch`. Errors are reported.
  virtual mlir::FailureOr<Code> compileKernels(mlir::ModuleOp module, llvm::LLVMContext &context, llvm::StringRef scratch) const = 0;

  // Returns the processor that the host's code is for.
  virtual target::HostCpu hostCpu() const = 0;

  // Makes the PTX of the kernels. Assumes a target that has it: chooseTarget() refuses --emit ptx for others.
  virtual mlir::FailureOr<std::string> emitPtx(mlir::ModuleOp module) const { llvm_unreachable("this target has no PTX"); }
};

// Returns the target of the options --target, --gpu-arch and --emit. Fails when one has no meaning, or the toolkit is not there.
llvm::Expected<std::unique_ptr<CodeTarget>> chooseTarget(const Options &options);

// Writes the output of a stage after instruction tables. Errors are reported.
mlir::LogicalResult generateCode(mlir::ModuleOp module, target::ImageInfo info, const CodeTarget &target, const Options &options);

} // namespace ashlar::command

#endif // ASHLAR_COMPILER_COMMAND_CODE_H
