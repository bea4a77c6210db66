// SPDX-License-Identifier: Apache-2.0
//
// Which nn ops may compute on parts: values that devices hold a piece of each, and combine by a reduction. A sum of parts passes through
// linear ops; a maximum of parts only through ops that move elements, and through maxima. Each function answers
// ComputeOpInterface::passesParts for the ops that name it in their definition.

#ifndef ASHLAR_DIALECTS_NN_PARTS_H
#define ASHLAR_DIALECTS_NN_PARTS_H

#include "dialects/support/enums.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallBitVector.h"

namespace ashlar::nn::parts {

// The operands have to be combined first.
bool none(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// Elements of all operands are moved, zeros put between them: as parts, if all are.
bool moved(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// Operand 0 is moved; the condition behind it is whole.
bool carried(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// f(x + y) = f(x) + f(y) in all operands together (add, sub, neg).
bool linear(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// As linear, in one operand while the others are whole (mul, matmul).
bool bilinear(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// A quotient of floats is linear in operand 0; integers are truncated.
bool dividend(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// A conversion to a wider float rounds nothing. One that rounds is not linear: the terms would be rounded one by one.
bool widened(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// Both choices are parts; the condition is whole.
bool chosen(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// The larger of maxima, the smaller of minima.
bool larger(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);
bool smaller(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// A reduction of the same kind, its attribute `kind`.
bool reduced(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

// An attention is linear in its value, operand 2; its gradients in the gradient of its result, operand 5.
bool attended(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);
bool attentionGradient(mlir::Operation *op, Reduction kind, const llvm::SmallBitVector &partial);

} // namespace ashlar::nn::parts

#endif // ASHLAR_DIALECTS_NN_PARTS_H
