// SPDX-License-Identifier: Apache-2.0
//
// How dist ops compute on tensors whose dims stand in another order in memory (DimOrderOpInterface): what they move or combine they take
// as it stands.

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

} // namespace ashlar::dist
