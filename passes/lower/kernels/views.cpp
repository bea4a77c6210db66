// SPDX-License-Identifier: Apache-2.0
//
// Views in a kernel: which element of its operand a view reads, and about how many instructions that takes.

#include "passes/lower/kernels/kernel_size.h"
#include "passes/lower/kernels/scalar_emitter.h"

#include "dialects/nn/windows/window_views.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {

int64_t codeOfView(Operation &op) {
  int64_t rank = typeOf(op.getResult(0)).getRank();
  return llvm::TypeSwitch<Operation *, int64_t>(&op)
      .Case<nn::IndexOp, nn::SliceOp>([&](auto) { return 2 * rank + 1; })
      .Case([&](nn::PadOp) { return 9 * rank + 2; })
      .Case([](nn::WindowsOp windows) { return 6 * static_cast<int64_t>(windows.getDims().size()) + 2; })
      .Case([](nn::UnwindowsOp unwindows) { return 10 * static_cast<int64_t>(unwindows.getDims().size()) + 2; })
      .Case([](nn::ConcatOp concat) { return 5 * static_cast<int64_t>(concat.getInputs().size()); })
      .Default([](Operation *) { return 1; });
}

Value ScalarEmitter::emitView(Operation *op, const Index &index) {
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    auto element = cast<TypedAttr>(constant.getValue().getSplatValue<Attribute>());
    if (isNarrowFloat(element.getType())) {
      element = b.getF32FloatAttr(static_cast<float>(cast<FloatAttr>(element).getValueAsDouble()));
    }
    if (auto integer = dyn_cast<IntegerAttr>(element)) { // arith knows no signs
      element = b.getIntegerAttr(computedType(integer.getType()), integer.getValue());
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
    return emitNumber(iota, index);
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
  if (isa<nn::WindowsOp>(op)) {
    return emitWindows(op, index);
  }
  if (isa<nn::UnwindowsOp>(op)) {
    return emitUnwindows(op, index);
  }
  return emitReshape(op, index);
}

// In 64 bits where an index, which may have 32, does not hold all numbers of the op: places in a tensor that nobody has.
Value ScalarEmitter::emitNumber(Operation *op, const Index &index) {
  auto iota = cast<nn::IndexOp>(op);
  constexpr __int128 kSmall = 1 << 30;
  __int128 largest = 0;
  for (auto [size, stride] : llvm::zip_equal(shapeOf(iota), iota.getStrides())) {
    largest += __int128(std::max<int64_t>(size - 1, 0)) * std::abs(stride);
  }
  Type wide = b.getI64Type(), type = largest < kSmall ? Type(b.getIndexType()) : wide;
  auto in = [&](Value value) { return type == wide ? Value(arith::IndexCastOp::create(b, wide, value)) : value; };
  Value sum = arith::ConstantOp::create(b, b.getIntegerAttr(type, 0));
  for (auto [i, stride] : llvm::zip_equal(index, iota.getStrides())) {
    Value factor = arith::ConstantOp::create(b, b.getIntegerAttr(type, stride));
    sum = arith::AddIOp::create(b, sum, arith::MulIOp::create(b, in(i), factor));
  }
  return type == wide ? sum : Value(arith::IndexCastOp::create(b, wide, sum));
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

namespace {

// An index that is read only where `inside` holds; a condition that holds everywhere is null.
struct GuardedIndex {
  Value at;
  Value inside;
};

Value both(ImplicitLocOpBuilder &b, Value x, Value y) {
  return x && y ? Value(arith::AndIOp::create(b, x, y)) : x ? x : y;
}

// Keeps `at` within [0, size): 0 is read where it is not. One comparison: a negative index is a large unsigned one.
GuardedIndex within(ImplicitLocOpBuilder &b, Value at, int64_t size, Value holds) {
  Value below = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, at, indexConstant(b, size));
  Value inside = both(b, holds, below);
  return {arith::SelectOp::create(b, inside, at, indexConstant(b, 0)), inside};
}

// The element of the dim at a place of a window.
GuardedIndex elementOf(ImplicitLocOpBuilder &b, nn::WindowAttr window, int64_t size, Value position, Value k) {
  Value from = arith::MulIOp::create(b, position, indexConstant(b, window.getStride()));
  Value offset = arith::MulIOp::create(b, k, indexConstant(b, window.getDilation()));
  Value at = arith::AddIOp::create(b, from, offset);
  at = window.getLow() == 0 ? at : Value(arith::SubIOp::create(b, at, indexConstant(b, window.getLow())));
  int64_t last = window.elementAt(*window.countPositions(size) - 1, window.getSize() - 1);
  return window.getLow() <= 0 && last < size ? GuardedIndex{at, Value()} : within(b, at, size, Value());
}

// The position whose window has an element at a place.
GuardedIndex positionOf(ImplicitLocOpBuilder &b, nn::WindowAttr window, int64_t positions, Value element, Value k) {
  Value offset = arith::MulIOp::create(b, k, indexConstant(b, window.getDilation()));
  Value shifted = arith::AddIOp::create(b, element, indexConstant(b, window.getLow()));
  Value steps = arith::SubIOp::create(b, shifted, offset);
  if (window.getStride() == 1) {
    return within(b, steps, positions, Value());
  }
  // A negative number of steps is a large unsigned one, and so is its quotient.
  Value stride = indexConstant(b, window.getStride());
  Value remainder = arith::RemUIOp::create(b, steps, stride);
  Value holds = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, remainder, indexConstant(b, 0));
  return within(b, arith::DivUIOp::create(b, steps, stride), positions, holds);
}

} // namespace

