// SPDX-License-Identifier: Apache-2.0
//
// The compiler's uses of the CUDA toolkit: ptxas, which makes machine code of PTX, and libdevice, exp and its like as LLVM IR.

#ifndef ASHLAR_COMPILER_TARGET_CUDA_TOOLKIT_H
#define ASHLAR_COMPILER_TARGET_CUDA_TOOLKIT_H

#include "compiler/target/cuda/chip.h"
#include "compiler/target/tool.h"

namespace ashlar::cuda {

// Files of the toolkit that was there when Ashlar was configured, or, where they are gone, of the ptxas on the search path.
struct Toolkit {
  std::string ptxas, libdevice;
};

// Whether Ashlar was built with the target.
bool isConfigured();

// Finds the toolkit. The error names the missing part, and whether Ashlar was built without the target.
llvm::Expected<Toolkit> findToolkit();

// Checks that ptxas and LLVM know the chips.
llvm::Error checkChips(const Toolkit &toolkit, llvm::ArrayRef<Chip> chips);

// Starts ptxas on PTX for `chip`.
llvm::Expected<target::ToolRun> startAssembler(const Toolkit &toolkit, const Chip &chip, llvm::StringRef ptx, llvm::StringRef output);

} // namespace ashlar::cuda

#endif // ASHLAR_COMPILER_TARGET_CUDA_TOOLKIT_H
