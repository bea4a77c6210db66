// SPDX-License-Identifier: Apache-2.0
//
// A matrix product of the library, and the ops that one call of it absorbs: the compiler's only code on products, from the ops of a program
// to the descriptor of the runtime. The abilities of a target's library are in the target's row (dialects/exec/target_traits.h). The
// grammar is
//
//   nn.matmul  [nn.cast of its sums to f32]  [nn.add of a bias along the last dim]  [activation]
//   exec.product_with_sums, exec.product_with_auxiliary, exec.product_with_slope
//
// each part at most once, in this order, and read by the next one only. Products of any rank are batches of matrices: the same grammar.

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_PRODUCT_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_PRODUCT_H

#include "passes/lower/calls/library_call.h"

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "runtime/abi/ashlar_rt.h"

namespace ashlar::lower {

// Returns whether the product has a type that the target's library takes, directly or as f32, and enough multiplications to be worth the
// overhead of a call.
bool isLibraryProduct(nn::MatMulOp op, int64_t leastFlops, exec::Target target);

// Returns whether the target's library takes the operands as they are, and adds up in f32.
bool takesOperands(nn::MatMulOp op, exec::Target target);

// Returns whether a call begins with the op.
bool beginsProduct(mlir::Operation *op);

// Returns whether the op can follow `last` inside a call of the target's library, whatever its other operands.
bool followsInProduct(mlir::Operation *op, mlir::Operation *last, exec::Target target);

// Returns whether a product can be added up in the place of a tensor, whatever its shape: one of f32 that only this sum reads.
bool accumulatesIn(mlir::Value tensor);

// Returns whether a fusion of kind gemm adds its product to this operand.
bool isAccumulator(exec::FusionOp fusion, unsigned operand);

// Returns whether the op can follow anything inside a call.
bool isPartOfProduct(mlir::Operation *op, exec::Target target);

// Builds the call that a fusion of kind gemm becomes. Fails, with an error, where its body is not of the grammar.
mlir::LogicalResult buildProductCall(const CallSite &site);

// Returns the call as the runtime gets it.
ashlar_rt_gemm_desc describeProduct(exec::GemmOp call);

// Returns the bytes that each thread needs for the call that an op becomes, with weights that it orders itself.
uint64_t productWorkspace(nn::MatMulOp op);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_LIBRARY_PRODUCT_H
