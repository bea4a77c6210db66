// SPDX-License-Identifier: Apache-2.0
//
// Element on demand: views move the index, element-wise ops compute, block arguments load.

#include "passes/lower/scalar_emitter.h"

#include "dialects/support/tensor_values.h"
#include "passes/lower/fusible.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

Value indexConstant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

bool isZero(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantIndexOp>();
  return constant && constant.value() == 0;
}

} // namespace

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

Value ScalarEmitter::load(Value memref, ArrayRef<int64_t> shape, const Index &index) {
  return memref::LoadOp::create(b, memref, linearize(shape, index));
}

void ScalarEmitter::store(Value element, Value memref, ArrayRef<int64_t> shape, const Index &index) {
  if (element.getType().isInteger(1)) {
    element = arith::ExtUIOp::create(b, b.getI8Type(), element);
  }
  memref::StoreOp::create(b, element, memref, linearize(shape, index));
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
    Value element = load(memref, shapeOf(value), index);
    bool isBool = cast<RankedTensorType>(value.getType()).getElementType().isInteger(1);
    return isBool ? Value(arith::CmpIOp::create(b, arith::CmpIPredicate::ne, element, arith::ConstantIntOp::create(b, 0, 8))) : element;
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
      // The seed and the counter of nn.random are scalars.
      operands.push_back(emit(operand, shapeOf(operand).empty() ? Index() : index));
    }
    element = emitScalarOp(b, op, operands);
  }
  if (scratch != scratches.end()) {
    memref::StoreOp::create(b, element, scratch->second.first, scratchIndex);
  }
  return element;
}

Value ScalarEmitter::emitView(Operation *op, const Index &index) {
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    return arith::ConstantOp::create(b, cast<TypedAttr>(constant.getValue().getSplatValue<Attribute>()));
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
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(gather.getType().getElementType()));
  if (rows == 0) {
    return zero;
  }
  size_t places = shapeOf(gather.getIndices()).size();
  Value row = emitRow(gather.getIndices(), Index(ArrayRef(index).take_front(places)));
  Value inside = emitIsRow(row, rows);
  Index source{arith::SelectOp::create(b, inside, row, indexConstant(b, 0))};
  llvm::append_range(source, ArrayRef(index).drop_front(places));
  return arith::SelectOp::create(b, inside, emit(gather.getTable(), source), zero);
}

Value ScalarEmitter::emitRow(Value indices, const Index &index) {
  return arith::IndexCastOp::create(b, b.getIndexType(), emit(indices, index));
}

Value ScalarEmitter::emitIsRow(Value row, int64_t rows) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, indexConstant(b, rows)); // a negative one is a large unsigned one
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
