// SPDX-License-Identifier: Apache-2.0
//
// The ops of the flat form of repeats: constraints and sharding rules; labels of constraints as in repeat.td.

#include "dialects/nn/repeat/repeats.h"

#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

LogicalResult verifyCount(Operation *op, int64_t count) {
  if (count < 0) { // C1
    return op->emitOpError("runs ") << count << " times";
  }
  return success();
}

LogicalResult verifyRows(Operation *op, int64_t count, Value stack, Value row) {
  if (failed(verifyCount(op, count))) {
    return failure();
  }
  if (stack.getType() != stackType(typeOf(row), count)) { // C2
    return op->emitOpError("has a stack of type ") << stack.getType() << ", which is not " << count << " rows of " << row.getType();
  }
  return success();
}

// Returns the dims of a stack and of its rows as factors. The iterations run one after the other, so the dim of the rows is not split.
ShardingRule makeRule(RankedTensorType stack, TensorFactors &stackDims, TensorFactors &rowDims) {
  ShardingRule rule;
  stackDims.push_back({rule.addFactor(stack.getDimSize(0), FactorKind::NeedReplication)});
  for (int64_t size : stack.getShape().drop_front()) {
    const int64_t factor = rule.addFactor(size);
    stackDims.push_back({factor});
    rowDims.push_back({factor});
  }
  return rule;
}

// Returns the order of a stack whose rows stand in `row`: the dim of the rows comes first.
DimOrder stackOrder(ArrayRef<int64_t> row) {
  DimOrder order = {0};
  llvm::append_range(order, llvm::map_range(row, [](int64_t dim) { return dim + 1; }));
  return order;
}

} // namespace

// A stack whose rows do not come first is put in such an order.
bool RepeatRowOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  DimOrder row;
  for (int64_t dim : operands.front()) {
    row.append(dim == 0 ? 0 : 1, dim - 1);
  }
  results.front() = operands.front().empty() ? identityOrder(typeOf(getResult()).getRank()) : row;
  operands.front() = stackOrder(results.front());
  return true;
}

bool RepeatStackOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  if (operands.front().empty()) {
    operands.front() = identityOrder(typeOf(getRow()).getRank());
  }
  results.front() = stackOrder(operands.front());
  return true;
}

LogicalResult RepeatCarryOp::verify() {
  if (getCondition() && typeOf(getCondition()).getRank() != 0) { // C2
    return emitOpError("has a condition of type ") << getCondition().getType() << ", not one bool";
  }
  return verifyCount(*this, getCount());
}

LogicalResult RepeatRowOp::verify() {
  return verifyRows(*this, getCount(), getStack(), getResult());
}

LogicalResult RepeatStackOp::verify() {
  return verifyRows(*this, getCount(), getResult(), getRow());
}

LogicalResult RepeatNextOp::verify() {
  if (!getCarried().getDefiningOp<RepeatCarryOp>()) { // C1
    return emitOpError("is the next value of one that is no result of an nn.repeat_carry");
  }
  return success();
}

ShardingRule RepeatCarryOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(typeOf(getResult()).getShape(), /*numOperands=*/1);
  rule.operands.resize(getNumOperands()); // a condition has no dims
  return rule;
}

ShardingRule RepeatNextOp::getShardingRule() {
  return ShardingRule::elementwise(typeOf(getResult()).getShape(), /*numOperands=*/2);
}

ShardingRule RepeatRowOp::getShardingRule() {
  TensorFactors stack, row;
  ShardingRule rule = makeRule(typeOf(getStack()), stack, row);
  rule.operands = {stack};
  rule.results = {row};
  return rule;
}

ShardingRule RepeatStackOp::getShardingRule() {
  TensorFactors stack, row;
  ShardingRule rule = makeRule(typeOf(getResult()), stack, row);
  rule.operands = {row};
  rule.results = {stack};
  return rule;
}

} // namespace ashlar::nn
