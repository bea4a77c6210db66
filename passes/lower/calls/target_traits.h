// SPDX-License-Identifier: Apache-2.0
//
// What a target can, as far as the passes of this room choose by it. The kernels of a target are in kernels/cpu and kernels/gpu.

#ifndef ASHLAR_PASSES_LOWER_CALLS_TARGET_TRAITS_H
#define ASHLAR_PASSES_LOWER_CALLS_TARGET_TRAITS_H

#include "dialects/exec/exec.h"

namespace ashlar::lower {

struct TargetTraits {
  // Of the library's matrix products.
  bool takesNarrow;                           // bf16 and f16 as they are, added up in f32; the sums can be given in f32
  bool sumsOperandRows;                       // the sums over the rows of an operand come with the product
  llvm::ArrayRef<exec::Epilogue> activations; // of the results, before they are stored

  // Of generated kernels.
  bool scattersInRegisters; // a scatter holds its sums in f32 until they are complete
  bool splitsReductions;    // a reduction of much to little needs more blocks than it has results
};

const TargetTraits &traitsOf(exec::Target target);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_TARGET_TRAITS_H
