// SPDX-License-Identifier: Apache-2.0
//
// A library call of a target: its first op, and the ops that it absorbs after it. One row a kind of call; fusing and ordering query the
// rows, and the memory plan has them build the instruction. The abilities of a target's library are in the target's row
// (dialects/exec/target_traits.h).

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_CALL_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_CALL_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

namespace ashlar::lower {

// The buffers of a fusion's operands and results, and where the call of it is built.
struct CallSite {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  exec::FusionOp fusion;
  llvm::ArrayRef<exec::BufferAttr> operands, results;
  bool allowTf32;
};

struct LibraryCall {
  exec::FusionKind kind;
  // Returns whether a call begins with the op. Null where calls are made before fusing (library_attention.h).
  bool (*begins)(mlir::Operation *op);
  // Returns whether the op can follow `last` inside a call of the target's library, whatever its other operands. Null like `begins`.
  bool (*follows)(mlir::Operation *op, mlir::Operation *last, exec::Target target);
  // Returns whether an op inside a call may add the tensor, which has the shape of the results, and not only a bias. Null: it may not.
  bool (*addsTensor)(mlir::Value tensor);
  // Builds the instruction. Fails, with an error, where the body of the fusion is not of the call's grammar.
  mlir::LogicalResult (*build)(const CallSite &site);
};

// Returns the call that begins with the op; null when none does.
const LibraryCall *findCall(mlir::Operation *op);

// Returns the call that a fusion of this kind is; null when it is a kernel.
const LibraryCall *findCall(exec::FusionKind kind);

// Returns the term that the op adds to the result of `last`. Null when the op adds nothing to it.
mlir::Value getAddend(mlir::Operation *op, mlir::Operation *last);

// Returns the factor by which the op multiplies the result of `last`. Null when the op does not.
mlir::Value getFactor(mlir::Operation *op, mlir::Operation *last);

// Returns the type of bf16 or f16 that a buffer has, as in the runtime; 0 of any other.
uint32_t narrowOf(exec::BufferAttr buffer);

// Returns the value that `value` repeats along all dims but the last, as a bias is; null when it is no such value, or null.
mlir::Value getBias(mlir::Value value);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_LIBRARY_CALL_H
