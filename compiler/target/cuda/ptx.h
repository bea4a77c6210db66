// SPDX-License-Identifier: Apache-2.0
//
// LLVM IR to PTX: libdevice, the optimiser, LLVM's NVPTX code generator.

#ifndef ASHLAR_COMPILER_TARGET_CUDA_PTX_H
#define ASHLAR_COMPILER_TARGET_CUDA_PTX_H

#include "compiler/target/cuda/chip.h"

#include "llvm/IR/Module.h"

namespace ashlar::cuda {

// Whether LLVM makes code for the chip.
bool isKnownToLlvm(const Chip &chip);

// Returns the data layout of NVIDIA chips as LLVM spells it; "" when this LLVM makes no code for them.
std::string deviceDataLayout();

// Gives `module`, which has the data layout, the triple of NVIDIA chips and the functions of libdevice that it calls, as its own. Libdevice
// is read only when there are any.
llvm::Error linkLibdevice(llvm::Module &module, llvm::StringRef libdevice);

// Optimises a copy of `module`, which calls nothing outside, for `chip` and returns its PTX.
llvm::Expected<std::string> generatePtx(const llvm::Module &module, const Chip &chip);

} // namespace ashlar::cuda

#endif // ASHLAR_COMPILER_TARGET_CUDA_PTX_H
