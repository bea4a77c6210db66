// SPDX-License-Identifier: Apache-2.0
//
// The cpu nests that add into their results: columns and scatter.

#include "passes/lower/kernels/cpu/cpu_kernel.h"

#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// Streams that a column reduction reads and writes side by side: rows a pass over its accumulators, times full operands and results. Rows
// are often a power of two apart, so more streams would fall into the same few sets of the first cache.
constexpr int64_t kColumnStreams = 8;

} // namespace

//===-- Columns -----------------------------------------------------------------------------------------------------------------------===//

void CpuKernel::emitColumns() {
  bool hasSuffix = !shape.loops.back().reduced;
  SplitLoops loops(shape);
  LoopDim suffix = loops.kept.back();
  ArrayRef<LoopDim> reduced = loops.reduced, kept = ArrayRef<LoopDim>(loops.kept).drop_back(hasSuffix ? 1 : 0);
  bool suffixIsParallel = kept.empty();
  int64_t unit = countIterations(reduced) * countIterations(kept.drop_front(kept.empty() ? 0 : 1));
  setParallel(suffixIsParallel ? suffix.size : kept.front().size, suffixIsParallel || !hasSuffix ? unit : unit * suffix.size);
  if (suffixIsParallel) {
    alignGrain();
  }
  nest(kept, /*parallel=*/!suffixIsParallel, [&] {
    if (hasSuffix) {
      accumulateInMemory(reduced, suffix, suffixIsParallel);
    } else {
      accumulateInRegisters(reduced);
    }
  });
}

// No dim is kept inside the reduced ones: one scalar a reduction.
void CpuKernel::accumulateInRegisters(ArrayRef<LoopDim> reduced) {
  SmallVector<nn::ReduceOp> all = reductions();
  SmallVector<Value> neutral = llvm::map_to_vector(all, [&](nn::ReduceOp reduce) { return neutralOf(reduce); });
  SmallVector<Value> results = reduceNest(reduced, neutral, [&](ArrayRef<Value> carried) {
    SmallVector<Value> next = addElements(all, carried);
    storeResults(/*full=*/true);
    return next;
  });
  for (auto [reduce, result] : llvm::zip_equal(all, results)) {
    scalars.store(result, outputOf(reduce), reduce.getType().getShape(), indexOf(reduce));
  }
}

// The number of rows added in one pass over the accumulators.
int64_t CpuKernel::rowsAPass() {
  auto full = [&](Value value) { return isFull(value); };
  int64_t streams = llvm::count_if(body.getArguments(), full) + llvm::count_if(yielded(), full);
  return std::max<int64_t>(1, kColumnStreams / std::max<int64_t>(1, streams));
}

// The suffix is innermost: the results hold a row of accumulators, and each pass over it adds some rows.
void CpuKernel::accumulateInMemory(ArrayRef<LoopDim> reduced, const LoopDim &suffix, bool parallel) {
  nest({suffix}, parallel, [&] {
    for (nn::ReduceOp reduce : reductions()) {
      scalars.store(neutralOf(reduce), outputOf(reduce), reduce.getType().getShape(), indexOf(reduce));
    }
  });
  LoopDim innermost = reduced.back();
  nest(reduced.drop_back(), /*parallel=*/false, [&] {
    int64_t unroll = rowsAPass();
    int64_t whole = innermost.size - innermost.size % unroll;
    if (whole > 0) {
      auto loop = scf::ForOp::create(b, zero, constant(whole), constant(unroll));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      addRows(innermost, suffix, parallel, loop.getInductionVar(), unroll);
    }
    if (whole < innermost.size) {
      addRows(innermost, suffix, parallel, constant(whole), innermost.size - whole);
    }
  });
}

void CpuKernel::addRows(const LoopDim &innermost, const LoopDim &suffix, bool parallel, Value first, int64_t count) {
  SmallVector<Value> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(i == 0 ? first : Value(arith::AddIOp::create(b, first, constant(i))));
  }
  nest({suffix}, parallel, [&] {
    SmallVector<nn::ReduceOp> all = reductions();
    SmallVector<Value> sums;
    for (nn::ReduceOp reduce : all) {
      sums.push_back(scalars.load(outputOf(reduce), reduce.getType(), indexOf(reduce)));
    }
    for (Value row : rows) {
      index[innermost.last] = row;
      sums = addElements(all, sums);
      storeResults(/*full=*/true);
    }
    index[innermost.last] = zero;
    for (auto [sum, reduce] : llvm::zip_equal(sums, all)) {
      scalars.store(sum, outputOf(reduce), reduce.getType().getShape(), indexOf(reduce));
    }
  });
}

//===-- Scatter ---------------------------------------------------------------------------------------------------------------------===//

// The current index of the result in the given row.
KernelNest::Index CpuKernel::indexInRow(Value row) {
  Index result(ArrayRef<Value>(index).take_front(shape.batchDims));
  result.push_back(row);
  llvm::append_range(result, ArrayRef<Value>(index).drop_front(shape.rowRank));
  return result;
}

// Zeros, then the updates in the order of their places. Parallel over the batch or the columns, of which there are more, so one thread sums
// all of an element.
void CpuKernel::emitScatter() {
  auto scatter = *body.getOps<nn::ScatterAddOp>().begin();
  ArrayRef<int64_t> result = scatter.getType().getShape();
  SplitLoops loops(shape);
  ArrayRef<LoopDim> batch = loops.batch, columns = loops.kept, places = loops.reduced;
  const bool batchIsParallel = !batch.empty() && (columns.empty() || batch.front().size >= columns.front().size);
  const int64_t rows = result[shape.batchDims], unit = rows + countIterations(places);
  if (batchIsParallel) {
    setParallel(batch.front().size, unit * countIterations(batch.drop_front()) * countIterations(columns));
  } else if (!columns.empty()) {
    setParallel(columns.front().size, unit * countIterations(batch) * countIterations(columns.drop_front()));
    if (columns.size() == 1) {
      alignGrain();
    }
  }
  nest(batch, batchIsParallel, [&] {
    fillRows(columns, /*parallel=*/!batchIsParallel, result, emitNeutral(b, Reduction::Sum, scatter.getType().getElementType()));
    nest(places, /*parallel=*/false, [&] {
      Value row = scalars.emitRow(scatter.getIndices(), Index(ArrayRef<Value>(index).take_front(shape.rowRank)));
      auto branch = scf::IfOp::create(b, scalars.emitIsRow(row, rows), /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      ScalarEmitter::Memo saved = scalars.save();
      b.setInsertionPointToStart(branch.thenBlock());
      Value at = scalars.emitRowIndex(row);
      nest(columns, /*parallel=*/!batchIsParallel, [&] {
        Value sum = scalars.load(outputs.front(), scatter.getType(), indexInRow(at));
        sum = emitCombine(b, Reduction::Sum, scatter.getType().getElementType(), sum, scalars.emit(scatter.getUpdates(), index));
        scalars.store(sum, outputs.front(), result, indexInRow(at));
      });
      scalars.restore(std::move(saved));
    });
  });
}

void CpuKernel::fillRows(ArrayRef<LoopDim> columns, bool parallel, ArrayRef<int64_t> result, Value element) {
  auto rows = scf::ForOp::create(b, zero, constant(result[shape.batchDims]), constant(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rows.getBody());
  nest(columns, parallel, [&] { scalars.store(element, outputs.front(), result, indexInRow(rows.getInductionVar())); });
}

} // namespace ashlar::lower
