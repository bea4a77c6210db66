// SPDX-License-Identifier: Apache-2.0
//
// The place of a thread in the grid, its chunks of elements, and the nest over a whole domain.

#include "passes/lower/kernels/gpu/gpu_kernel.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ashlar::lower {

void GpuKernel::emit() {
  bool hasSuffix = !shape.loops.empty() && !shape.loops.back().reduced;
  switch (fusion.getKind()) {
  case exec::FusionKind::Loop:
    emitLoop();
    break;
  case exec::FusionKind::Scatter:
    emitScatter();
    break;
  case exec::FusionKind::Columns:
    // Where the innermost dim is reduced, the elements of one column are shared out as those of a row are.
    hasSuffix ? emitColumns() : emitRows();
    break;
  default:
    emitRows();
    break;
  }
  func::ReturnOp::create(b);
}

void GpuKernel::setIndex(ArrayRef<LoopDim> loops, Value flat) {
  for (size_t i = loops.size(); i-- > 0;) {
    index[loops[i].last] = i == 0 ? flat : remainder(flat, loops[i].size);
    flat = i == 0 ? flat : divide(flat, loops[i].size);
  }
}

GpuKernel::Chunk GpuKernel::makeChunk(ArrayRef<LoopDim> loops, Value first, int64_t count) {
  setIndex(loops, first);
  Chunk chunk;
  chunk.index = index;
  if (loops.empty()) {
    chunk.lanes = {zero};
    return chunk;
  }
  chunk.dim = loops.back().last;
  for (int64_t lane = 0; lane < count; ++lane) {
    chunk.lanes.push_back(lane == 0 ? index[*chunk.dim] : add(index[*chunk.dim], constant(lane)));
  }
  return chunk;
}

void GpuKernel::enter(const Chunk &chunk) {
  index = chunk.index;
  scalars.setLanes(chunk.lanes);
  scalars.setGuard(chunk.isOwn);
}

void GpuKernel::leaveChunks() {
  scalars.setLanes({});
  scalars.setGuard({});
}

void GpuKernel::forLanes(const Chunk &chunk, llvm::function_ref<void(unsigned)> emitLane) {
  enter(chunk);
  for (auto [i, lane] : llvm::enumerate(chunk.lanes)) {
    if (chunk.dim) {
      index[*chunk.dim] = lane;
    }
    emitLane(i);
  }
  index = chunk.index;
}

void GpuKernel::computeFull(const Chunk &chunk, SmallVectorImpl<Pending> &pending) {
  for (auto [i, value] : llvm::enumerate(yielded())) {
    if (isFull(value)) {
      Pending result{static_cast<unsigned>(i), chunk.index, chunk.lanes, {}};
      forLanes(chunk, [&, value = value](unsigned) { result.elements.push_back(scalars.emit(value, index)); });
      pending.push_back(std::move(result));
    }
  }
}

SmallVector<GpuKernel::Pending> GpuKernel::computeRowResults() {
  SmallVector<Pending> pending;
  leaveChunks();
  for (auto [i, value] : llvm::enumerate(yielded())) {
    if (!isFull(value)) {
      Index at = indexOf(value);
      pending.push_back({static_cast<unsigned>(i), at, {}, {scalars.emit(value, at)}});
    }
  }
  return pending;
}

void GpuKernel::store(ArrayRef<Pending> pending) {
  for (const Pending &result : pending) {
    scalars.setLanes(result.lanes);
    scalars.storeLanes(result.elements, outputs[result.result], shapeOf(yielded()[result.result]), result.index);
  }
}

// One chunk a thread. A flat domain that is no whole number of chunks ends with single elements.
void GpuKernel::emitLoop() {
  int64_t elements = ShapedType::getNumElements(shape.domain);
  bool isFlat = shape.loops.size() == 1;
  int64_t lanes = isFlat ? widestAccess(fusion, shape) : lanesOf(fusion, shape, shape.loops);
  int64_t chunks = llvm::divideCeil(elements, lanes);
  setGrid(llvm::divideCeil(chunks, kLoopThreads), std::clamp<int64_t>(llvm::alignTo(chunks, kWarp), kWarp, kLoopThreads));
  Value first = scale(add(scale(block, threads), thread), lanes);
  auto emitChunk = [&](Value from, int64_t count) {
    SmallVector<Pending> pending;
    computeFull(makeChunk(shape.loops, from, count), pending);
    store(pending);
  };
  int64_t whole = elements - elements % lanes;
  if (whole > 0) {
    bool fillsGrid = whole % (lanes * threads) == 0 && whole == elements;
    emitIf(fillsGrid ? Value() : isBelow(first, whole), [&] { emitChunk(first, lanes); });
  }
  if (whole < elements) {
    Value isTail = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, first, constant(whole));
    emitIf(isTail, [&] {
      emitFor(first, constant(elements), 1, {}, [&](Value at, ArrayRef<Value>) {
        emitChunk(at, 1);
        return SmallVector<Value>();
      });
    });
  }
}

} // namespace ashlar::lower
