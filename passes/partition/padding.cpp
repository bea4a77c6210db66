// SPDX-License-Identifier: Apache-2.0
//
// Lengthening, shortening and masking of padded dims, in nn ops on local values.

#include "passes/partition/padding.h"

#include "dialects/nn/nn.h"
#include "dialects/support/integer_type.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::partition {

namespace {

Value reshape(ImplicitLocOpBuilder &b, Value value, ArrayRef<int64_t> shape) {
  RankedTensorType type = typeOf(value).clone(shape);
  return type == value.getType() ? value : nn::ReshapeOp::create(b, type, value).getResult();
}

// Cuts `dim` into `outer` rows.
Value splitDim(ImplicitLocOpBuilder &b, Value value, int64_t dim, int64_t outer) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] /= outer;
  shape.insert(shape.begin() + dim, outer);
  return reshape(b, value, shape);
}

// Joins `dim` with the one after it.
Value mergeDim(ImplicitLocOpBuilder &b, Value value, int64_t dim) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] *= shape[dim + 1];
  shape.erase(shape.begin() + dim + 1);
  return reshape(b, value, shape);
}

// Makes `dim` as long as `size`: zeros after its end, or cut off.
Value resizeDim(ImplicitLocOpBuilder &b, Value value, int64_t dim, int64_t size) {
  RankedTensorType type = typeOf(value);
  SmallVector<int64_t> shape(type.getShape()), zeros(type.getRank(), 0), ones(type.getRank(), 1);
  int64_t before = std::exchange(shape[dim], size);
  if (before == size) {
    return value;
  }
  return before < size ? nn::PadOp::create(b, type.clone(shape), value, zeros, zeros).getResult()
                       : nn::SliceOp::create(b, value, zeros, shape, ones).getResult();
}

Value emitScalar(ImplicitLocOpBuilder &b, int64_t value) {
  return nn::ConstantOp::create(b, DenseElementsAttr::get(RankedTensorType::get({}, b.getI64Type()), value));
}

Value emitAxisIndex(ImplicitLocOpBuilder &b, ArrayRef<StringAttr> axes) {
  return dist::AxisIndexOp::create(b, RankedTensorType::get({}, b.getI64Type()), dist::toAttr(b.getContext(), axes));
}

Value broadcastScalar(ImplicitLocOpBuilder &b, RankedTensorType type, Value scalar) {
  return nn::BroadcastOp::create(b, type, scalar, ArrayRef<int64_t>());
}

} // namespace

DenseElementsAttr neutralElements(RankedTensorType type, Reduction reduction) {
  if (reduction == Reduction::Sum) {
    return nn::splat(type, 0);
  }
  bool smallest = reduction == Reduction::Max;
  if (auto real = dyn_cast<FloatType>(type.getElementType())) {
    return DenseElementsAttr::get(type, APFloat::getInf(real.getFloatSemantics(), /*Negative=*/smallest));
  }
  return DenseElementsAttr::get(type, smallest ? lowestInteger(type.getElementType()) : highestInteger(type.getElementType()));
}

Value padToPieces(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value value, int64_t dim, ArrayRef<StringAttr> axes) {
  int64_t size = typeOf(value).getDimSize(dim);
  if (dist::isEven(mesh, size, axes)) {
    return value;
  }
  SmallVector<int64_t> pieces = dist::pieceSizes(mesh, size, axes);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    value = resizeDim(b, value, dim + i, mesh.axisSize(axis) * pieces[i]);
    if (i + 1 < axes.size()) {
      value = splitDim(b, value, dim + i, mesh.axisSize(axis));
    }
  }
  for (size_t i = axes.size() - 1; i-- > 0;) {
    value = mergeDim(b, value, dim + i);
  }
  return value;
}

Value trimPieces(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value value, int64_t dim, int64_t size, ArrayRef<StringAttr> axes) {
  if (dist::isEven(mesh, size, axes)) {
    return value;
  }
  SmallVector<int64_t> pieces = dist::pieceSizes(mesh, size, axes);
  for (auto [i, axis] : llvm::enumerate(axes.drop_back())) {
    value = splitDim(b, value, dim + i, mesh.axisSize(axis));
  }
  for (size_t i = axes.size(); i-- > 0;) {
    value = resizeDim(b, value, dim + i, i == 0 ? size : pieces[i - 1]);
    if (i > 0) {
      value = mergeDim(b, value, dim + i - 1);
    }
  }
  return value;
}

Value emitPieceStart(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, int64_t size, ArrayRef<StringAttr> axes, int64_t stride) {
  SmallVector<int64_t> pieces = dist::pieceSizes(mesh, size, axes);
  if (dist::isEven(mesh, size, axes)) { // equal steps: one number counts along all axes
    return nn::MulOp::create(b, emitAxisIndex(b, axes), emitScalar(b, pieces.back() * stride));
  }
  Value start;
  for (auto [axis, piece] : llvm::zip_equal(axes, pieces)) {
    Value step = nn::MulOp::create(b, emitAxisIndex(b, {axis}), emitScalar(b, piece * stride));
    start = start ? nn::AddOp::create(b, start, step).getResult() : step;
  }
  return start;
}

