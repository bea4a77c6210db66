// SPDX-License-Identifier: Apache-2.0
//
// Writes the instructions of a planned program as exec ops.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_INSTRUCTION_EMITTER_H
#define ASHLAR_PASSES_LOWER_MEMORY_INSTRUCTION_EMITTER_H

#include "passes/lower/kernels/kernel_pool.h"
#include "passes/lower/memory/program.h"

namespace ashlar::lower {

// Emits every instruction of `program` at the builder's insertion point; kernels come from `kernels`, and f32 matrix
// products may round their operands to tf32 if `allowTf32`. Assumes that all storages have
// offsets. Fails with an error at the op that has no instruction.
mlir::LogicalResult emitInstructions(mlir::OpBuilder &builder, const Program &program, KernelPool &kernels, dist::MeshAttr mesh,
                                     bool allowTf32);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_INSTRUCTION_EMITTER_H
