// SPDX-License-Identifier: Apache-2.0
//
// Turns a generated fusion (loop, rows, columns, scatter) into one kernel function of scf loops over memrefs. docs/kernels.md draws the
// loop nests.

#ifndef ASHLAR_PASSES_LOWER_KERNEL_EMITTER_H
#define ASHLAR_PASSES_LOWER_KERNEL_EMITTER_H

#include "dialects/exec/exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace ashlar::lower {

// Emits the fusion as a function @name(memref..., index begin, index end) at module level and returns it. The memrefs are the fusion's
// operands, then its results; a result r with alias[r] >= 0 has no argument of its own, it overwrites the operand of that index. The
// function carries exec.extent, the length of the parallel loop, and exec.grain. Fails with an error at the fusion when the body is not of
// its kind.
mlir::FailureOr<mlir::func::FuncOp> emitKernel(exec::FusionOp fusion, llvm::ArrayRef<int64_t> alias, mlir::SymbolTable &symbols,
                                               llvm::StringRef name);

// Returns whether result `result` may overwrite operand `operand`: same type, and each element is read only by the iteration that writes
// it, before it writes it.
bool mayAlias(exec::FusionOp fusion, unsigned operand, unsigned result);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNEL_EMITTER_H
