// SPDX-License-Identifier: Apache-2.0
//
// The option of a pass that chooses by the target.

#ifndef ASHLAR_DIALECTS_EXEC_TARGET_OPTION_TD
#define ASHLAR_DIALECTS_EXEC_TARGET_OPTION_TD

include "mlir/Pass/PassBase.td"

class TargetOption<string what> : Option<"target", "target", "::ashlar::exec::Target", "::ashlar::exec::Target::Cpu", what, [{
  llvm::cl::values(clEnumValN(::ashlar::exec::Target::Cpu, "cpu", "the processor"),
                   clEnumValN(::ashlar::exec::Target::Cuda, "cuda", "an NVIDIA GPU"))
}]>;

#endif // ASHLAR_DIALECTS_EXEC_TARGET_OPTION_TD
