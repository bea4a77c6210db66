// SPDX-License-Identifier: Apache-2.0
//
// The nest of a kernel of attention: the rows of a block, the tiles that it goes through, and their scores.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_NEST_H
#define ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_NEST_H

#include "passes/lower/kernels/gpu/attention_tiles.h"

#include "dialects/nn/ops/attention_scores.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <vector>

namespace ashlar::lower {

// What the ops of a kernel agree on.
struct Attention {
  template <typename Op> static Attention of(Op op, mlir::ValueRange draw = {}, double dropout = 0) {
    return {op.getQuery(),
            op.getKey(),
            op.getMask(),
            llvm::to_vector(op.getPositions()),
            llvm::to_vector(draw),
            op.getScale().convertToDouble(),
            op.getSoftcap().convertToDouble(),
            dropout,
            op.getCausal(),
            op.getWindow() != 0,
            nn::diagonalOf(op),
            nn::firstDistanceOf(op)};
  }

  mlir::Value query, key, mask;
  llvm::SmallVector<mlir::Value> positions, draw;
  double scale, softcap, dropout;
  bool isCausal, hasWindow;
  int64_t diagonal, firstDistance;
};

class AttentionNest : public AttentionTiles {
public:
  // `isByKeys`: own rows are keys, and the others queries; else the other way round. `accumulated`: as of AttentionTileShape.
  AttentionNest(exec::FusionOp fusion, mlir::func::FuncOp function, llvm::ArrayRef<int64_t> alias, Attention attention, bool isByKeys,
                int64_t accumulated);

protected:
  const Attention attention;
  const bool isByKeys;
  const int64_t rows, keys;
  mlir::Value ownFirst; // of the block
  Values own, others;   // places in a tile

  // Of one number of a tile; null where it has none.
  struct Place {
    mlir::Value row, key, isSeen;
  };
  struct Scores {
    Values scores, tanhs; // the latter with a softcap
    std::vector<Place> places;
  };

  mlir::Value number(double value) { return mlir::arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value))); }
  mlir::Value times(mlir::Value lhs, mlir::Value rhs) { return mlir::arith::MulFOp::create(b, lhs, rhs); }
  mlir::Value minus(mlir::Value lhs, mlir::Value rhs) { return mlir::arith::SubFOp::create(b, lhs, rhs); }
  mlir::Value plus(mlir::Value lhs, mlir::Value rhs) { return mlir::arith::AddFOp::create(b, lhs, rhs); }
  mlir::Value larger(mlir::Value lhs, mlir::Value rhs) { return mlir::arith::MaxNumFOp::create(b, lhs, rhs); }
  mlir::Value exponential(mlir::Value x) { return mlir::math::ExpOp::create(b, x); }

  // Sets the block's rows and entry of the batch, and what it shares; for dots of up to `width` terms.
  void begin(int64_t width, int64_t columns);

  // Returns an operand or a result as a matrix of the block's entry of the batch. Where the body transposes it, that is read or written.
  AttentionMatrix matrixOf(mlir::Value value);
  AttentionMatrix resultOf(mlir::Value value);

  // Goes through the tiles of other rows that own rows see; as emitFor().
  Values forOthers(llvm::ArrayRef<mlir::Value> carried, llvm::function_ref<Values(mlir::Value, llvm::ArrayRef<mlir::Value>)> step);

  // Returns a place that is inside of `size`, of which tiles of `part` are some.
  mlir::Value inside(mlir::Value place, int64_t size, int64_t part);

  // Returns the scores of the tile of others from `otherFirst` on.
  Scores emitScores(llvm::ArrayRef<mlir::Value> dots, mlir::Value otherFirst);

  // Returns how often a weight counts; null without a dropout.
  mlir::Value emitKept(const Place &place);

  // Returns the number of a row in a tensor of one for each.
  mlir::Value rowNumberAt(mlir::Value numbers, mlir::Value row) { return scalars.emit(numbers, indexIn(numbers, {row})); }

  // Stores a number for each own row, by the first thread that has it; nothing where the fusion does not give the value.
  void storeRowNumbers(mlir::Value value, llvm::function_ref<mlir::Value(size_t)> numberOf);

private:
  mlir::Value entry; // of the batch; `batch`: its index along each dim
  Index batch;
  mlir::Value diagonal, firstDistance;

  void setDistances();
  Index indexIn(mlir::Value value, llvm::ArrayRef<mlir::Value> last);
  Place placeOf(mlir::Value ownRow, mlir::Value otherRow);
  AttentionMatrix matrixIn(mlir::Value memory, mlir::RankedTensorType type, bool hasHeadsInside);
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_GPU_ATTENTION_NEST_H
