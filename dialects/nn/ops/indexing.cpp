// SPDX-License-Identifier: Apache-2.0
//
// Ops that find rows by number; labels of constraints as in nn_ops.td.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// The factors of an op that finds rows by number: the batch, the places, the rows, the dims of a row.
struct RowFactors {
  TensorFactors places, indexed, elements; // of the indices, of (batch..., rows, rest...), of (batch..., places..., rest...)
};

RowFactors addRowFactors(ShardingRule &rule, ArrayRef<int64_t> places, ArrayRef<int64_t> indexed, int64_t batch, FactorKind placesKind,
                         FactorKind rowsKind) {
  RowFactors factors;
  for (auto [d, size] : llvm::enumerate(places)) {
    bool isBatch = static_cast<int64_t>(d) < batch;
    factors.places.push_back({rule.addFactor(size, isBatch ? FactorKind::PassThrough : placesKind)});
    if (isBatch) {
      factors.indexed.push_back(factors.places.back());
    }
  }
  factors.elements = factors.places;
  factors.indexed.push_back({rule.addFactor(indexed[batch], rowsKind)});
  for (int64_t size : indexed.drop_front(batch + 1)) {
    factors.indexed.push_back({rule.addFactor(size)});
    factors.elements.push_back(factors.indexed.back());
  }
  return factors;
}

// Calls `body` with every place of the indices and the row that it names, where there is such a row: in all tables of the batch together.
void forEachRow(const Tensor &indices, ArrayRef<int64_t> table, int64_t batch, llvm::function_ref<void(int64_t place, int64_t row)> body) {
  const int64_t rows = table[batch], places = llvm::product_of(indices.getShape().drop_front(batch));
  for (int64_t place = 0; place < indices.getNumElements(); ++place) {
    if (int64_t row = indices.getInt(place); row >= 0 && row < rows) {
      body(place, place / places * rows + row);
    }
  }
}

} // namespace

//===-- nn.gather ---------------------------------------------------------------------------------------------------------------------===//

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

// gather batch_dims = 1: ([b, v, r], [b, i]) -> ([b, i, r]) sum={v}; a device gives zeros for the rows of others
ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule;
  RowFactors factors =
      addRowFactors(rule, shapeOf(getIndices()), shapeOf(getTable()), getBatchDims(), FactorKind::PassThrough, FactorKind::Reduction);
  rule.operands = {factors.indexed, factors.places};
  rule.results = {factors.elements};
  return rule;
}

void GatherOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[0] = ScatterAddOp::create(b, getTable().getType(), getIndices(), g[0], getBatchDims());
}

Tensor GatherOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &table = operands[0];
  Tensor result(getType());
  auto batch = static_cast<int64_t>(getBatchDims());
  int64_t width = llvm::product_of(table.getShape().drop_front(batch + 1));
  forEachRow(operands[1], table.getShape(), batch, [&](int64_t place, int64_t row) {
    for (int64_t i = 0; i < width; ++i) {
      result.copyElement(place * width + i, table, row * width + i);
    }
  });
  return result;
}

//===-- nn.scatter_add ----------------------------------------------------------------------------------------------------------------===//

LogicalResult ScatterAddOp::verify() {
  RankedTensorType indices = getIndices().getType(), updates = getUpdates().getType(), to = getType();
  if (to.getRank() < 1) { // C1
    return emitOpError("needs a result of rank >= 1, has ") << to;
  }
  auto batchDims = static_cast<int64_t>(getBatchDims());
  if (!haveBatchDims(to, indices, batchDims)) { // C2
    return emitOpError() << batchDims << " batch dims are not those of indices of " << indices << " and a result of " << to;
  }
  SmallVector<int64_t> expected(indices.getShape());
  llvm::append_range(expected, to.getShape().drop_front(batchDims + 1));
  if (updates.getShape() != ArrayRef<int64_t>(expected)) { // C3
    return emitOpError("has updates of ") << updates << " but indices of " << indices << " and a result of " << to << " need "
                                          << updates.clone(expected);
  }
  return verifySameElementType(*this, updates, to); // C4
}

// scatter_add batch_dims = 1: ([b, i], [b, i, r]) -> ([b, v, r]) sum={i}
ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule;
  RowFactors factors =
      addRowFactors(rule, shapeOf(getIndices()), getType().getShape(), getBatchDims(), FactorKind::Reduction, FactorKind::PassThrough);
  rule.operands = {factors.places, factors.elements};
  rule.results = {factors.indexed};
  return rule;
}

void ScatterAddOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  out[1] = GatherOp::create(b, g[0], getIndices(), getBatchDims());
}