namespace {

// Returns, as a scalar, how many elements of the device's piece are no padding; not positive when all are.
Value emitPieceCount(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, int64_t size, ArrayRef<StringAttr> axes) {
  // The piece begins at `start`; no padding are its elements before the end of the dim and of each piece that it is cut from.
  Value end = emitScalar(b, size);
  for (size_t i = 1; i < axes.size(); ++i) {
    ArrayRef<StringAttr> majors = axes.take_front(i);
    Value pieceEnd =
        nn::AddOp::create(b, emitPieceStart(b, mesh, size, majors), emitScalar(b, dist::pieceSizes(mesh, size, majors).back()));
    end = nn::MinOp::create(b, end, pieceEnd);
  }
  return nn::SubOp::create(b, end, emitPieceStart(b, mesh, size, axes));
}

} // namespace

Value maskPadding(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value value, int64_t dim, int64_t size, ArrayRef<StringAttr> axes,
                  DenseElementsAttr filler) {
  Value count = emitPieceCount(b, mesh, size, axes);
  RankedTensorType type = typeOf(value), indexType = type.clone(b.getI64Type());
  SmallVector<int64_t> strides(type.getRank(), 0);
  strides[dim] = 1;
  Value position = nn::IndexOp::create(b, indexType, strides);
  Value counts = broadcastScalar(b, indexType, count);
  Value isElement = nn::CompareOp::create(b, type.clone(b.getI1Type()), nn::Predicate::Lt, position, counts);
  return nn::SelectOp::create(b, type, isElement, value, nn::ConstantOp::create(b, filler));
}

RunStart emitRunStart(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, const dist::SplitWindow &window) {
  Value position = emitPieceStart(b, mesh, window.positions, window.axes);
  Value element = emitPieceStart(b, mesh, window.segments.positions, window.axes, window.segments.access.step);
  if (int64_t first = window.segments.access.first) {
    element = nn::AddOp::create(b, element, emitScalar(b, first));
  }
  return {position, element};
}

namespace {

// Returns which elements of a run, in a tensor of this type, are elements of the whole tensor.
Value emitInside(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, RankedTensorType type, const dist::SplitWindow &window) {
  SmallVector<int64_t> strides(type.getRank(), 0);
  strides[window.dim] = 1;
  RankedTensorType indexType = type.clone(b.getI64Type()), boolType = type.clone(b.getI1Type());
  Value start = emitRunStart(b, mesh, window).element;
  Value element = nn::AddOp::create(b, nn::IndexOp::create(b, indexType, strides), broadcastScalar(b, indexType, start));
  auto compare = [&](nn::Predicate predicate, int64_t bound) {
    return nn::CompareOp::create(b, boolType, predicate, element, nn::ConstantOp::create(b, nn::splat(indexType, bound)));
  };
  return nn::AndOp::create(b, compare(nn::Predicate::Ge, 0), compare(nn::Predicate::Lt, window.halo->size));
}

} // namespace

Value maskRun(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value run, ArrayRef<dist::SplitWindow> windows) {
  RankedTensorType type = typeOf(run);
  Value isInside;
  for (const dist::SplitWindow &window : windows) {
    Value own = emitInside(b, mesh, type, window);
    isInside = isInside ? nn::AndOp::create(b, isInside, own).getResult() : own;
  }
  return nn::SelectOp::create(b, type, isInside, run, nn::ConstantOp::create(b, nn::splat(type, 0)));
}

Value emitRunOf(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, DenseElementsAttr splat, ArrayRef<dist::SplitWindow> windows) {
  RankedTensorType type = cast<RankedTensorType>(splat.getType());
  for (const dist::SplitWindow &window : windows) {
    type = dist::withLength(type, window.dim, window.length(mesh));
  }
  return maskRun(b, mesh, nn::ConstantOp::create(b, splat.resizeSplat(type)), windows);
}

Value emitLocalNumbers(ImplicitLocOpBuilder &b, dist::MeshAttr mesh, Value numbers, int64_t size, ArrayRef<StringAttr> axes) {
  RankedTensorType type = typeOf(numbers);
  auto repeat = [&](Value scalar) {
    RankedTensorType element = RankedTensorType::get({}, type.getElementType());
    return broadcastScalar(b, type, element == scalar.getType() ? scalar : nn::CastOp::create(b, element, scalar).getResult());
  };
  Value local = nn::SubOp::create(b, numbers, repeat(emitPieceStart(b, mesh, size, axes)));
  if (dist::isEven(mesh, size, axes)) {
    return local;
  }
  Value count = repeat(emitPieceCount(b, mesh, size, axes));
  Value isHere = nn::CompareOp::create(b, type.clone(b.getI1Type()), nn::Predicate::Lt, local, count);
  return nn::SelectOp::create(b, type, isHere, local, nn::ConstantOp::create(b, nn::splat(type, -1)));
}

} // namespace ashlar::partition
