// SPDX-License-Identifier: Apache-2.0
//
// A matrix product of the library, and the ops that one call of it takes in. Ordering, fusing and emitting ask here; the grammar is
//
//   nn.matmul  [nn.cast of its sums to f32]  [nn.add of a bias along the last dim]  [activation]
//
// each part at most once, in this order, and read by the next one only. Products of any rank are batches of matrices: the same grammar.

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_PRODUCT_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_PRODUCT_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

#include <optional>

namespace ashlar::lower {

// Returns whether the product is of a type that libraries take, and of so many multiplications that a call is worth its overhead.
bool isLibraryProduct(nn::MatMulOp op, int64_t leastFlops);

// Returns whether the op can follow `last` inside a call of the target's library, what else it reads aside.
bool followsInProduct(mlir::Operation *op, mlir::Operation *last, exec::Target target);

// Returns whether the op can follow anything inside a call.
bool isPartOfProduct(mlir::Operation *op, exec::Target target);

// Returns the value that `value` repeats along all dims but the last, as a bias is; null when it is no such value.
mlir::Value getBias(mlir::Value value);

// What a fusion of kind gemm computes, with its operands as numbers of the fusion's operands.
struct LibraryProduct {
  mlir::Value product;
  unsigned lhs = 0, rhs = 0;
  bool transposeA = false, transposeB = false;
  exec::OperandSum sumOf = exec::OperandSum::None;
  std::optional<unsigned> bias;
  exec::Epilogue epilogue = exec::Epilogue::None;
};

// Reads the body of a fusion of kind gemm. Fails, with an error, where it is not of the grammar.
mlir::FailureOr<LibraryProduct> readProduct(exec::FusionOp fusion);

// Builds the call. `buffers`: lhs, rhs, the bias if there is one, the results. Types as `fusion` has them.
exec::GemmOp buildProductCall(mlir::OpBuilder &builder, mlir::Location loc, exec::FusionOp fusion, const LibraryProduct &product,
                              llvm::ArrayRef<mlir::Attribute> buffers, bool allowTf32);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_LIBRARY_PRODUCT_H
