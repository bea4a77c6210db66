// SPDX-License-Identifier: Apache-2.0
//
// Reductions whose results lie side by side along the innermost dim, and rows added up by number.

#include "passes/lower/kernels/gpu/gpu_kernel.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr int64_t kScatterChunks = 8; // the most of a row that a thread adds up: they share the search for its places
constexpr int64_t kRowsAtOnce = 4;    // that a thread reads before it adds them up

} // namespace

// Blocks over (kept leading dims, columns); a thread has some neighbouring columns of every `down`-th row.
void GpuKernel::emitColumns() {
  SplitLoops loops(shape);
  LoopDim suffix = loops.kept.back();
  ArrayRef<LoopDim> leading = ArrayRef<LoopDim>(loops.kept).drop_back();
  SmallVector<nn::ReduceOp> all = reductions();
  int64_t rows = countIterations(loops.reduced);
  GpuColumnShape columns = columnShapeOf(fusion, shape);
  setGrid(columns.blocks * countIterations(leading), columns.across * columns.down);
  if (countIterations(loops.kept) == 0) {
    return;
  }
  setIndex(leading, divide(block, columns.blocks));
  Value x = add(scale(remainder(block, columns.blocks), columns.across), remainder(thread, columns.across));
  Value first = scale(x, columns.lanes), isColumn;
  if (columns.blocks * columns.across * columns.lanes != suffix.size) {
    isColumn = isBelow(first, suffix.size);
  }
  // A thread without a column has no row.
  auto upTo = [&](int64_t row) -> Value {
    return isColumn ? Value(arith::SelectOp::create(b, isColumn, constant(row), zero)) : constant(row);
  };
  Chunk chunk = makeChunk({suffix}, first, columns.lanes);
  SmallVector<Value> neutral;
  for (nn::ReduceOp reduce : all) {
    neutral.append(columns.lanes, neutralOf(reduce));
  }
  auto addRows = [&](Value row, int64_t count, ArrayRef<Value> carried) {
    SmallVector<Value> next(carried);
    SmallVector<Pending> pending; // stored last, so that the reads of all rows are underway together
    for (int64_t i = 0; i < count; ++i) {
      setIndex(loops.reduced, i == 0 ? row : add(row, constant(i * columns.down)));
      chunk.index = index;
      forLanes(chunk, [&](unsigned lane) {
        for (auto [r, reduce] : llvm::enumerate(all)) {
          Value &sum = next[r * columns.lanes + lane];
          sum = combine(reduce, sum, scalars.emit(reduce.getInput(), index));
        }
      });
      computeFull(chunk, pending);
    }
    store(pending);
    return next;
  };
  // Some rows at a time, then what is left of them.
  int64_t step = columns.down * kRowsAtOnce, whole = rows - rows % step;
  Value firstRow = divide(thread, columns.across);
  SmallVector<Value> sums = neutral;
  if (whole > 0) {
    sums =
        emitFor(firstRow, upTo(whole), step, sums, [&](Value row, ArrayRef<Value> carried) { return addRows(row, kRowsAtOnce, carried); });
  }
  if (whole < rows) {
    Value first = whole == 0 ? firstRow : add(firstRow, constant(whole));
    sums = emitFor(first, upTo(rows), columns.down, sums, [&](Value row, ArrayRef<Value> carried) { return addRows(row, 1, carried); });
  }
  sums = combineDown(all, sums, columns.across, columns.down);
  Value isFirstRow = columns.down == 1 ? Value() : isBelow(thread, columns.across);
  emitIf(both(isFirstRow, isColumn), [&] {
    index[suffix.last] = first;
    for (auto [i, reduce] : llvm::enumerate(all)) {
      scalars.setLanes(chunk.lanes);
      scalars.storeLanes(ArrayRef<Value>(sums).slice(i * columns.lanes, columns.lanes), outputOf(reduce), shapeOf(reduce), indexOf(reduce));
    }
  });
}

