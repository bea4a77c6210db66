// SPDX-License-Identifier: Apache-2.0
//
// Element on demand: views move the index, element-wise ops compute, block arguments load.

#include "passes/lower/kernels/scalar_emitter.h"

#include "dialects/nn/ops/scalar_code.h"
#include "dialects/support/element_type.h"
#include "dialects/support/integer_type.h"
#include "dialects/support/operands_first.h"
#include "dialects/support/tensor_values.h"
#include "passes/lower/kernels/fusible.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace ashlar::lower {

namespace {

// The terms of a sum may be reordered, so that it vectorizes. The sign of a sum that is 0 is lost.
constexpr arith::FastMathFlags kReordered = arith::FastMathFlags::reassoc | arith::FastMathFlags::nsz;

// Buffers of at least this many elements begin on a boundary of 64 bytes; a smaller one may lie inside another.
constexpr int64_t kAlignedElements = 16;

bool isZero(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantIndexOp>();
  return constant && constant.value() == 0;
}

// Returns the element of a tensor of `type` as it is computed with, from its form in memory: a bool is a byte there.
Value fromMemory(ImplicitLocOpBuilder &b, Value element, Type type) {
  if (type.isInteger(1)) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, element, arith::ConstantIntOp::create(b, 0, 8));
  }
  return isNarrowFloat(type) ? Value(arith::ExtFOp::create(b, b.getF32Type(), element)) : element;
}

// The other way; `type` is that in memory.
Value toMemory(ImplicitLocOpBuilder &b, Value element, Type type) {
  if (element.getType() == type) {
    return element;
  }
  return isNarrowFloat(type) ? Value(arith::TruncFOp::create(b, type, element)) : Value(arith::ExtUIOp::create(b, type, element));
}

} // namespace

Value indexConstant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

Value ScalarEmitter::linearize(ArrayRef<int64_t> shape, const Index &index) {
  // The outermost first, so that all but the last sum stay outside the innermost loop.
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * shape[d + 1];
  }
  Value linear;
  for (auto [d, stride] : llvm::enumerate(strides)) {
    if (!isZero(index[d])) {
      Value term = stride == 1 ? index[d] : arith::MulIOp::create(b, index[d], indexConstant(b, stride));
      linear = linear ? Value(arith::AddIOp::create(b, linear, term)) : term;
    }
  }
  return linear ? linear : indexConstant(b, 0);
}

std::optional<unsigned> ScalarEmitter::laneOf(ArrayRef<int64_t> shape, const Index &index) const {
  if (lanes.size() < 2 || ShapedType::getNumElements(shape) < kAlignedElements) {
    return std::nullopt;
  }
  std::optional<unsigned> lane;
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    auto found = llvm::find(lanes, index[d]);
    if (found != lanes.end()) {
      if (lane || stride != 1) {
        return std::nullopt;
      }
      lane = found - lanes.begin();
    } else if (!isZero(index[d]) && stride % static_cast<int64_t>(lanes.size()) != 0) {
      return std::nullopt;
    }
    stride *= shape[d];
  }
  return lane;
}

// What `read` reads of the memref, under the guard if there is one and it must be kept.
Value ScalarEmitter::guarded(Value memref, Type type, llvm::function_ref<Value()> read) {
  if (!guard || !overwritten.contains(memref)) {
    return read();
  }
  auto branch = scf::IfOp::create(b, TypeRange(type), guard, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard insertion(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, read());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, ValueRange(arith::ConstantOp::create(b, b.getZeroAttr(type))));
  return branch.getResult(0);
}

// The vector that holds all lanes; `index` is that of the first. Read once.
Value ScalarEmitter::loadVector(Value memref, ArrayRef<int64_t> shape, const Index &index) {
  std::pair<void *, std::vector<void *>> key{memref.getAsOpaquePointer(), {}};
  for (Value i : index) {
    key.second.push_back(i.getAsOpaquePointer());
  }
  Value &vector = memo[key];
  if (!vector) {
    Type element = cast<MemRefType>(memref.getType()).getElementType();
    int64_t count = lanes.size();
    VectorType type = VectorType::get({count}, element);
    vector = guarded(memref, type, [&] {
      return vector::LoadOp::create(b, type, memref, ValueRange(linearize(shape, index)), /*nontemporal=*/false,
                                    llvm::MaybeAlign(count * elementBytes(element)));
    });
  }
  return vector;
}

Value ScalarEmitter::load(Value memref, RankedTensorType type, const Index &index) {
  ArrayRef<int64_t> shape = type.getShape();
  std::optional<unsigned> lane = laneOf(shape, index);
  Value element;
  if (lane) {
    Index first = index;
    llvm::replace(first, lanes[*lane], lanes.front());
    element = vector::ExtractOp::create(b, loadVector(memref, shape, first), static_cast<int64_t>(*lane));
  } else {
    Type stored = cast<MemRefType>(memref.getType()).getElementType();
    element = guarded(memref, stored, [&] { return memref::LoadOp::create(b, memref, linearize(shape, index)); });
  }
  return fromMemory(b, element, type.getElementType());
}

