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

} // namespace ashlar::nn
