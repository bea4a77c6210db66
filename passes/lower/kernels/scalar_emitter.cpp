// SPDX-License-Identifier: Apache-2.0
//
// Element on demand: views move the index, element-wise ops compute, block arguments load.

#include "passes/lower/kernels/scalar_emitter.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"
#include "passes/lower/kernels/fusible.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// Buffers of at least this many elements begin on a boundary of 64 bytes; a smaller one may lie inside another.
constexpr int64_t kAlignedElements = 16;

Value indexConstant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

bool isZero(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantIndexOp>();
  return constant && constant.value() == 0;
}

// Returns the element as it is computed with, from its form in memory: a bool is a byte there.
Value fromMemory(ImplicitLocOpBuilder &b, Value element) {
  if (element.getType().isInteger(8)) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, element, arith::ConstantIntOp::create(b, 0, 8));
  }
  return isNarrowFloat(element.getType()) ? Value(arith::ExtFOp::create(b, b.getF32Type(), element)) : element;
}

// The other way; `type` is that in memory.
Value toMemory(ImplicitLocOpBuilder &b, Value element, Type type) {
  if (element.getType() == type) {
    return element;
  }
  return isNarrowFloat(type) ? Value(arith::TruncFOp::create(b, type, element)) : Value(arith::ExtUIOp::create(b, type, element));
}

// Whether the result needs no rounding when the operands have the type of the result.
bool isExact(Operation *op) {
  return isa<nn::AbsOp, nn::MaxOp, nn::MinOp, nn::NegOp, nn::ReluOp, nn::SelectOp, nn::SignOp>(op);
}

} // namespace

Type computedType(Type element) {
  return isNarrowFloat(element) ? Float32Type::get(element.getContext()) : element;
}

Value ScalarEmitter::linearize(ArrayRef<int64_t> shape, const Index &index) {
  Value linear;
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (!isZero(index[d])) {
      Value term = stride == 1 ? index[d] : arith::MulIOp::create(b, index[d], indexConstant(b, stride));
      linear = linear ? Value(arith::AddIOp::create(b, linear, term)) : term;
    }
    stride *= shape[d];
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

Value ScalarEmitter::load(Value memref, ArrayRef<int64_t> shape, const Index &index) {
  std::optional<unsigned> lane = laneOf(shape, index);
  if (!lane) {
    Type type = cast<MemRefType>(memref.getType()).getElementType();
    return fromMemory(b, guarded(memref, type, [&] { return memref::LoadOp::create(b, memref, linearize(shape, index)); }));
  }
  Index first = index;
  llvm::replace(first, lanes[*lane], lanes.front());
  return fromMemory(b, vector::ExtractOp::create(b, loadVector(memref, shape, first), static_cast<int64_t>(*lane)));
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
  if (auto found = memo.find(key); found != memo.end()) {
    return found->second;
  }
  Value element = compute(value, index);
  memo[key] = element;
  return element;
}

Value ScalarEmitter::compute(Value value, const Index &index) {
  if (Value scalar = scalars.lookup(value)) {
    return scalar;
  }
  if (Value memref = memrefs.lookup(value)) {
    return load(memref, shapeOf(value), index);
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
    element = emitScalarOp(b, op, operands);
    if (Type type = typeOf(value).getElementType(); isNarrowFloat(type) && !isExact(op)) {
      element = fromMemory(b, toMemory(b, element, type)); // two kernels that compute it round alike
    }
  }
  if (scratch != scratches.end()) {
    memref::StoreOp::create(b, element, scratch->second.first, scratchIndex);
  }
  return element;
}

Value ScalarEmitter::emitView(Operation *op, const Index &index) {
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    auto element = cast<TypedAttr>(constant.getValue().getSplatValue<Attribute>());
    if (isNarrowFloat(element.getType())) {
      element = b.getF32FloatAttr(static_cast<float>(cast<FloatAttr>(element).getValueAsDouble()));
    }
    return arith::ConstantOp::create(b, element);
  }
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
    Index source;
    for (int64_t dim : broadcast.getDims()) {
      source.push_back(index[dim]);
    }
    return emit(broadcast.getInput(), source);
  }
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    Index source(index.size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation())) {
      source[dim] = index[i];
    }
    return emit(transpose.getInput(), source);
  }
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    Index source;
    for (auto [d, i] : llvm::enumerate(index)) {
      Value scaled = arith::MulIOp::create(b, i, indexConstant(b, slice.getSteps()[d]));
      source.push_back(arith::AddIOp::create(b, scaled, indexConstant(b, slice.getStarts()[d])));
    }
    return emit(slice.getInput(), source);
  }
  if (auto iota = dyn_cast<nn::IndexOp>(op)) {
    Value sum = indexConstant(b, 0);
    for (auto [d, i] : llvm::enumerate(index)) {
      sum = arith::AddIOp::create(b, sum, arith::MulIOp::create(b, i, indexConstant(b, iota.getStrides()[d])));
    }
    return arith::IndexCastOp::create(b, b.getI64Type(), sum);
  }
  if (isa<nn::ConcatOp>(op)) {
    return emitConcat(op, index);
  }
  if (isa<nn::PadOp>(op)) {
    return emitPad(op, index);
  }
  if (isa<nn::GatherOp>(op)) {
    return emitGather(op, index);
  }
  return emitReshape(op, index);
}

