// SPDX-License-Identifier: Apache-2.0
//
// Reductions and matrix products; labels of constraints as in nn_ops.td. The reference adds floats up in double, in row-major order, and
// rounds once.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"
#include "dialects/support/integer_type.h"

#include <limits>

using namespace mlir;

namespace ashlar::nn {

//===-- nn.reduce ---------------------------------------------------------------------------------------------------------------------===//

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

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getDims().empty() ? OpFoldResult(getInput()) : OpFoldResult();
}

// reduce sum dims = [0]: ([i, j]) -> ([j]) sum={i}
ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(shapeOf(getInput()), /*numOperands=*/1, /*numResults=*/0);
  TensorFactors result;
  for (auto [d, factors] : llvm::enumerate(rule.operands.front())) {
    if (llvm::is_contained(getDims(), d)) {
      rule.factors[d].kind = FactorKind::Reduction;
      rule.factors[d].reduction = getKind();
    } else {
      result.push_back(factors);
    }
  }
  rule.results = {result};
  return rule;
}

void ReduceOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  ArrayRef<int64_t> shape = getInput().getType().getShape();
  if (getKind() == Reduction::Sum) {
    out[0] = b.broadcastAlong(g[0], getDims(), shape);
    return;
  }
  Value wins = b.compare(Predicate::Eq, getInput(), b.broadcastAlong(getResult(), getDims(), shape));
  Value count = b.sum(CastOp::create(b, getInput().getType(), wins), getDims());
  out[0] = b.selectOrZero(wins, b.broadcastAlong(b.div(g[0], count), getDims(), shape));
}

namespace {

// Returns what an empty reduction gives.
double floatIdentity(Reduction kind) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return kind == Reduction::Sum ? 0 : kind == Reduction::Max ? -kInfinity : kInfinity;
}

int64_t intIdentity(Reduction kind, Type element) {
  return kind == Reduction::Sum ? 0 : integerValue(element, kind == Reduction::Max ? lowestInteger(element) : highestInteger(element));
}

// Combines two numbers; a NaN wins a maximum or minimum.
template <typename T> T combine(Reduction kind, T total, T x) {
  switch (kind) {
  case Reduction::Sum:
    return total + x;
  case Reduction::Max:
    return x != x || x > total ? x : total;
  case Reduction::Min:
    return x != x || x < total ? x : total;
  }
  llvm_unreachable("unknown reduction");
}

} // namespace

Tensor ReduceOp::evaluate(ArrayRef<Tensor> operands) {
  Reduction kind = getKind();
  ArrayRef<int64_t> dims = getDims();
  const Tensor &input = operands[0];
  Tensor result(getType());
  std::vector<double> floats(result.getNumElements(), floatIdentity(kind));
  std::vector<int64_t> ints(result.getNumElements(), input.isFloat() ? 0 : intIdentity(kind, result.getType().getElementType()));
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index kept;
    for (auto [d, position] : llvm::enumerate(index)) {
      if (!llvm::is_contained(dims, static_cast<int64_t>(d))) {
        kept.push_back(position);
      }
    }
    int64_t to = result.linearize(kept);
    if (input.isFloat()) {
      floats[to] = combine(kind, floats[to], input.getFloat(i));
    } else if (input.isWord() || kind == Reduction::Sum) { // sums wrap around
      ints[to] = static_cast<int64_t>(combine(kind, static_cast<uint64_t>(ints[to]), static_cast<uint64_t>(input.getInt(i))));
    } else {
      ints[to] = combine(kind, ints[to], input.getInt(i));
    }
  });
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    if (result.isFloat()) {
      result.setFloat(i, floats[i]);
    } else {
      result.setInt(i, ints[i]);
    }
  }
  return result;
}

//===-- nn.matmul ---------------------------------------------------------------------------------------------------------------------===//

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

