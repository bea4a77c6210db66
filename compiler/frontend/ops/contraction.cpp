// SPDX-License-Identifier: Apache-2.0
//
// Matrix products and determinants.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

std::string print(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// alpha * op(A) op(B) + beta * C; the products with 1 are left out.
void importGemm(Node &node) {
  Value a = node.input(0), b = node.input(1);
  bool transposeA = node.getInt("transA", 0) != 0, transposeB = node.getInt("transB", 0) != 0;
  double alpha = node.getFloat("alpha", 1), beta = node.getFloat("beta", 1);
  RankedTensorType aType = typeOf(a), bType = typeOf(b);
  if (aType.getRank() != 2 || bType.getRank() != 2) {
    node.fail("inputs A of " + print(aType) + " and B of " + print(bType) + " are not matrices");
  }
  if (aType.getElementType() != bType.getElementType() || aType.getDimSize(transposeA ? 0 : 1) != bType.getDimSize(transposeB ? 1 : 0)) {
    node.fail("A of " + print(aType) + (transposeA ? " transposed" : "") + " and B of " + print(bType) + (transposeB ? " transposed" : "") +
              " cannot be multiplied");
  }
  bool isFloat = isa<FloatType>(aType.getElementType());
  if (!isFloat && (alpha != 1 || beta != 1)) {
    node.fail("alpha " + std::to_string(alpha) + " and beta " + std::to_string(beta) + " of an integer product are not supported");
  }
  Value result = node.create<nn::MatMulOp>(a, b, transposeA, transposeB);
  RankedTensorType type = typeOf(result);
  if (alpha != 1) {
    result = node.create<nn::MulOp>(result, splatConstant(node, type, alpha));
  }
  if (node.hasInput(2) && beta != 0) {
    Value c = node.input(2);
    if (typeOf(c).getElementType() != type.getElementType() ||
        ArrayRef<int64_t>(broadcastShapes(node, shapeOf(c), type.getShape())) != type.getShape()) {
      node.fail("C of " + print(typeOf(c)) + " cannot be added to the product of " + print(type));
    }
    if (beta != 1) {
      c = node.create<nn::MulOp>(c, splatConstant(node, typeOf(c), beta));
    }
    result = node.create<nn::AddOp>(result, broadcastTo(node, c, type.getShape()));
  }
  node.setResult(0, result);
}

// (batch..., m, k) x (k, n): the batch dims become rows, so that the matrix need not be repeated.
Value multiplyByMatrix(Node &node, Value lhs, Value rhs) {
  ArrayRef<int64_t> shape = shapeOf(lhs);
  int64_t rows = 1;
  for (int64_t dim : shape.drop_back()) {
    rows *= dim;
  }
  Value product = node.create<nn::MatMulOp>(reshape(node, lhs, {rows, shape.back()}), rhs, /*transpose_a=*/false, /*transpose_b=*/false);
  SmallVector<int64_t> result(shape.drop_back());
  result.push_back(shapeOf(rhs).back());
  return reshape(node, product, result);
}

// numpy.matmul: a vector on the left is a row, on the right a column, and that dim leaves again; batch dims broadcast.
void importMatMul(Node &node) {
  Value lhs = node.input(0), rhs = node.input(1);
  RankedTensorType lhsType = typeOf(lhs), rhsType = typeOf(rhs);
  bool areBytes = lhsType.getElementType().isInteger(8) && rhsType.getElementType().isInteger(8); // of MatMulInteger and its like
  if (lhsType.getRank() == 0 || rhsType.getRank() == 0 || (lhsType.getElementType() != rhsType.getElementType() && !areBytes)) {
    node.fail("inputs A of " + print(lhsType) + " and B of " + print(rhsType) + " cannot be multiplied");
  }
  bool row = lhsType.getRank() == 1, column = rhsType.getRank() == 1;
  lhs = row ? reshape(node, lhs, {1, lhsType.getDimSize(0)}) : lhs;
  rhs = column ? reshape(node, rhs, {rhsType.getDimSize(0), 1}) : rhs;
  if (shapeOf(lhs).back() != shapeOf(rhs).drop_back().back()) {
    node.fail("inputs A of " + print(lhsType) + " and B of " + print(rhsType) + " cannot be multiplied");
  }
  Value result;
  if (shapeOf(rhs).size() == 2 && shapeOf(lhs).size() > 2) {
    result = multiplyByMatrix(node, lhs, rhs);
  } else {
    Shape batch = broadcastShapes(node, shapeOf(lhs).drop_back(2), shapeOf(rhs).drop_back(2));
    auto withBatch = [&](Value value) {
      Shape shape = batch;
      llvm::append_range(shape, shapeOf(value).take_back(2));
      return broadcastTo(node, value, shape);
    };
    Value batchedLhs = withBatch(lhs), batchedRhs = withBatch(rhs);
    result = node.create<nn::MatMulOp>(batchedLhs, batchedRhs, /*transpose_a=*/false, /*transpose_b=*/false);
  }
  SmallVector<int64_t> shape(shapeOf(result));
  if (column) {
    shape.pop_back();
  }
  if (row) {
    shape.erase(shape.end() - (column ? 1 : 2));
  }
  node.setResult(0, reshape(node, result, shape));
}

// The determinant of `rows` rows and as many columns from row `row` on, along the first one: of small matrices this is as exact as
// elimination, and it has a gradient everywhere.
Value determinant(Node &node, int64_t row, ArrayRef<int64_t> columns, function_ref<Value(int64_t row, int64_t column)> element) {
  Value sum;
  for (auto [i, column] : llvm::enumerate(columns)) {
    Value term = element(row, column);
    if (columns.size() > 1) {
      SmallVector<int64_t> others(columns);
      others.erase(others.begin() + i);
      term = node.create<nn::MulOp>(term, determinant(node, row + 1, others, element));
    }
    if (!sum) {
      sum = term;
    } else {
      sum = i % 2 == 0 ? node.create<nn::AddOp>(sum, term).getResult() : node.create<nn::SubOp>(sum, term).getResult();
    }
  }
  return sum;
}

void importDet(Node &node) {
  constexpr int64_t kMost = 4; // the number of products grows as the factorial
  RankedTensorType type = node.inputType(0);
  ArrayRef<int64_t> shape = type.getShape();
  if (type.getRank() < 2 || shape.back() != shape.drop_back().back() || shape.back() < 1 || shape.back() > kMost) {
    node.fail("input is " + describeTensor(type) + "; matrices have to be square, of 1 to " + Twine(kMost) + " rows");
  }
  Value input = node.input(0);
  auto element = [&](int64_t row, int64_t column) {
    SmallVector<int64_t> starts(shape.size(), 0), limits(shape), steps(shape.size(), 1);
    starts.end()[-2] = row;
    limits.end()[-2] = row + 1;
    starts.end()[-1] = column;
    limits.end()[-1] = column + 1;
    return reshape(node, node.create<nn::SliceOp>(input, starts, limits, steps), shape.drop_back(2));
  };
  node.setResult(0, determinant(node, 0, llvm::to_vector(llvm::seq<int64_t>(0, shape.back())), element));
}

constexpr RegistryRow kContractionRows[] = {
    {"Det", importDet, Accepts::Floats}, {"Gemm", importGemm, Accepts::Numbers}, {"MatMul", importMatMul, Accepts::Numbers}};

} // namespace

ArrayRef<RegistryRow> contractionRows() {
  return kContractionRows;
}

} // namespace ashlar::frontend
