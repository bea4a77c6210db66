// SPDX-License-Identifier: Apache-2.0
//
// Result types of the ops that infer them, with their constraints; labels as in nn_ops.td.

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns true when the dims are some of a tensor of this rank, in order.
bool isIncreasing(ArrayRef<int64_t> dims, int64_t rank) {
  int64_t previous = -1;
  for (int64_t dim : dims) {
    if (dim <= previous || dim >= rank) {
      return false;
    }
    previous = dim;
  }
  return true;
}

} // namespace

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  llvm::SmallBitVector seen(from.getRank());
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= from.getRank() || seen.test(dim)) { // C1
      return emitOptionalError(loc, "permutation [", permutation, "] is not one of ", from.getRank(), " dims");
    }
    seen.set(dim);
    shape.push_back(from.getDimSize(dim));
  }
  if (!seen.all()) { // C1
    return emitOptionalError(loc, "permutation [", permutation, "] is not one of ", from.getRank(), " dims");
  }
  types.push_back(from.clone(shape));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) { // C1
    return emitOptionalError(loc, "concat needs at least one operand");
  }
  RankedTensorType first = typeOf(adaptor.getInputs().front());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank()) { // C2
    return emitOptionalError(loc, "concat dim ", dim, " is not within rank ", first.getRank());
  }
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    RankedTensorType type = typeOf(input);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType()) { // C3
      return emitOptionalError(loc, "concat joins ", first, " with ", type);
    }
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (d != dim && type.getDimSize(d) != first.getDimSize(d)) { // C3
        return emitOptionalError(loc, "concat along dim ", dim, " joins ", first, " with ", type, ", which differ in dim ", d);
      }
    }
    shape[dim] = joinedSize(shape[dim], type.getDimSize(dim));
  }
  types.push_back(first.clone(shape));
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(), steps = adaptor.getSteps();
  size_t rank = from.getRank();
  if (starts.size() != rank || limits.size() != rank || steps.size() != rank) { // C1
    return emitOptionalError(loc, "slice of rank ", rank, " has ", starts.size(), " starts, ", limits.size(), " limits and ", steps.size(),
                             " steps");
  }
  SmallVector<int64_t> shape;
  for (size_t d = 0; d < rank; ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] || limits[d] > from.getDimSize(d)) { // C2
      return emitOptionalError(loc, "slice [", starts[d], ", ", limits[d], ") of dim ", d, " is not within size ", from.getDimSize(d));
    }
    if (steps[d] < 1) { // C3
      return emitOptionalError(loc, "slice of dim ", d, " has step ", steps[d], ", which is not positive");
    }
    shape.push_back(llvm::divideCeil(limits[d] - starts[d], steps[d]));
  }
  types.push_back(from.clone(shape));
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType table = typeOf(adaptor.getTable()), indices = typeOf(adaptor.getIndices());
  if (table.getRank() < 1) { // C1
    return emitOptionalError(loc, "gather needs a table of rank >= 1, has ", table);
  }
  auto batchDims = static_cast<int64_t>(adaptor.getBatchDims());
  if (!haveBatchDims(table, indices, batchDims)) { // C2
    return emitOptionalError(loc, batchDims, " batch dims are not those of a table of ", table, " and indices of ", indices);
  }
  SmallVector<int64_t> shape(indices.getShape());
  llvm::append_range(shape, table.getShape().drop_front(batchDims + 1));
  types.push_back(table.clone(shape));
  return success();
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  if (!isIncreasing(adaptor.getDims(), from.getRank())) { // C1
    return emitOptionalError(loc, "reduce dims [", adaptor.getDims(), "] are not strictly increasing within rank ", from.getRank());
  }
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < from.getRank(); ++d) {
    if (!llvm::is_contained(adaptor.getDims(), d)) {
      shape.push_back(from.getDimSize(d));
    }
  }
  types.push_back(from.clone(shape));
  return success();
}

