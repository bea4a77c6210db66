// SPDX-License-Identifier: Apache-2.0
//
// Sizes of views, operands first.

#include "passes/lower/fusion/view_table.h"

#include "passes/lower/kernels/fusible.h"
#include "passes/lower/kernels/kernel_size.h"

#include "dialects/dist/dist.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

bool ViewTable::isPlace(Value value) const {
  Operation *def = value.getDefiningOp();
  return def && (isa<dist::AxisIndexOp>(def) || entries.lookup(def).isPlace);
}

bool ViewTable::isPlaceArithmetic(Operation &op) const {
  return isa<nn::AddOp, nn::MulOp, nn::SubOp>(op) && typeOf(op.getResult(0)).getElementType().isInteger() &&
         llvm::all_of(op.getOperands(), [&](Value operand) { return isPlace(operand); });
}

bool ViewTable::note(Operation &op) {
  bool isArithmetic = isPlaceArithmetic(op);
  if (!isView(&op) && !isArithmetic) {
    return false;
  }
  Entry entry{lower::codeOf(op), isArithmetic};
  for (Value operand : op.getOperands()) {
    entry.code += codeOf(operand);
  }
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
    entry.isPlace = isPlace(broadcast.getInput());
  } else if (isa<nn::ConstantOp, nn::IndexOp>(op)) {
    entry.isPlace = typeOf(op.getResult(0)).getElementType().isInteger();
  }
  return entry.code <= kMaxViewCode && entries.try_emplace(&op, entry).second;
}

int64_t ViewTable::codeOf(Value value) const {
  Operation *def = value.getDefiningOp();
  auto found = def ? entries.find(def) : entries.end();
  return found == entries.end() ? 1 : found->second.code;
}

} // namespace ashlar::lower
