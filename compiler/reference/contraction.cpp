// SPDX-License-Identifier: Apache-2.0
//
// Reductions and matrix products. Sums of floats run in double, in row-major order, and are rounded once.

#include "compiler/reference/semantics.h"

#include "dialects/nn/nn.h"
#include "dialects/support/integer_type.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::reference {

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

Tensor reduce(Operation *op, ArrayRef<Tensor> operands) {
  auto reduceOp = cast<nn::ReduceOp>(op);
  Reduction kind = reduceOp.getKind();
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  std::vector<double> floats(result.getNumElements(), floatIdentity(kind));
  std::vector<int64_t> ints(result.getNumElements(), input.isFloat() ? 0 : intIdentity(kind, result.getType().getElementType()));
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index kept;
    for (auto [d, position] : llvm::enumerate(index)) {
      if (!llvm::is_contained(reduceOp.getDims(), static_cast<int64_t>(d))) {
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

Tensor matmul(Operation *op, ArrayRef<Tensor> operands) {
  auto matmulOp = cast<nn::MatMulOp>(op);
  bool transposeA = matmulOp.getTransposeA(), transposeB = matmulOp.getTransposeB();
  const Tensor &lhs = operands[0], &rhs = operands[1];
  Tensor result(resultType(op));
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

} // namespace

void addContractionSemantics(SemanticsTable &table) {
  table.add<nn::ReduceOp>(reduce);
  table.add<nn::MatMulOp>(matmul);
}

} // namespace ashlar::reference
