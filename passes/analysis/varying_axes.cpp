// SPDX-License-Identifier: Apache-2.0

#include "passes/analysis/varying_axes.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/repeat.h"

using namespace mlir;

namespace ashlar::analysis {

static VaryingAxes::AxisSet axesOfLayout(dist::LayoutAttr attribute) {
  VaryingAxes::AxisSet axes;
  if (attribute) {
    const dist::Layout layout = attribute.getLayout();
    for (const dist::AxisList &list : layout.dims) {
      axes.insert(list.begin(), list.end());
    }
    axes.insert(layout.partial.begin(), layout.partial.end());
  }
  return axes;
}

VaryingAxes::VaryingAxes(func::FuncOp function, const SymbolTable &symbols) : symbols(symbols) {
  for (BlockArgument argument : function.getArguments()) {
    axes[argument] = axesOfLayout(function.getArgAttrOfType<dist::LayoutAttr>(argument.getArgNumber(), dist::kLayoutAttr));
  }
}

void VaryingAxes::visit(Operation *op) {
  if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
    return visitRepeat(repeat);
  }
  const AxisSet found = axesOfResults(op);
  for (Value result : op->getResults()) {
    axes[result] = found;
  }
}

void VaryingAxes::visitRepeat(nn::RepeatOp repeat) {
  for (auto [operand, argument] : llvm::zip_equal(repeat.getEntering(), repeat.getBody().getArguments())) {
    axes[argument] = axes.lookup(operand);
  }
  auto add = [&](AxisSet &to, Value from) {
    const AxisSet own = axes.lookup(from);
    const auto before = to.size();
    to.insert(own.begin(), own.end());
    return to.size() != before;
  };
  for (bool changed = true; changed;) {
    for (Operation &inner : repeat.getBody().front().without_terminator()) {
      visit(&inner);
    }
    changed = false;
    for (auto [argument, next] : llvm::zip(repeat.getCarriedArguments(), repeat.getYielded())) {
      changed |= add(axes[argument], next);
    }
  }
  for (auto [i, yielded, result] : llvm::enumerate(repeat.getYielded(), repeat.getResults())) {
    AxisSet found;
    add(found, yielded);
    if (i < repeat.getCarried().size()) { // without iterations it is the first value
      add(found, repeat.getCarried()[i]);
    }
    if (repeat.getCondition()) {
      add(found, repeat.getCondition());
    }
    axes[result] = found;
  }
}

VaryingAxes::AxisSet VaryingAxes::axesOfResults(Operation *op) const {
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    return axesOfLayout(symbols.lookup<nn::VariableOp>(read.getVariable())->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr));
  }
  AxisSet found;
  for (Value operand : op->getOperands()) {
    const AxisSet own = axes.lookup(operand);
    found.insert(own.begin(), own.end());
  }
  op->walk([&](Operation *inner) {
    auto own = inner != op && isa<dist::DistDialect>(inner->getDialect()) ? inner->getAttrOfType<ArrayAttr>("axes") : ArrayAttr();
    for (Attribute axis : own ? own.getValue() : ArrayRef<Attribute>()) {
      found.insert(cast<StringAttr>(axis));
    }
  });
  if (auto own = isa<dist::DistDialect>(op->getDialect()) ? op->getAttrOfType<ArrayAttr>("axes") : ArrayAttr()) {
    for (auto axis : own.getAsRange<StringAttr>()) {
      if (isa<dist::AllReduceOp, dist::AllGatherOp, dist::BroadcastOp>(op)) {
        found.erase(axis);
      } else {
        found.insert(axis);
      }
    }
  }
  return found;
}

} // namespace ashlar::analysis