// The operand whose range holds the index; the others are read at a clamped index and not selected.
Value ScalarEmitter::emitConcat(Operation *op, const Index &index) {
  auto concat = cast<nn::ConcatOp>(op);
  int64_t dim = concat.getDim(), offset = 0;
  Value element;
  for (Value input : concat.getInputs()) {
    int64_t size = shapeOf(input)[dim];
    if (size == 0) {
      continue;
    }
    Value local = arith::SubIOp::create(b, index[dim], indexConstant(b, offset));
    Index source = index;
    Value clamped = arith::MaxSIOp::create(b, local, indexConstant(b, 0));
    source[dim] = arith::MinSIOp::create(b, clamped, indexConstant(b, size - 1));
    Value candidate = emit(input, source);
    Value reached = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, local, indexConstant(b, 0));
    element = element ? Value(arith::SelectOp::create(b, reached, candidate, element)) : candidate;
    offset += size;
  }
  return element;
}

Value ScalarEmitter::emitPad(Operation *op, const Index &index) {
  auto pad = cast<nn::PadOp>(op);
  Value inside = arith::ConstantIntOp::create(b, 1, 1);
  Index source;
  for (auto [d, i] : llvm::enumerate(index)) {
    int64_t step = pad.getInterior()[d] + 1, size = shapeOf(pad.getInput())[d];
    Value shifted = arith::SubIOp::create(b, i, indexConstant(b, pad.getLow()[d]));
    Value notBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, shifted, indexConstant(b, 0));
    Value position = arith::DivUIOp::create(b, shifted, indexConstant(b, step));
    Value notAfter = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, indexConstant(b, size));
    Value remainder = arith::RemUIOp::create(b, shifted, indexConstant(b, step));
    Value onGrid = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, remainder, indexConstant(b, 0));
    Value here = arith::AndIOp::create(b, notBefore, arith::AndIOp::create(b, notAfter, onGrid));
    source.push_back(arith::SelectOp::create(b, here, position, indexConstant(b, 0)));
    inside = arith::AndIOp::create(b, inside, here);
  }
  Value element = emit(pad.getInput(), source);
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(element.getType()));
  return arith::SelectOp::create(b, inside, element, zero);
}

// The row with a number; row 0 is read in place of one that is not there, and not selected.
Value ScalarEmitter::emitGather(Operation *op, const Index &index) {
  auto gather = cast<nn::GatherOp>(op);
  int64_t rows = shapeOf(gather.getTable()).front();
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(computedType(gather.getType().getElementType())));
  if (rows == 0) {
    return zero;
  }
  size_t places = shapeOf(gather.getIndices()).size();
  Value row = emitRow(gather.getIndices(), Index(ArrayRef(index).take_front(places)));
  Value inside = emitIsRow(row, rows);
  Index source{arith::SelectOp::create(b, inside, emitRowIndex(row), indexConstant(b, 0))};
  llvm::append_range(source, ArrayRef(index).drop_front(places));
  return arith::SelectOp::create(b, inside, emit(gather.getTable(), source), zero);
}

Value ScalarEmitter::emitRow(Value indices, const Index &index) {
  return emit(indices, index);
}

Value ScalarEmitter::emitIsRow(Value row, int64_t rows) {
  Value limit = arith::ConstantOp::create(b, b.getIntegerAttr(row.getType(), rows));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, limit); // a negative one is a large unsigned one
}

Value ScalarEmitter::emitRowIndex(Value row) {
  return arith::IndexCastOp::create(b, b.getIndexType(), row);
}

Value ScalarEmitter::emitReshape(Operation *op, const Index &index) {
  auto reshape = cast<nn::ReshapeOp>(op);
  Value linear = linearize(shapeOf(reshape), index);
  ArrayRef<int64_t> shape = shapeOf(reshape.getInput());
  Index source(shape.size());
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    source[d] = d == 0 ? linear : Value(arith::RemUIOp::create(b, linear, indexConstant(b, shape[d])));
    if (d > 0) {
      linear = arith::DivUIOp::create(b, linear, indexConstant(b, shape[d]));
    }
  }
  return emit(reshape.getInput(), source);
}

} // namespace ashlar::lower
