// SPDX-License-Identifier: Apache-2.0
//
// Variables and their uses; labels of constraints as in nn_ops.td.

#include "dialects/nn/nn.h"
#include "dialects/nn/ops/evaluation.h"

using namespace mlir;

namespace ashlar::nn {

//===-- nn.variable -------------------------------------------------------------------------------------------------------------------===//

LogicalResult VariableOp::verify() {
  if (auto dense = dyn_cast_or_null<ElementsAttr>(getInitAttr()); dense && dense.getShapedType() != getTensorType()) { // C1
    return emitOpError("init has type ") << dense.getShapedType() << " but the variable has type " << getTensorType();
  }
  std::string fault = findSizeFault(getTensorType().getShape(), getTensorType().getElementType()); // C2
  return fault.empty() ? success() : emitOpError(fault);
}

LogicalResult VariableOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr parameter = getStateOfAttr();
  auto variable = parameter ? symbols.lookupNearestSymbolFrom<VariableOp>(*this, parameter) : VariableOp();
  if (parameter && (!variable || variable.getInternal() || variable.getStateOf())) { // C3
    return emitOpError("is a state of ") << parameter << ", which is not an nn.variable of the model";
  }
  return success();
}

//===-- nn.read, nn.write, nn.gradient ------------------------------------------------------------------------------------------------===//

namespace {

bool areEqual(RankedTensorType variable, RankedTensorType value) {
  return variable == value;
}

// Of a variable and a value that are pieces, cut differently.
bool mayBeAlike(RankedTensorType variable, RankedTensorType value) {
  return variable.getElementType() == value.getElementType() && variable.getRank() == value.getRank();
}

LogicalResult verifyVariableUse(Operation *op, SymbolTableCollection &symbols, FlatSymbolRefAttr symbol, RankedTensorType type,
                                bool (*fits)(RankedTensorType variable, RankedTensorType value) = areEqual) {
  auto variable = symbols.lookupNearestSymbolFrom<VariableOp>(op, symbol);
  if (!variable) { // C1
    return op->emitOpError("names ") << symbol << ", which is not an nn.variable";
  }
  if (!fits(variable.getTensorType(), type)) { // C2
    InFlightDiagnostic diagnostic = op->emitOpError("has type ")
                                    << type << " but variable " << symbol << " has type " << variable.getTensorType();
    diagnostic.attachNote(variable.getLoc()) << "declared here";
    return diagnostic;
  }
  return success();
}

} // namespace

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyVariableUse(*this, symbols, getVariableAttr(), getType());
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyVariableUse(*this, symbols, getVariableAttr(), getValue().getType());
}

LogicalResult GradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyVariableUse(*this, symbols, getVariableAttr(), getType(), mayBeAlike);
}

ShardingRule GradientOp::getShardingRule() {
  return ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
}

Tensor GradientOp::evaluate(ArrayRef<Tensor> in) {
  return in[0];
}

} // namespace ashlar::nn
