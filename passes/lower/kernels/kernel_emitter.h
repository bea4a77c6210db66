// SPDX-License-Identifier: Apache-2.0
//
// Turns a generated fusion (loop, rows, columns, scatter) into one kernel function over memrefs. docs/kernels.md draws the loop nests.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_KERNEL_EMITTER_H
#define ASHLAR_PASSES_LOWER_KERNELS_KERNEL_EMITTER_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace ashlar::lower {

// Emits the fusion as a function @name at module level and returns it. Its arguments are flat memrefs: the fusion's operands, then its
// results; a result r with alias[r] >= 0 has no argument of its own, it overwrites the operand of that index.
//   cpu   two more arguments, index begin and end; exec.extent is the length of the parallel loop, exec.grain the least part of it
//   cuda  the body asks for its place in the grid; exec.extent is the number of blocks, exec.grain the threads of a block
// Fails with an error at the fusion when the body is not of its kind.
mlir::FailureOr<mlir::func::FuncOp> emitKernel(exec::FusionOp fusion, llvm::ArrayRef<int64_t> alias, mlir::SymbolTable &symbols,
                                               llvm::StringRef name, exec::Target target);

// Returns whether result `result` may overwrite operand `operand`: same type, and each element is read only by the iteration (thread) that
// writes it, before it writes it.
bool mayAlias(exec::FusionOp fusion, unsigned operand, unsigned result, exec::Target target);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_KERNEL_EMITTER_H
