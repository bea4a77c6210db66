// SPDX-License-Identifier: Apache-2.0
//
// Combining values of several threads, always in one order: shuffles inside a warp, shared memory between warps.

#include "passes/lower/kernels/gpu/gpu_kernel.h"

#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace ashlar::lower {

SmallVector<Value> GpuKernel::combineThreads(ArrayRef<nn::ReduceOp> reductions, SmallVector<Value> values, int64_t count) {
  auto combineAcross = [&](int64_t size) {
    for (int64_t distance = size / 2; distance > 0; distance /= 2) {
      for (auto [reduce, value] : llvm::zip_equal(reductions, values)) {
        value = combine(reduce, value, shuffle(value, distance));
      }
    }
  };
  combineAcross(std::min(count, kWarp));
  if (count <= kWarp) {
    return values;
  }
  // Each reduction has a place of its own, so nobody has to wait before the next one writes.
  int64_t warps = count / kWarp;
  SmallVector<Value> shared;
  for (Value value : values) {
    shared.push_back(allocateShared(value.getType(), warps));
  }
  Value lane = remainder(thread, kWarp);
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, zero);
  emitIf(isFirst, [&] {
    for (auto [value, memory] : llvm::zip_equal(values, shared)) {
      memref::StoreOp::create(b, value, memory, divide(thread, kWarp));
    }
  });
  gpu::BarrierOp::create(b);
  for (auto [value, memory] : llvm::zip_equal(values, shared)) {
    value = memref::LoadOp::create(b, memory, remainder(lane, warps));
  }
  combineAcross(warps);
  return values;
}

// A tree: in each step the lower half of the rows takes in the upper half.
SmallVector<Value> GpuKernel::combineDown(ArrayRef<nn::ReduceOp> reductions, ArrayRef<Value> values, int64_t across, int64_t down) {
  if (down == 1) {
    return SmallVector<Value>(values);
  }
  size_t lanes = values.size() / reductions.size();
  SmallVector<Value> shared;
  for (Value value : values) {
    shared.push_back(allocateShared(value.getType(), across * down));
    memref::StoreOp::create(b, value, shared.back(), thread);
  }
  for (int64_t rows = down / 2; rows > 0; rows /= 2) {
    gpu::BarrierOp::create(b);
    emitIf(isBelow(thread, rows * across), [&] {
      Value other = add(thread, constant(rows * across));
      for (auto [i, memory] : llvm::enumerate(shared)) {
        Value mine = memref::LoadOp::create(b, memory, thread), theirs = memref::LoadOp::create(b, memory, other);
        memref::StoreOp::create(b, combine(reductions[i / lanes], mine, theirs), memory, thread);
      }
    });
  }
  SmallVector<Value> results;
  for (Value memory : shared) { // what the thread itself wrote last
    results.push_back(memref::LoadOp::create(b, memory, thread));
  }
  return results;
}

} // namespace ashlar::lower
