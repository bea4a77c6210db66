// SPDX-License-Identifier: Apache-2.0
//
// Loop nests of the cuda target; docs/cuda.md has the table of them. A kernel asks for its block and thread, works out which elements are
// its own, and stores them; there are no atomics, so the same program gives the same bits every time.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_KERNEL_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_KERNEL_H

#include "passes/lower/kernels/gpu/gpu_code.h"
#include "passes/lower/kernels/gpu/gpu_fusion.h"
#include "passes/lower/kernels/row_passes.h"

namespace ashlar::lower {

// Emits one fusion. Invariant: an element of a full result is computed by the thread that alone reads the operands at that place, and all
// of a thread's elements of a chunk are computed before the first is stored; so a full result may overwrite a full operand.
class GpuKernel : public GpuCode {
public:
  using GpuCode::GpuCode;

  void emit();

private:
  // Neighbouring elements that a thread handles at once: the index of the first, the numbers along the innermost loop, the condition that
  // the chunk is within the row, and the condition that it is the thread's own too (null: everywhere). Elsewhere its index is another
  // chunk's, so that nothing is read out of bounds.
  struct Chunk {
    Index index;
    llvm::SmallVector<mlir::Value> lanes;
    std::optional<int64_t> dim; // that the lanes run along
    mlir::Value isInside, isOwn;
  };
  // Computed elements of a result on their way to memory.
  struct Pending {
    unsigned result;
    Index index;
    llvm::SmallVector<mlir::Value> lanes, elements;
  };

  // emit_gpu_kernels.cpp
  // Sets the index along `loops` to the index of element `flat` of them.
  void setIndex(llvm::ArrayRef<LoopDim> loops, mlir::Value flat);

  // Returns the chunk of `count` elements of the loops that begins with `first`; the index along other loops is the current one.
  Chunk makeChunk(llvm::ArrayRef<LoopDim> loops, mlir::Value first, int64_t count);

  // Goes to a chunk, and emits code for each of its lanes in turn.
  void enter(const Chunk &chunk);
  void leaveChunks();
  void forLanes(const Chunk &chunk, llvm::function_ref<void(unsigned)> emitLane);

  // Computes the chunk's elements of the full results; a row's elements of the others.
  void computeFull(const Chunk &chunk, llvm::SmallVectorImpl<Pending> &pending);
  llvm::SmallVector<Pending> computeRowResults();
  void store(llvm::ArrayRef<Pending> pending);

  void emitLoop();

  // emit_gpu_reductions.cpp
  // Combines one value of each of `count` neighbouring threads (a power of two); all of them get the results.
  llvm::SmallVector<mlir::Value> combineThreads(llvm::ArrayRef<nn::ReduceOp> reductions, llvm::SmallVector<mlir::Value> values,
                                                int64_t count);
  // Combines the values of threads whose numbers are equal modulo `across`; only the first `across` threads get the results.
  llvm::SmallVector<mlir::Value> combineDown(llvm::ArrayRef<nn::ReduceOp> reductions, llvm::ArrayRef<mlir::Value> values, int64_t across,
                                             int64_t down);

  // emit_gpu_rows.cpp
  void emitRows();
  void emitRowValues(const RowPasses &passes, int64_t level);
  llvm::SmallVector<mlir::Value> addChunk(llvm::ArrayRef<nn::ReduceOp> reductions, const Chunk &chunk, llvm::SmallVector<mlir::Value> sums);
  void emitRowInRegisters(llvm::ArrayRef<LoopDim> inner, const RowPasses &passes, const GpuRowShape &row, mlir::Value part,
                          mlir::Value isRow);
  // Emits the loops of one pass over a row, some chunks at a time, then the remainder; `step` maps the carried values to the next ones.
  llvm::SmallVector<mlir::Value>
  forChunks(llvm::ArrayRef<LoopDim> inner, const GpuRowShape &row, mlir::Value part, llvm::ArrayRef<mlir::Value> carried,
            llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<Chunk>, llvm::ArrayRef<mlir::Value>)> step);
  void emitRowInLoops(llvm::ArrayRef<LoopDim> inner, const RowPasses &passes, const GpuRowShape &row, mlir::Value part);
  void finishPass(const RowPasses &passes, int64_t level, llvm::SmallVector<mlir::Value> sums, int64_t count);

  // emit_gpu_columns.cpp
  void emitColumns();
  void emitScatter();
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_GPU_KERNEL_H
