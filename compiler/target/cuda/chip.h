// SPDX-License-Identifier: Apache-2.0
//
// Kinds of NVIDIA chips, by compute capability.

#ifndef ASHLAR_COMPILER_TARGET_CUDA_CHIP_H
#define ASHLAR_COMPILER_TARGET_CUDA_CHIP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace ashlar::cuda {

// The default of --gpu-arch: A100 and H100.
constexpr llvm::StringLiteral kDefaultChips = "sm_80,sm_90";

// A kind of chip: 90 is compute capability 9.0.
struct Chip {
  unsigned capability = 0;

  // "sm_90", the name of its machine code.
  std::string name() const { return "sm_" + std::to_string(capability); }

  // "compute_90", the name of PTX for it and later chips.
  std::string virtualName() const { return "compute_" + std::to_string(capability); }
};

// Returns the chips of a list, the oldest first.
//   "sm_90,sm_80"  ->  {80, 90}
llvm::Expected<std::vector<Chip>> parseChips(llvm::StringRef list);

} // namespace ashlar::cuda

#endif // ASHLAR_COMPILER_TARGET_CUDA_CHIP_H
