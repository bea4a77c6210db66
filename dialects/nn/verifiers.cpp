// SPDX-License-Identifier: Apache-2.0
//
// Verifiers of the nn ops whose constraints ODS cannot state. Those of ops with an inferred type live in type_inference.cpp.

#include "dialects/nn/nn.h"

#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace ashlar::nn {

LogicalResult VariableOp::verify() {
  if (auto dense = dyn_cast_or_null<ElementsAttr>(getInitAttr()); dense && dense.getShapedType() != getTensorType()) { // C1
    return emitOpError("init has type ") << dense.getShapedType() << " but the variable has type " << getTensorType();
  }
  std::string fault = findSizeFault(getTensorType().getShape(), getTensorType().getElementType()); // C2
  return fault.empty() ? success() : emitOpError(fault);
}

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

LogicalResult verifySameElementType(Operation *op, RankedTensorType from, RankedTensorType to) {
  if (from.getElementType() != to.getElementType()) {
    return op->emitOpError("changes the element type from ") << from.getElementType() << " to " << to.getElementType();
  }
  return success();
}

} // namespace

LogicalResult VariableOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr parameter = getStateOfAttr();
  auto variable = parameter ? symbols.lookupNearestSymbolFrom<VariableOp>(*this, parameter) : VariableOp();
  if (parameter && (!variable || !variable.getTrainable())) { // C3
    return emitOpError("is a state of ") << parameter << ", which is not a trainable nn.variable";
  }
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyVariableUse(*this, symbols, getVariableAttr(), getType());
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyVariableUse(*this, symbols, getVariableAttr(), getValue().getType());
}

LogicalResult GradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyVariableUse(*this, symbols, getVariableAttr(), getType(), mayBeAlike);
}

LogicalResult IndexOp::verify() {
  if (static_cast<int64_t>(getStrides().size()) != getType().getRank()) { // C1
    return emitOpError("has ") << getStrides().size() << " strides for a result of rank " << getType().getRank();
  }
  return success();
}

LogicalResult RandomOp::verify() {
  if (getIndex().getType().getShape() != getType().getShape()) { // C1
    return emitOpError("index has type ") << getIndex().getType() << " but the result has type " << getType();
  }
  return success();
}

LogicalResult BitcastOp::verify() {
  Type from = getInput().getType().getElementType(), to = getType().getElementType();
  if (from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth()) { // C1
    return emitOpError("takes the bits of ") << from << " as " << to << ", of another width";
  }
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (static_cast<int64_t>(getDims().size()) != from.getRank()) { // C1
    return emitOpError("has ") << getDims().size() << " dims for an operand of rank " << from.getRank();
  }
  int64_t previous = -1;
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (dim <= previous || dim >= to.getRank()) { // C1
      return emitOpError("dims [") << getDims() << "] are not strictly increasing within rank " << to.getRank();
    }
    if (from.getDimSize(i) != to.getDimSize(dim)) { // C2
      return emitOpError("operand dim ") << i << " has size " << from.getDimSize(i) << " but result dim " << dim << " has size "
                                         << to.getDimSize(dim);
    }
    previous = dim;
  }
  return verifySameElementType(*this, from, to); // C3
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (from.getNumElements() != to.getNumElements()) { // C1
    return emitOpError("reshapes ") << from.getNumElements() << " elements into " << to.getNumElements();
  }
  return verifySameElementType(*this, from, to); // C2
}

LogicalResult PadOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  int64_t rank = from.getRank();
  if (to.getRank() != rank || static_cast<int64_t>(getLow().size()) != rank || static_cast<int64_t>(getInterior().size()) != rank) { // C1
    return emitOpError("has ranks ") << rank << " and " << to.getRank() << " with " << getLow().size() << " low and "
                                     << getInterior().size() << " interior entries";
  }
  for (int64_t d = 0; d < rank; ++d) {
    int64_t low = getLow()[d], interior = getInterior()[d];
    if (low < 0 || interior < 0) { // C1
      return emitOpError("has low ") << low << " and interior " << interior << " in dim " << d << "; neither may be negative";
    }
    // The last element lands at low + (size - 1) * (interior + 1).
    int64_t size = from.getDimSize(d), stride = 0;
    bool counted = size == 0 || !llvm::AddOverflow(interior, int64_t{1}, stride);
    std::optional<int64_t> last = counted ? llvm::checkedMulAdd(std::max<int64_t>(size - 1, 0), stride, low) : std::nullopt;
    if (!last || *last == std::numeric_limits<int64_t>::max()) { // C2
      return emitOpError("needs more rows in dim ") << d << " than can be counted";
    }
    int64_t needed = size == 0 ? low : *last + 1;
    if (needed > to.getDimSize(d)) { // C2
      return emitOpError("needs size ") << needed << " in dim " << d << " but the result has " << to.getDimSize(d);
    }
  }
  return verifySameElementType(*this, from, to); // C3
}

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

LogicalResult NormalizeOp::verify() {
  RankedTensorType input = getInput().getType(), scale = getScale().getType();
  int64_t previous = -1;
  SmallVector<int64_t> expected;
  for (int64_t dim : getDims()) {
    if (dim <= previous || dim >= input.getRank()) { // C1
      return emitOpError("dims [") << getDims() << "] are not strictly increasing within rank " << input.getRank();
    }
    expected.push_back(input.getDimSize(dim));
    previous = dim;
  }
  if (scale.getShape() != ArrayRef<int64_t>(expected)) { // C2
    return emitOpError("has scale of ") << scale << " but dims [" << getDims() << "] of " << input << " need " << scale.clone(expected);
  }
  if (scale.getElementType() != input.getElementType()) { // C3
    return emitOpError("normalizes ") << input << " by " << scale << "; element types differ";
  }
  return success();
}

LogicalResult SoftmaxOp::verify() {
  return getType().getRank() >= 1 ? success() : emitOpError("needs rank >= 1, has rank 0"); // C1
}

LogicalResult LogSoftmaxOp::verify() {
  return getType().getRank() >= 1 ? success() : emitOpError("needs rank >= 1, has rank 0"); // C1
}

} // namespace ashlar::nn