// Blocks over (the batch, rows of the result, its columns), a warp each, which looks for the places of its row, 32 at a time, and adds up
// their updates in order.
void GpuKernel::emitScatter() {
  auto scatter = *body.getOps<nn::ScatterAddOp>().begin();
  SplitLoops loops(shape);
  int64_t batch = countIterations(loops.batch), rows = shapeOf(scatter)[shape.batchDims], places = countIterations(loops.reduced);
  int64_t columns = countIterations(loops.kept);
  int64_t lanes = lanesOf(fusion, shape, loops.kept), chunks = columns / lanes;
  int64_t perThread = std::clamp<int64_t>(llvm::divideCeil(chunks, kWarp), 1, kScatterChunks);
  int64_t blocksARow = llvm::divideCeil(chunks, kWarp * perThread);
  setGrid(batch * rows * blocksARow, kWarp);
  if (batch * rows * columns == 0) {
    return;
  }
  Value row = divide(block, blocksARow);
  if (batch > 1) {
    setIndex(loops.batch, divide(row, rows));
    row = remainder(row, rows);
  }
  SmallVector<Chunk> own;
  SmallVector<Value> isColumn; // of each chunk
  for (int64_t i = 0; i < perThread; ++i) {
    Value column = add(add(scale(remainder(block, blocksARow), perThread * kWarp), constant(i * kWarp)), thread);
    isColumn.push_back(chunks % (kWarp * perThread) == 0 ? Value() : isBelow(column, chunks));
    column = isColumn.back() ? arith::MinUIOp::create(b, column, constant(chunks - 1)).getResult() : column; // computed and not stored
    own.push_back(makeChunk(loops.kept, scale(column, lanes), lanes));
  }
  Type word = b.getI32Type();
  auto constantWord = [&](int32_t value) -> Value { return arith::ConstantIntOp::create(b, value, 32); };
  Value ownBit = arith::ShLIOp::create(b, constantWord(1), arith::IndexCastOp::create(b, word, thread));
  Value neutral = emitNeutral(b, Reduction::Sum, scatter.getType().getElementType());
  SmallVector<Value> sums =
      emitFor(zero, constant(places), kWarp, SmallVector<Value>(perThread * lanes, neutral), [&](Value from, ArrayRef<Value> carried) {
        // A bit for each of 32 places that holds the row; the warp's threads look at one each and share what they found.
        scalars.setLanes({});
        Value place = add(from, thread), isPlace = isBelow(place, places);
        setIndex(loops.reduced, arith::SelectOp::create(b, isPlace, place, zero));
        Value found = scalars.emitRow(scatter.getIndices(), Index(ArrayRef<Value>(index).take_front(shape.rowRank)));
        Value wanted = arith::IndexCastOp::create(b, found.getType(), row);
        Value isHit = arith::AndIOp::create(b, isPlace, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, found, wanted));
        Value hits = arith::SelectOp::create(b, isHit, ownBit, constantWord(0));
        for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
          hits = arith::OrIOp::create(b, hits, shuffle(hits, distance));
        }
        Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, hits, constantWord(0));
        Value last = arith::SelectOp::create(b, any, constant(kWarp), zero);
        return emitFor(zero, last, 1, carried, [&](Value bit, ArrayRef<Value> before) {
          Value isSet =
              arith::TruncIOp::create(b, b.getI1Type(), arith::ShRUIOp::create(b, hits, arith::IndexCastOp::create(b, word, bit)));
          Value hit = add(from, arith::SelectOp::create(b, isSet, bit, zero)); // place `from` is always there
          SmallVector<Value> after;
          for (Chunk &chunk : own) {
            index = chunk.index;
            setIndex(loops.reduced, hit);
            chunk.index = index;
            forLanes(chunk, [&](unsigned) {
              Value update = arith::SelectOp::create(b, isSet, scalars.emit(scatter.getUpdates(), index), neutral);
              after.push_back(emitCombine(b, Reduction::Sum, scatter.getType().getElementType(), before[after.size()], update));
            });
          }
          return after;
        });
      });
  for (auto [i, chunk] : llvm::enumerate(own)) {
    emitIf(isColumn[i], [&, i = i, &chunk = chunk] {
      Index at(ArrayRef<Value>(chunk.index).take_front(shape.batchDims));
      at.push_back(row);
      llvm::append_range(at, ArrayRef<Value>(chunk.index).drop_front(shape.rowRank));
      scalars.setLanes(chunk.lanes);
      scalars.storeLanes(ArrayRef<Value>(sums).slice(i * lanes, lanes), outputs.front(), scatter.getType().getShape(), at);
    });
  }
}

} // namespace ashlar::lower