void ScalarEmitter::store(Value element, Value memref, ArrayRef<int64_t> shape, const Index &index) {
  Value stored = toMemory(b, element, cast<MemRefType>(memref.getType()).getElementType());
  memref::StoreOp::create(b, stored, memref, linearize(shape, index));
}

void ScalarEmitter::storeLanes(ArrayRef<Value> elements, Value memref, ArrayRef<int64_t> shape, const Index &index) {
  if (elements.size() == 1) {
    return store(elements.front(), memref, shape, index);
  }
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  if (!laneOf(shape, index)) {
    for (auto [lane, element] : llvm::zip_equal(lanes, elements)) {
      Index at = index;
      llvm::replace(at, lanes.front(), lane);
      store(element, memref, shape, at);
    }
    return;
  }
  SmallVector<Value> stored = llvm::map_to_vector(elements, [&](Value element) { return toMemory(b, element, type); });
  int64_t count = elements.size();
  Value vector = vector::FromElementsOp::create(b, VectorType::get({count}, type), stored);
  vector::StoreOp::create(b, vector, memref, ValueRange(linearize(shape, index)), /*nontemporal=*/false,
                          llvm::MaybeAlign(count * elementBytes(type)));
}

Value ScalarEmitter::emit(Value value, const Index &index) {
  std::pair<void *, std::vector<void *>> key{value.getAsOpaquePointer(), {}};
  for (Value i : index) {
    key.second.push_back(i.getAsOpaquePointer());
  }
  auto isKnown = [&](Value known) {
    key.first = known.getAsOpaquePointer();
    return memo.count(key) != 0;
  };
  auto note = [&](Value computed) {
    Value element = compute(computed, index);
    key.first = computed.getAsOpaquePointer();
    memo[key] = element;
  };
  // A kernel may be a chain of many element-wise ops: operands first, so that compute() finds them.
  if (isComputed(value)) {
    walkOperandsFirst(
        value.getDefiningOp(),
        [&](Operation *op) {
          Value result = op->getResult(0);
          return shapeOf(result).size() == index.size() && isComputed(result) && !isKnown(result);
        },
        [&](Operation *op) { note(op->getResult(0)); });
  }
  if (!isKnown(value)) {
    note(value);
  }
  key.first = value.getAsOpaquePointer();
  return memo.at(key);
}

bool ScalarEmitter::isComputed(Value value) const {
  auto scratch = scratches.find(value);
  const bool isCopied = scratch != scratches.end() && scratch->second.second;
  Operation *op = value.getDefiningOp();
  return op && isElementwise(op) && !isCopied && !scalars.contains(value) && !memrefs.contains(value);
}

Value ScalarEmitter::compute(Value value, const Index &index) {
  if (Value scalar = scalars.lookup(value)) {
    return scalar;
  }
  if (Value memref = memrefs.lookup(value)) {
    return load(memref, typeOf(value), index);
  }
  auto scratch = scratches.find(value);
  if (scratch != scratches.end() && scratch->second.second) {
    return memref::LoadOp::create(b, scratch->second.first, scratchIndex);
  }
  Operation *op = value.getDefiningOp();
  Value element;
  if (!isElementwise(op)) {
    element = emitView(op, index);
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      // The seed, the counter and the stream of nn.random are scalars.
      operands.push_back(emit(operand, shapeOf(operand).empty() ? Index() : index));
    }
    element = cast<ScalarOpInterface>(op).buildScalar(b, operands);
    if (Type type = typeOf(value).getElementType(); isNarrowFloat(type) && !op->hasTrait<RoundsNothing>()) {
      element = fromMemory(b, toMemory(b, element, type), type); // two kernels that compute it round alike
    }
  }
  if (scratch != scratches.end()) {
    memref::StoreOp::create(b, element, scratch->second.first, scratchIndex);
  }
  return element;
}

Value emitCombine(ImplicitLocOpBuilder &b, Reduction kind, Type element, Value lhs, Value rhs) {
  if (kind == Reduction::Sum) {
    return nn::scalar::isFloat(lhs) ? Value(arith::AddFOp::create(b, lhs, rhs, kReordered)) : Value(arith::AddIOp::create(b, lhs, rhs));
  }
  return nn::scalar::extremum(b, kind == Reduction::Max, lhs, rhs, isUnsigned(element), kReordered);
}

Value emitNeutral(ImplicitLocOpBuilder &b, Reduction kind, Type element) {
  Type type = computedType(element);
  if (kind == Reduction::Sum) {
    return nn::scalar::constant(b, type, 0);
  }
  const bool isMax = kind == Reduction::Max;
  if (isa<FloatType>(type)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return nn::scalar::constant(b, type, isMax ? -kInfinity : kInfinity);
  }
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, isMax ? lowestInteger(element) : highestInteger(element)));
}

} // namespace ashlar::lower
