// SPDX-License-Identifier: Apache-2.0
//
// The dims of dist ops. How they compute on tensors whose dims stand in another order in memory (DimOrderOpInterface): what they move or
// combine they take as it stands. And along which dims parts of the operands give parts of the results (ShardOpInterface): all along which
// no element changes its place.

#include "dialects/dist/dist.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::dist {
namespace {

// Gives each result the order of its operand, that of the dims where it is open.
bool keepOrders(OperandRange values, MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  for (auto [value, operand, result] : llvm::zip_first(values, operands, results)) {
    operand = operand.empty() ? identityOrder(typeOf(value).getRank()) : operand;
    result = operand;
  }
  return true;
}

// The same, of a list of tensors with one dim each.
template <typename Op> bool keepOrdersAndDims(Op op, MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  keepOrders(op->getOperands(), operands, results);
  SmallVector<int64_t> places;
  for (auto [order, dim] : llvm::zip_equal(operands, op.getDims())) {
    places.push_back(placeOf(order, dim));
  }
  op.setDims(places);
  return true;
}

// Adds an operand and its result, whose dims pass through except `moved`.
void addPassing(ShardingRule &rule, Value operand, ArrayRef<int64_t> moved = {}) {
  TensorFactors factors;
  for (auto [dim, size] : llvm::enumerate(shapeOf(operand))) {
    factors.emplace_back();
    if (!llvm::is_contained(moved, static_cast<int64_t>(dim))) {
      factors.back().push_back(rule.addFactor(size));
    }
  }
  rule.operands.push_back(factors);
  rule.results.push_back(factors);
}

// Returns the rule of an op with one operand.
ShardingRule passing(Value operand, ArrayRef<int64_t> moved = {}) {
  ShardingRule rule;
  addPassing(rule, operand, moved);
  return rule;
}

// Returns the rule of a list of tensors, each with a dim that moves; without one where `dims` is empty. Tensors share no factor: each is
// combined as if it were alone.
ShardingRule passingEach(OperandRange operands, ArrayRef<int64_t> dims) {
  ShardingRule rule;
  for (auto [number, operand] : llvm::enumerate(operands)) {
    addPassing(rule, operand, dims.empty() ? dims : dims.slice(number, 1));
  }
  return rule;
}

} // namespace

bool AfterOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  keepOrders(getOperation()->getOperands().take_front(), operands.take_front(), results);
  if (operands.back().empty()) {
    operands.back() = identityOrder(typeOf(getEvent()).getRank());
  }
  return true;
}

bool AllGatherOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrdersAndDims(*this, operands, results);
}

bool AllReduceOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrders(getInputs(), operands, results);
}

bool AllToAllOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  keepOrders(getOperation()->getOperands(), operands, results);
  setSplitDim(placeOf(results.front(), getSplitDim()));
  setConcatDim(placeOf(results.front(), getConcatDim()));
  return true;
}

bool BroadcastOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrders(getOperation()->getOperands(), operands, results);
}

bool HaloOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  keepOrders(getOperation()->getOperands(), operands, results);
  setDim(placeOf(results.front(), getDim()));
  return true;
}

bool PermuteOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrders(getOperation()->getOperands(), operands, results);
}

bool ReduceScatterOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  return keepOrdersAndDims(*this, operands, results);
}

bool SliceOp::reorderDims(MutableArrayRef<DimOrder> operands, MutableArrayRef<DimOrder> results) {
  keepOrders(getOperation()->getOperands(), operands, results);
  setDim(placeOf(results.front(), getDim()));
  return true;
}

ShardingRule AllGatherOp::getShardRule() {
  return passingEach(getInputs(), getDims());
}

ShardingRule AllReduceOp::getShardRule() {
  return passingEach(getInputs(), /*dims=*/{});
}

ShardingRule AllToAllOp::getShardRule() {
  return passing(getInput(), {static_cast<int64_t>(getSplitDim()), static_cast<int64_t>(getConcatDim())});
}

ShardingRule BroadcastOp::getShardRule() {
  return passing(getInput());
}

ShardingRule HaloOp::getShardRule() {
  return passing(getInput(), {static_cast<int64_t>(getDim())});
}

ShardingRule PermuteOp::getShardRule() {
  return passing(getInput());
}

ShardingRule ReduceScatterOp::getShardRule() {
  return passingEach(getInputs(), getDims());
}

ShardingRule SliceOp::getShardRule() {
  return passing(getInput(), {static_cast<int64_t>(getDim())});
}

} // namespace ashlar::dist
