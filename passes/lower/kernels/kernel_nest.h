// SPDX-License-Identifier: Apache-2.0
//
// The common part of the kernel emitters of all targets: the fusion, the code of its elements, and the places of its results. Each target
// adds the loop nest around it.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_KERNEL_NEST_H
#define ASHLAR_PASSES_LOWER_KERNELS_KERNEL_NEST_H

#include "passes/lower/kernels/kernel_shape.h"
#include "passes/lower/kernels/scalar_emitter.h"

#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// State: the insertion point of `b`, and `index`, the place in the domain of the code that is emitted there.
class KernelNest {
public:
  // The arguments of `function`, which has its entry block, are the operands, then the results that overwrite none, then the target's own.
  // `alias` as in emitKernel().
  KernelNest(exec::FusionOp fusion, mlir::func::FuncOp function, llvm::ArrayRef<int64_t> alias);

protected:
  using Index = ScalarEmitter::Index;

  exec::FusionOp fusion;
  mlir::func::FuncOp function;
  mlir::ImplicitLocOpBuilder b;
  ScalarEmitter scalars;
  KernelShape shape;
  mlir::Block &body;
  llvm::SmallVector<mlir::Value> outputs; // memrefs of the results
  mlir::Value zero;
  Index index;

  // Notes the size of the parallel loop and of its parts (cpu), or of the grid and of its blocks, on the function.
  void setExtent(int64_t extent, int64_t grain);

  mlir::Value constant(int64_t value);

  // Returns the values that the fusion yields.
  mlir::OperandRange yielded();

  // Returns whether a value has the shape of the domain.
  bool isFull(mlir::Value value) const;

  // Returns whether the op computes a value of a row; arithmetic on places can be of other shapes too, to be read through views.
  bool computesRowValue(mlir::Operation &op) const;

  // Returns the current index of a value: all of it for a full one, else the index along the dims that the reductions keep.
  Index indexOf(mlir::Value value);

  // Returns the result that holds a value which the fusion yields.
  mlir::Value outputOf(mlir::Value value);

  // Returns the reductions in the order of the body.
  llvm::SmallVector<nn::ReduceOp> reductions();

  // Emits the neutral element of a reduction, and its combination of two elements; both in the type in which elements are computed.
  mlir::Value neutralOf(nn::ReduceOp reduce);
  mlir::Value combine(nn::ReduceOp reduce, mlir::Value lhs, mlir::Value rhs);
};

// Splits the loops of a nest into kept and reduced ones; the loops of a scatter's batch are apart.
struct SplitLoops {
  llvm::SmallVector<LoopDim> batch, kept, reduced;

  explicit SplitLoops(const KernelShape &shape);
};

// Returns the number of iterations of a nest of loops.
int64_t countIterations(llvm::ArrayRef<LoopDim> loops);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_KERNEL_NEST_H
