// SPDX-License-Identifier: Apache-2.0
//
// Reductions over rows and what is computed from them. A thread has the same elements of the row in every pass; a row past the last one is
// computed like the last one and not stored, so that the threads of a warp stay together for shuffles.

#include "passes/lower/kernels/gpu/gpu_kernel.h"

#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr int64_t kChunksAtOnce = 4; // of a row in loops: so many reads of a thread are underway together

} // namespace

void GpuKernel::emitRows() {
  SplitLoops loops(shape);
  int64_t rows = countIterations(loops.kept);
  RowPasses passes(body, shape.domain);
  GpuRowShape row = shareOutRows(rows, countIterations(loops.reduced), lanesOf(fusion, shape, loops.reduced), passes.heldBytes());
  setGrid(llvm::divideCeil(rows, row.rowsABlock), row.threads * row.rowsABlock);
  if (rows == 0) {
    return;
  }
  Value number = add(scale(block, row.rowsABlock), divide(thread, row.threads)), part = remainder(thread, row.threads), isRow;
  if (rows % row.rowsABlock != 0) {
    isRow = isBelow(number, rows);
    number = arith::MinUIOp::create(b, number, constant(rows - 1));
  }
  setIndex(loops.kept, number);
  if (row.inRegisters) {
    emitRowInRegisters(loops.reduced, passes, row, part, isRow);
  } else {
    emitRowInLoops(loops.reduced, passes, row, part);
  }
  SmallVector<Pending> pending = computeRowResults();
  if (!pending.empty()) {
    Value isFirst = row.threads == 1 ? Value() : Value(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part, zero));
    emitIf(both(isFirst, isRow), [&] { store(pending); });
  }
}

// Values of the row that can be computed by now are, once and not for each element.
void GpuKernel::emitRowValues(const RowPasses &passes, int64_t level) {
  leaveChunks();
  for (Operation &op : body.without_terminator()) {
    Value value = op.getResult(0);
    if (computesRowValue(op) && passes.levelOf(value) <= level) {
      scalars.emit(value, indexOf(value));
    }
  }
}

SmallVector<Value> GpuKernel::addChunk(ArrayRef<nn::ReduceOp> reductions, const Chunk &chunk, SmallVector<Value> sums) {
  forLanes(chunk, [&](unsigned) {
    for (auto [constReduce, sum] : llvm::zip_equal(reductions, sums)) {
      nn::ReduceOp reduce = constReduce;
      Value element = scalars.emit(reduce.getInput(), index);
      if (chunk.isInside) {
        element = arith::SelectOp::create(b, chunk.isInside, element, neutralOf(reduce));
      }
      sum = combine(reduce, sum, element);
    }
  });
  return sums;
}

void GpuKernel::finishPass(const RowPasses &passes, int64_t level, SmallVector<Value> sums, int64_t count) {
  SmallVector<nn::ReduceOp> reductions = passes.reductionsOf(level);
  for (auto [reduce, result] : llvm::zip_equal(reductions, combineThreads(reductions, std::move(sums), count))) {
    scalars.bindScalar(reduce, result);
  }
  emitRowValues(passes, level);
}

// Straight-line code: what a pass computed of an element the next one finds again.
void GpuKernel::emitRowInRegisters(ArrayRef<LoopDim> inner, const RowPasses &passes, const GpuRowShape &row, Value part, Value isRow) {
  int64_t elements = countIterations(inner);
  SmallVector<Chunk> chunks;
  for (int64_t c = 0; c < row.chunks; ++c) {
    Value first = scale(add(part, constant(c * row.threads)), row.lanes), isInside;
    if ((c + 1) * row.threads * row.lanes > elements) {
      isInside = isBelow(first, elements);
      first = arith::SelectOp::create(b, isInside, first, zero);
    }
    chunks.push_back(makeChunk(inner, first, row.lanes));
    chunks.back().isInside = isInside;
    chunks.back().isOwn = both(isInside, isRow);
  }
  emitRowValues(passes, /*level=*/0);
  for (int64_t level = 1; level <= passes.lastLevel(); ++level) {
    SmallVector<nn::ReduceOp> reductions = passes.reductionsOf(level);
    SmallVector<Value> sums = llvm::map_to_vector(reductions, [&](nn::ReduceOp reduce) { return neutralOf(reduce); });
    for (const Chunk &chunk : chunks) {
      sums = addChunk(reductions, chunk, std::move(sums));
    }
    finishPass(passes, level, std::move(sums), row.threads);
  }
  SmallVector<SmallVector<Pending>> results(chunks.size());
  for (auto [chunk, pending] : llvm::zip_equal(chunks, results)) {
    computeFull(chunk, pending);
  }
  for (auto [chunk, pending] : llvm::zip_equal(chunks, results)) {
    if (!pending.empty()) {
      emitIf(chunk.isOwn, [&, &pending = pending] { store(pending); });
    }
  }
}

SmallVector<Value> GpuKernel::forChunks(ArrayRef<LoopDim> inner, const GpuRowShape &row, Value part, ArrayRef<Value> carried,
                                        llvm::function_ref<SmallVector<Value>(ArrayRef<Chunk>, ArrayRef<Value>)> step) {
  int64_t elements = countIterations(inner), stride = row.threads * row.lanes;
  int64_t whole = elements - elements % (stride * kChunksAtOnce);
  Value first = scale(part, row.lanes);
  SmallVector<Value> values(carried);
  auto loop = [&](Value from, int64_t to, int64_t count) {
    values = emitFor(from, constant(to), stride * count, values, [&](Value at, ArrayRef<Value> inside) {
      SmallVector<Chunk> chunks;
      for (int64_t i = 0; i < count; ++i) {
        chunks.push_back(makeChunk(inner, i == 0 ? at : add(at, constant(i * stride)), row.lanes));
      }
      return step(chunks, inside);
    });
  };
  if (whole > 0) {
    loop(first, whole, kChunksAtOnce);
  }
  if (whole < elements) {
    loop(whole == 0 ? first : add(first, constant(whole)), elements, /*count=*/1);
  }
  return values;
}

// Loops over the chunks in each pass: reads and computes again. Such rows have a block each, so every row is one.
void GpuKernel::emitRowInLoops(ArrayRef<LoopDim> inner, const RowPasses &passes, const GpuRowShape &row, Value part) {
  emitRowValues(passes, /*level=*/0);
  for (int64_t level = 1; level <= passes.lastLevel(); ++level) {
    SmallVector<nn::ReduceOp> reductions = passes.reductionsOf(level);
    SmallVector<Value> neutral = llvm::map_to_vector(reductions, [&](nn::ReduceOp reduce) { return neutralOf(reduce); });
    SmallVector<Value> sums = forChunks(inner, row, part, neutral, [&](ArrayRef<Chunk> chunks, ArrayRef<Value> carried) {
      SmallVector<Value> next(carried);
      for (const Chunk &chunk : chunks) {
        next = addChunk(reductions, chunk, std::move(next));
      }
      return next;
    });
    finishPass(passes, level, std::move(sums), row.threads);
  }
  if (llvm::any_of(yielded(), [&](Value value) { return isFull(value); })) {
    forChunks(inner, row, part, {}, [&](ArrayRef<Chunk> chunks, ArrayRef<Value>) {
      SmallVector<Pending> pending;
      for (const Chunk &chunk : chunks) {
        computeFull(chunk, pending);
      }
      store(pending);
      return SmallVector<Value>();
    });
  }
}

} // namespace ashlar::lower