// Floats are summed in double and rounded once.
Tensor ScatterAddOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &updates = operands[1];
  Tensor result(getType());
  auto batch = static_cast<int64_t>(getBatchDims());
  int64_t width = llvm::product_of(result.getShape().drop_front(batch + 1));
  std::vector<double> floats(result.getNumElements());
  forEachRow(operands[0], result.getShape(), batch, [&](int64_t place, int64_t row) {
    for (int64_t i = 0; i < width; ++i) {
      int64_t from = place * width + i, to = row * width + i;
      if (result.isFloat()) {
        floats[to] += updates.getFloat(from);
      } else {
        auto sum = static_cast<uint64_t>(result.getInt(to)) + static_cast<uint64_t>(updates.getInt(from)); // wraps around
        result.setInt(to, static_cast<int64_t>(sum));
      }
    }
  });
  for (int64_t i = 0; result.isFloat() && i < result.getNumElements(); ++i) {
    result.setFloat(i, floats[i]);
  }
  return result;
}

//===-- nn.insert ---------------------------------------------------------------------------------------------------------------------===//

namespace {

// Returns the place along dim `dim` of each element of a tensor of `shape`, and the scalar `at` for each of them.
std::pair<Value, Value> numberPlaces(NnBuilder &b, Value at, ArrayRef<int64_t> shape, int64_t dim) {
  SmallVector<int64_t> strides(shape.size(), 0);
  strides[dim] = 1;
  auto type = RankedTensorType::get(shape, b.getI64Type());
  Value start = BroadcastOp::create(b, type, b.as(b.getI64Type(), at), ArrayRef<int64_t>());
  return {IndexOp::create(b, type, strides), start};
}

} // namespace

LogicalResult InsertOp::verify() {
  RankedTensorType rows = getRows().getType(), base = getBase().getType();
  const auto dim = static_cast<int64_t>(getDim());
  if (dim < 0 || dim >= base.getRank()) { // C1
    return emitOpError("dim ") << dim << " is not within rank " << base.getRank();
  }
  SmallVector<int64_t> expected(base.getShape());
  expected[dim] = rows.getRank() == base.getRank() ? rows.getDimSize(dim) : 1;
  if (rows.getShape() != ArrayRef<int64_t>(expected)) { // C2
    return emitOpError("has rows of ") << rows << " for a base of " << base << "; they may differ in the size of dim " << dim << " alone";
  }
  return verifySameElementType(*this, rows, base); // C3
}

// insert dim = 1: ([i, k], [i, j], []) -> ([i, j]) replicated={j} replicated={k}
ShardingRule InsertOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors base;
  for (auto [d, size] : llvm::enumerate(getType().getShape())) {
    const bool isDim = static_cast<int64_t>(d) == static_cast<int64_t>(getDim());
    base.push_back({rule.addFactor(size, isDim ? FactorKind::NeedReplication : FactorKind::PassThrough)});
  }
  TensorFactors rows = base;
  rows[getDim()] = {rule.addFactor(shapeOf(getRows())[getDim()], FactorKind::NeedReplication)};
  rule.operands = {rows, base, {}};
  rule.results = {base};
  return rule;
}

// The base gets what its rows that stay get, the rows what the rows of the result in their places get.
void InsertOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  const auto dim = static_cast<int64_t>(getDim());
  Value zeros = b.constant(getRows().getType(), 0);
  out[1] = InsertOp::create(b, getType(), zeros, g[0], getIndex(), dim);
  auto [row, start] = numberPlaces(b, getIndex(), shapeOf(getRows()).take_front(dim + 1), dim);
  out[0] = GatherOp::create(b, g[0], b.add(row, start), dim);
}

Tensor InsertOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &rows = operands[0];
  const auto dim = static_cast<int64_t>(getDim());
  const int64_t size = getType().getDimSize(dim), count = rows.getShape()[dim], first = operands[2].getInt(0);
  Tensor result = operands[1];
  forEachIndex(rows.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    if (first >= -count && first < size && first + index[dim] >= 0 && first + index[dim] < size) {
      Index to(index);
      to[dim] += first;
      result.copyElement(result.linearize(to), rows, i);
    }
  });
  return result;
}

// select(0 <= t - index < n, row t - index, base) at place t. Differences wrap around, so that no index is near by mistake. A single row is
// repeated, which kernels read where it is; of several the numbers are computed first.
Value InsertOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  ArrayRef<int64_t> shape = getType().getShape();
  const auto dim = static_cast<int64_t>(getDim());
  const int64_t count = shapeOf(getRows())[dim];
  auto [place, start] = numberPlaces(b, getIndex(), shape, dim);
  if (count == 1) {
    SmallVector<int64_t> others(shape);
    others.erase(others.begin() + dim);
    Value row = ReshapeOp::create(b, getType().clone(others), getRows());
    return b.select(b.compare(Predicate::Eq, place, start), b.broadcastAlong(row, {dim}, shape), getBase());
  }
  Value numbers = b.sub(place, start);
  Value isNew = AndOp::create(b, b.compare(Predicate::Ge, numbers, 0), b.compare(Predicate::Lt, numbers, static_cast<double>(count)));
  auto [rowPlace, rowStart] = numberPlaces(b, getIndex(), shape.take_front(dim + 1), dim);
  const bool isBool = getType().getElementType().isInteger(1);
  Value table = isBool ? b.as(b.getI8Type(), getRows()) : getRows();
  return b.select(isNew, b.as(getResult(), GatherOp::create(b, table, b.sub(rowPlace, rowStart), dim)), getBase());
}

} // namespace ashlar::nn