// The element that stands at a place of a window; one that is read in its stead is not selected.
Value ScalarEmitter::emitWindows(Operation *op, const Index &index) {
  auto windows = cast<nn::WindowsOp>(op);
  ArrayRef<int64_t> dims = windows.getDims();
  size_t first = dims.back() + 1;
  Index source(ArrayRef(index).take_front(first));
  llvm::append_range(source, ArrayRef(index).drop_front(first + dims.size()));
  Value inside;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    int64_t size = shapeOf(windows.getInput())[dim];
    GuardedIndex element = elementOf(b, nn::windowAt(windows.getWindows(), i), size, index[dim], index[first + i]);
    source[dim] = element.at;
    inside = both(b, inside, element.inside);
  }
  return selectOrZero(inside, emit(windows.getInput(), source));
}

Value ScalarEmitter::emitUnwindows(Operation *op, const Index &index) {
  auto unwindows = cast<nn::UnwindowsOp>(op);
  size_t first = unwindows.getDims().back() + 1;
  Index source = index;
  Value inside;
  for (auto [i, dim] : llvm::enumerate(unwindows.getDims())) {
    int64_t positions = shapeOf(unwindows.getInput())[dim];
    GuardedIndex position = positionOf(b, nn::windowAt(unwindows.getWindows(), i), positions, index[dim], index[first + i]);
    source[dim] = position.at;
    inside = both(b, inside, position.inside);
  }
  return selectOrZero(inside, emit(unwindows.getInput(), source));
}

// The element where the condition holds, null for everywhere, 0 elsewhere.
Value ScalarEmitter::selectOrZero(Value condition, Value element) {
  if (!condition) {
    return element;
  }
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(element.getType()));
  return arith::SelectOp::create(b, condition, element, zero);
}

// The row with a number; row 0 is read in place of one that is not there, and not selected.
Value ScalarEmitter::emitGather(Operation *op, const Index &index) {
  auto gather = cast<nn::GatherOp>(op);
  const auto batch = static_cast<size_t>(gather.getBatchDims());
  int64_t rows = shapeOf(gather.getTable())[batch];
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(computedType(gather.getType().getElementType())));
  if (rows == 0) {
    return zero;
  }
  size_t places = shapeOf(gather.getIndices()).size();
  Value row = emitRow(gather.getIndices(), Index(ArrayRef(index).take_front(places)));
  Value inside = emitIsRow(row, rows);
  Index source(ArrayRef(index).take_front(batch));
  source.push_back(arith::SelectOp::create(b, inside, emitRowIndex(row), indexConstant(b, 0)));
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
