// SPDX-License-Identifier: Apache-2.0
//
// Size and clean-up of generated kernels, for passes that move ops between them.

#ifndef ASHLAR_PASSES_LOWER_FUSION_KERNEL_EDITS_H
#define ASHLAR_PASSES_LOWER_FUSION_KERNEL_EDITS_H

#include "passes/lower/kernels/kernel_size.h"

#include "dialects/exec/exec.h"

namespace ashlar::lower {

// Returns the size of a kernel; `live` counts its results. Assumes a fusion that is no library call.
KernelSize sizeOf(exec::FusionOp kernel);

// Erases the ops and operands of a fusion that none of its results needs.
void dropUnused(exec::FusionOp fusion);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_FUSION_KERNEL_EDITS_H