// matmul: ([b, i, k], [b, k, j]) -> ([b, i, j]) sum={k}
ShardingRule MatMulOp::getShardingRule() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), result = getType().getShape();
  ShardingRule rule = ShardingRule::elementwise(result, /*numOperands=*/0);
  size_t rank = result.size();
  int64_t m = rank - 2, n = rank - 1;
  int64_t k = rule.addFactor(lhs[getTransposeA() ? rank - 2 : rank - 1], FactorKind::Reduction, Reduction::Sum);
  TensorFactors batch(rule.results.front().begin(), rule.results.front().end() - 2);
  TensorFactors left(batch), right(batch);
  left.append(getTransposeA() ? TensorFactors{{k}, {m}} : TensorFactors{{m}, {k}});
  right.append(getTransposeB() ? TensorFactors{{n}, {k}} : TensorFactors{{k}, {n}});
  rule.operands = {left, right};
  return rule;
}

// With C = op(A) op(B): dop(A) = G op(B)^T, dop(B) = op(A)^T G; a transposed operand swaps the factors. Only flags, no transposes. Products
// of bf16 or f16 with an f32 result have gradients of their own type.
void MatMulOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  bool transposeA = getTransposeA(), transposeB = getTransposeB();
  Value slope = b.as(getLhs(), g[0]);
  out[0] = transposeA ? MatMulOp::create(b, getRhs(), slope, /*transpose_a=*/transposeB, /*transpose_b=*/true)
                      : MatMulOp::create(b, slope, getRhs(), /*transpose_a=*/false, /*transpose_b=*/!transposeB);
  out[1] = transposeB ? MatMulOp::create(b, slope, getLhs(), /*transpose_a=*/true, /*transpose_b=*/transposeA)
                      : MatMulOp::create(b, getLhs(), slope, /*transpose_a=*/!transposeA, /*transpose_b=*/false);
}

namespace {

// A matrix product over rows m, columns n and batches: element (i, c) of op(lhs) lies at i * lhsRow + c * lhsColumn, likewise (c, j) of
// op(rhs).
struct MatMulShape {
  int64_t batches, m, n, k;
  int64_t lhsRow, lhsColumn, rhsRow, rhsColumn;
};

// Calls `set` with the position and the sum of products of each element of the result.
template <typename T>
void multiply(const MatMulShape &s, llvm::function_ref<T(int64_t)> lhs, llvm::function_ref<T(int64_t)> rhs,
              llvm::function_ref<void(int64_t, T)> set) {
  for (int64_t b = 0; b < s.batches; ++b) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        T sum = 0;
        for (int64_t c = 0; c < s.k; ++c) {
          sum += lhs(b * s.m * s.k + i * s.lhsRow + c * s.lhsColumn) * rhs(b * s.k * s.n + c * s.rhsRow + j * s.rhsColumn);
        }
        set((b * s.m + i) * s.n + j, sum);
      }
    }
  }
}

} // namespace

Tensor MatMulOp::evaluate(ArrayRef<Tensor> operands) {
  bool transposeA = getTransposeA(), transposeB = getTransposeB();
  const Tensor &lhs = operands[0], &rhs = operands[1];
  Tensor result(getType());
  int64_t rank = result.getType().getRank();
  MatMulShape s;
  s.batches = llvm::product_of(result.getShape().drop_back(2));
  s.m = result.getShape()[rank - 2];
  s.n = result.getShape()[rank - 1];
  s.k = lhs.getShape()[transposeA ? rank - 2 : rank - 1];
  s.lhsRow = transposeA ? 1 : s.k;
  s.lhsColumn = transposeA ? s.m : 1;
  s.rhsRow = transposeB ? 1 : s.n;
  s.rhsColumn = transposeB ? s.k : 1;
  if (result.isFloat()) {
    multiply<double>(
        s, [&](int64_t i) { return lhs.getFloat(i); }, [&](int64_t i) { return rhs.getFloat(i); },
        [&](int64_t i, double sum) { result.setFloat(i, sum); });
  } else {
    multiply<uint64_t>( // wraps around
        s, [&](int64_t i) { return lhs.getInt(i); }, [&](int64_t i) { return rhs.getInt(i); },
        [&](int64_t i, uint64_t sum) { result.setInt(i, static_cast<int64_t>(sum)); });
  }
  return result;
}

} // namespace ashlar::nn