LogicalResult MomentsOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> dims = adaptor.getDims();
  if (!isIncreasing(dims, from.getRank())) { // C1
    return emitOptionalError(loc, "moments dims [", dims, "] are not strictly increasing within rank ", from.getRank());
  }
  SmallVector<int64_t> shape = {2};
  for (int64_t d = 0; d < from.getRank(); ++d) {
    if (!llvm::is_contained(dims, d)) {
      shape.push_back(from.getDimSize(d));
    } else if (from.getDimSize(d) == 0) { // C2
      return emitOptionalError(loc, "moments of ", from, " along dims [", dims, "] are of no elements");
    }
  }
  bool isNarrow = isNarrowFloat(from.getElementType());
  types.push_back(RankedTensorType::get(shape, isNarrow ? Float32Type::get(context) : from.getElementType()));
  return success();
}

LogicalResult MatMulOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType lhs = typeOf(adaptor.getLhs()), rhs = typeOf(adaptor.getRhs());
  int64_t rank = lhs.getRank();
  if (rank < 2 || rhs.getRank() != rank) { // C1
    return emitOptionalError(loc, "matmul needs equal ranks of at least 2, has ", lhs.getRank(), " and ", rhs.getRank());
  }
  if (lhs.getShape().drop_back(2) != rhs.getShape().drop_back(2)) { // C2
    return emitOptionalError(loc, "matmul batch dims of ", lhs, " and ", rhs, " differ");
  }
  bool isOfBytes = lhs.getElementType().isInteger(8) && rhs.getElementType().isInteger(8);
  if (lhs.getElementType() != rhs.getElementType() && !isOfBytes) { // C4
    return emitOptionalError(loc, "matmul of ", lhs, " and ", rhs, " mixes element types");
  }
  int64_t lhsK = lhs.getDimSize(adaptor.getTransposeA() ? rank - 2 : rank - 1);
  int64_t rhsK = rhs.getDimSize(adaptor.getTransposeB() ? rank - 1 : rank - 2);
  if (lhsK != rhsK) { // C3
    return emitOptionalError(loc, "matmul contracts size ", lhsK, " of ", lhs, " with size ", rhsK, " of ", rhs);
  }
  SmallVector<int64_t> shape(lhs.getShape().drop_back(2));
  shape.push_back(lhs.getDimSize(adaptor.getTransposeA() ? rank - 1 : rank - 2));
  shape.push_back(rhs.getDimSize(adaptor.getTransposeB() ? rank - 2 : rank - 1));
  types.push_back(isOfBytes ? RankedTensorType::get(shape, IntegerType::get(context, 32)) : lhs.clone(shape));
  return success();
}

// C4: the one result type besides the inferred one.
bool MatMulOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {
  auto from = cast<RankedTensorType>(inferred.front()), to = cast<RankedTensorType>(actual.front());
  bool isWidened = isNarrowFloat(from.getElementType()) && to.getElementType().isF32();
  return from == to || (isWidened && from.getShape() == to.getShape());
}

int64_t MatMulOp::countProducts(ArrayRef<RankedTensorType> operandTypes, ArrayRef<RankedTensorType> resultTypes) {
  int64_t k = operandTypes[0].getShape().end()[getTransposeA() ? -2 : -1];
  return static_cast<int64_t>(std::min<__int128>(__int128(resultTypes[0].getNumElements()) * k, INT64_MAX));
}

RateClass MatMulOp::getRateClass(ArrayRef<RankedTensorType> operandTypes, ArrayRef<RankedTensorType> resultTypes) {
  int64_t k = operandTypes[0].getShape().end()[getTransposeA() ? -2 : -1];
  ArrayRef<int64_t> matrix = resultTypes[0].getShape().take_back(2);
  return {RateClass::Product, std::min({k, matrix[0], matrix[1]})};
}

LogicalResult SoftmaxCrossEntropyOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                      SmallVectorImpl<Type> &types) {
  RankedTensorType logits = typeOf(adaptor.getLogits()), labels = typeOf(adaptor.getLabels());
  if (logits.getRank() < 1 || logits.getShape().drop_back() != labels.getShape()) { // C1
    return emitOptionalError(loc, "labels have type ", labels, " but logits have type ", logits);
  }
  types.push_back(logits.clone(labels.getShape()));
  return success();
}

} // namespace ashlar::nn
