// SPDX-License-Identifier: Apache-2.0
//
// Products of the tiles of an attention by the threads of a block: which numbers of a tile a thread has in registers, and the code that
// makes them. A tile of scores is `own` rows of a block by `others`, rows of the other tensor, which the block goes through; an
// accumulator is own rows by columns. The numbers of one own row are in neighbouring threads of a warp, of scores and accumulators alike.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_TILES_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_TILES_H

#include "passes/lower/kernels/gpu/gpu_code.h"

namespace ashlar::lower {

// A matrix of a batch entry and head in memory.
struct AttentionMatrix {
  mlir::Value memory, offset; // a flat memref, and the place of element (0, 0)
  mlir::RankedTensorType type;
  int64_t rows, columns, rowStride;
};

// How tiles are shared out; `elements`: of queries, keys and values.
struct AttentionTileShape {
  // `accumulated`: columns of all accumulators; `rows`: own rows of the matrix.
  AttentionTileShape(mlir::Type elements, int64_t accumulated, int64_t rows);

  static constexpr int64_t kThreads = 128;

  bool isNarrow;   // products of bf16 or f16 by tensor cores; else multiply-adds of f32
  int64_t own;     // rows of a block
  int64_t others;  // rows of the other tensor in a tile
  int64_t ofRows;  // own rows of a thread
  int64_t sharing; // threads that share a row, a power of two
};

// Code of the products. Numbers of a tile in registers: of the thread's first own row, then of the next one; f32.
class AttentionTiles : public GpuCode {
public:
  AttentionTiles(exec::FusionOp fusion, mlir::func::FuncOp function, llvm::ArrayRef<int64_t> alias, const AttentionTileShape &tile,
                 mlir::Type elements);

protected:
  using Values = llvm::SmallVector<mlir::Value>;

  const AttentionTileShape tile;

  // Allocates what the block shares; for accumulators of up to `columns` columns, and dots of up to `width` terms.
  void prepareTiles(int64_t width, int64_t columns);

  // Places, within the tile, of the thread's own rows; of its numbers of scores in each of them; of its numbers of an accumulator. Within a
  // run of runLength() numbers the last two are consecutive.
  Values ownRows();
  Values otherRows();
  Values accumulatedColumns(int64_t columns);
  int64_t runLength() const { return tile.isNarrow ? 2 : 4; }

  // Whether the thread is the first of those that share its rows.
  mlir::Value isFirstOfRow();

  // Combines a number of each thread that shares a row; all of them get the result.
  mlir::Value combineRow(mlir::Value value, llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

  // Returns the scores: the dot of each own row with each other row, rows from `ownFirst` and `otherFirst` on.
  Values emitDots(const AttentionMatrix &own, mlir::Value ownFirst, const AttentionMatrix &other, mlir::Value otherFirst);

  // Returns accumulators with sum over other rows of weight * row of `other` added; the weights are numbers of scores, rounded to the type
  // of `other`'s elements in products of narrow types.
  Values accumulate(Values sums, llvm::ArrayRef<mlir::Value> weights, const AttentionMatrix &other, mlir::Value otherFirst);

  // Reads element (row, column) of a matrix as f32; both are inside of it.
  mlir::Value readElement(const AttentionMatrix &matrix, mlir::Value row, mlir::Value column);

  // Stores the thread's numbers of an accumulator in own rows from `first` on.
  void storeRows(const AttentionMatrix &matrix, llvm::ArrayRef<mlir::Value> numbers, mlir::Value first);

private:
  mlir::Type staged;        // elements in shared memory
  mlir::Value ownMemory;    // own rows x some terms
  mlir::Value otherMemory;  // other rows x some terms; or of an accumulation, for tensor cores by columns
  mlir::Value weightMemory; // own rows x other rows, of multiply-adds
  mlir::Value warp, lane;

  int64_t mostTerms() const { return tile.isNarrow ? 64 : 32; }      // in shared memory at once
  int64_t accessed() const { return tile.isNarrow ? 8 : 4; }         // elements of 16 bytes of shared memory
  int64_t padded(int64_t terms) const { return terms + accessed(); } // so that threads side by side read different banks

  mlir::Value place(mlir::Value row, int64_t stride, mlir::Value column) { return add(scale(row, stride), column); }
  Values loadGlobal(const AttentionMatrix &matrix, mlir::Value row, mlir::Value column, int64_t count);
  Values loadOrZero(const AttentionMatrix &matrix, mlir::Value row, mlir::Value column);
  Values readShared(mlir::Value memory, mlir::Value at, int64_t count);
  void writeShared(mlir::Value memory, mlir::Value at, llvm::ArrayRef<mlir::Value> elements);
  void stage(mlir::Value memory, int64_t rows, int64_t terms, const AttentionMatrix &matrix, mlir::Value first, mlir::Value column);
  void stageByColumns(int64_t columns, const AttentionMatrix &matrix, mlir::Value first, int64_t column);
  void stageWeights(llvm::ArrayRef<mlir::Value> weights);

  // Add products of what is staged.
  Values addDotsOfF32(int64_t terms, Values sums);
  Values addDotsOfCores(int64_t terms, Values sums);
  void addProductsOfF32(llvm::ArrayRef<mlir::Value *> sums);
  void addProductsOfCores(llvm::ArrayRef<mlir::Value> weights, llvm::ArrayRef<mlir::Value *> sums);

  // Of tensor cores.
  mlir::Value readPair(mlir::Value memory, mlir::Value at);
  mlir::Value asRegister(mlir::Value pair);
  void multiply(llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> c, llvm::ArrayRef<mlir::Value *> sums);
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_TILES_H
