// SPDX-License-Identifier: Apache-2.0

#include "passes/lower/kernels/gpu/gpu_code.h"

#include "passes/lower/kernels/gpu/gpu_shape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr int64_t kSharedAlignment = 16; // of the widest access

} // namespace

Value GpuCode::add(Value lhs, Value rhs) {
  return arith::AddIOp::create(b, lhs, rhs);
}

Value GpuCode::scale(Value value, int64_t by) {
  return by == 1 ? value : Value(arith::MulIOp::create(b, value, constant(by)));
}

Value GpuCode::isBelow(Value value, int64_t limit) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, value, constant(limit));
}

Value GpuCode::divide(Value value, int64_t by) {
  return by == 1 ? value : Value(arith::DivUIOp::create(b, value, constant(by)));
}

Value GpuCode::remainder(Value value, int64_t by) {
  return by == 1 ? zero : Value(arith::RemUIOp::create(b, value, constant(by)));
}

Value GpuCode::both(Value lhs, Value rhs) {
  if (!lhs || !rhs) {
    return lhs ? lhs : rhs;
  }
  return arith::AndIOp::create(b, lhs, rhs);
}

void GpuCode::setGrid(int64_t blocks, int64_t threadsABlock) {
  threads = threadsABlock;
  setExtent(std::max<int64_t>(1, blocks), threads);
  block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
}

void GpuCode::emitIf(Value condition, llvm::function_ref<void()> then) {
  if (!condition) {
    then();
    return;
  }
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  ScalarEmitter::Memo saved = scalars.save();
  b.setInsertionPointToStart(branch.thenBlock());
  then();
  scalars.restore(std::move(saved));
}

SmallVector<Value> GpuCode::emitFor(Value first, Value limit, int64_t stride, ArrayRef<Value> carried,
                                    llvm::function_ref<SmallVector<Value>(Value, ArrayRef<Value>)> step) {
  auto loop = scf::ForOp::create(b, first, limit, constant(stride), carried);
  OpBuilder::InsertionGuard guard(b);
  ScalarEmitter::Memo saved = scalars.save();
  Index savedIndex = index;
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> inner(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  SmallVector<Value> next = step(loop.getInductionVar(), inner);
  if (!next.empty()) {
    scf::YieldOp::create(b, next);
  }
  index = savedIndex;
  scalars.restore(std::move(saved));
  return SmallVector<Value>(loop.getResults());
}

// A shuffle moves 32 bits.
Value GpuCode::shuffle(Value value, int64_t distance) {
  Type type = value.getType();
  if (type.getIntOrFloatBitWidth() == 32) {
    return gpu::ShuffleOp::create(b, value, static_cast<int32_t>(distance), static_cast<int32_t>(kWarp), gpu::ShuffleMode::XOR)
        .getShuffleResult();
  }
  Type word = b.getI32Type(), wide = b.getI64Type();
  if (type.getIntOrFloatBitWidth() < 32) {
    return arith::TruncIOp::create(b, type, shuffle(arith::ExtUIOp::create(b, word, value), distance));
  }
  Value bits = isa<FloatType>(type) ? Value(arith::BitcastOp::create(b, wide, value)) : value;
  Value half = arith::ConstantIntOp::create(b, 32, 64);
  Value low = shuffle(arith::TruncIOp::create(b, word, bits), distance);
  Value high = shuffle(arith::TruncIOp::create(b, word, arith::ShRUIOp::create(b, bits, half)), distance);
  high = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, wide, high), half);
  Value moved = arith::OrIOp::create(b, high, arith::ExtUIOp::create(b, wide, low));
  return isa<FloatType>(type) ? Value(arith::BitcastOp::create(b, type, moved)) : moved;
}

Value GpuCode::allocateShared(Type element, int64_t size) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  return memref::AllocaOp::create(b, MemRefType::get({size}, element, MemRefLayoutAttrInterface(), space),
                                  b.getI64IntegerAttr(kSharedAlignment));
}

} // namespace ashlar::lower
