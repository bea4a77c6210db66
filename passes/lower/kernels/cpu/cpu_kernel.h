// SPDX-License-Identifier: Apache-2.0
//
// Loop nests of the cpu target; docs/kernels.md draws them. The outermost loop of a kernel runs over [begin, end) of its extent, so the
// runtime can cut it; everything inside is sequential.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_CPU_CPU_KERNEL_H
#define ASHLAR_PASSES_LOWER_KERNELS_CPU_CPU_KERNEL_H

#include "passes/lower/kernels/kernel_nest.h"
#include "passes/lower/kernels/row_passes.h"

namespace ashlar::lower {

// Emits one fusion. The function has two index arguments more than its buffers, begin and end.
class CpuKernel : public KernelNest {
public:
  CpuKernel(exec::FusionOp fusion, mlir::func::FuncOp function, llvm::ArrayRef<int64_t> alias);

  void emit();

private:
  mlir::Value begin, end;
  int64_t extent = 1, grain = 1;

  // Takes the outermost loop as the parallel one. A unit is one iteration, of `unitElements`.
  void setParallel(int64_t size, int64_t unitElements);
  // Rounds the grain up, so that ranges of a flat loop begin where vectors do.
  void alignGrain();

  // Emits nested loops over `dims` around `emitBody`; the first of them runs over [begin, end) when `parallel`. Without dims a parallel
  // nest is one unit, still done only when the range holds it.
  void nest(llvm::ArrayRef<LoopDim> dims, bool parallel, llvm::function_ref<void()> emitBody);

  // Emits nested loops over `dims` that carry `carried`; returns its final values. `step` maps the carried values to the next ones.
  llvm::SmallVector<mlir::Value> reduceNest(llvm::ArrayRef<LoopDim> dims, llvm::SmallVector<mlir::Value> carried,
                                            llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::Value>)> step);

  // Emits one step of the reductions at the current index.
  llvm::SmallVector<mlir::Value> addElements(llvm::ArrayRef<nn::ReduceOp> reductions, llvm::ArrayRef<mlir::Value> carried);

  // Stores the full results, or the others, at the current index: all are computed before the first is stored, since one may overwrite an
  // operand.
  void storeResults(bool full);

  void emitLoop();

  void emitRows();
  llvm::DenseMap<int64_t, llvm::SmallVector<mlir::Value>> allocateScratch(const RowPasses &passes, int64_t rowElements);
  void emitRow(llvm::ArrayRef<LoopDim> inner, const RowPasses &passes, llvm::DenseMap<int64_t, llvm::SmallVector<mlir::Value>> &filledBy);
  std::optional<RowElement> readElement(nn::ReduceOp reduce, llvm::ArrayRef<LoopDim> inner);
  void emitElement(nn::ReduceOp reduce, const RowElement &found);
  void emitRowValues();
  void setScratchIndex(llvm::ArrayRef<LoopDim> inner);

  void emitColumns();
  void accumulateInRegisters(llvm::ArrayRef<LoopDim> reduced);
  int64_t rowsAPass();
  void accumulateInMemory(llvm::ArrayRef<LoopDim> reduced, const LoopDim &suffix, bool parallel);
  void addRows(const LoopDim &innermost, const LoopDim &suffix, bool parallel, mlir::Value first, int64_t count);

  void emitScatter();
  Index indexInRow(mlir::Value row);
  void fillRows(llvm::ArrayRef<LoopDim> columns, bool parallel, llvm::ArrayRef<int64_t> result, mlir::Value element);
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_CPU_CPU_KERNEL_H
