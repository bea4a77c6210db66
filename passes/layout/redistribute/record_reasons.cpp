// SPDX-License-Identifier: Apache-2.0
//
// The ops on both sides of a redistribution. Other redistributions in between are looked through: they are for the same ops.

#include "passes/layout/redistribute/record_reasons.h"

#include "dialects/dist/reasons.h"
#include "dialects/nn/nn.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

using dist::EndAttr;
using dist::EndKind;
using Origins = llvm::SmallSetVector<ArrayAttr, 4>;

EndAttr endOf(nn::VariableOp variable, EndKind ofParameter, EndKind ofState) {
  return EndAttr::get(variable.getContext(), variable.getTrainable() ? ofParameter : ofState, variable.getSymName());
}

EndAttr endOf(EndKind kind, StringAttr name, unsigned index, MLIRContext *context) {
  return EndAttr::get(context, kind, name ? name.getValue() : "", "", index);
}

EndAttr endOf(Operation *op) {
  return EndAttr::get(op->getContext(), EndKind::Op, nn::getPath(op->getLoc()), op->getName().getStringRef());
}

// Collects what stands on both sides of the redistributions of one function.
class Reasons {
public:
  explicit Reasons(func::FuncOp function) : function(function), symbols(function->getParentOfType<ModuleOp>()) {}

  void record(dist::RedistributeOp op) {
    dist::Reason reason;
    Origins origins;
    reason.producer = findProducer(op.getInput(), origins);
    addOriginsOfParts(op.getInput(), op.getFrom().getLayout().partial, origins);
    addConsumers(op, reason.consumers, origins);
    reason.origins.assign(origins.begin(), origins.end());
    reason.from = op.getFrom();
    reason.to = op.getTo();
    reason.type = cast<RankedTensorType>(op.getType());
    op->setLoc(dist::withReasons(op.getLoc(), reason));
  }

private:
  static void add(ArrayAttr origin, Origins &origins) {
    if (origin && !origin.empty()) {
      origins.insert(origin);
    }
  }

  static void addOriginsOfOp(Operation *op, Origins &origins) {
    if (auto results = op->getAttrOfType<ArrayAttr>(dist::kOriginsAttr)) {
      llvm::for_each(results.getAsRange<ArrayAttr>(), [&](ArrayAttr origin) { add(origin, origins); });
    }
  }

  // Returns the value whose elements are redistributed to `value`, or `value`.
  static Value sourceOf(Value value) {
    while (auto redistribute = value.getDefiningOp<dist::RedistributeOp>()) {
      value = redistribute.getInput();
    }
    return value;
  }

  void addOrigins(Value value, Origins &origins) {
    Value source = sourceOf(value);
    if (auto argument = dyn_cast<BlockArgument>(source)) {
      add(function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), dist::kOriginAttr), origins);
    } else {
      addOriginsOfOp(source.getDefiningOp(), origins);
    }
  }

  // A value is partial because the op that makes it reduces a dim that an operand has split.
  void addOriginsOfParts(Value value, ArrayRef<StringAttr> partial, Origins &origins) {
    Operation *op = value.getDefiningOp();
    if (partial.empty() || !op) {
      return;
    }
    for (Value operand : op->getOperands()) {
      dist::LayoutAttr layout = dist::findLayout(operand);
      if (layout && llvm::any_of(partial, [&](StringAttr axis) { return layout.getLayout().uses(axis); })) {
        addOrigins(operand, origins);
      }
    }
  }

  EndAttr findProducer(Value value, Origins &origins) {
    value = sourceOf(value);
    addOrigins(value, origins);
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned index = argument.getArgNumber();
      return endOf(EndKind::Input, function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr), index, value.getContext());
    }
    Operation *op = value.getDefiningOp();
    auto read = dyn_cast<nn::ReadOp>(op);
    if (!read) {
      return endOf(op);
    }
    auto variable = symbols.lookup<nn::VariableOp>(read.getVariable());
    add(variable->getAttrOfType<ArrayAttr>(dist::kOriginAttr), origins);
    return endOf(variable, EndKind::Parameter, EndKind::State);
  }

  // Adds the uses of a value to `pending`, the first in program order last.
  static void addUses(Value value, SmallVectorImpl<OpOperand *> &pending) {
    SmallVector<OpOperand *> uses = llvm::map_to_vector(value.getUses(), [](OpOperand &use) { return &use; });
    llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() == b->getOwner() ? a->getOperandNumber() > b->getOperandNumber() : b->getOwner()->isBeforeInBlock(a->getOwner());
    });
    llvm::append_range(pending, uses);
  }

  void addConsumers(Value value, std::vector<EndAttr> &consumers, Origins &origins) {
    SmallVector<OpOperand *> pending;
    addUses(value, pending);
    while (!pending.empty()) {
      OpOperand *use = pending.pop_back_val();
      if (auto redistribute = dyn_cast<dist::RedistributeOp>(use->getOwner())) {
        addUses(redistribute, pending);
      } else if (EndAttr consumer = makeConsumer(*use, origins); !llvm::is_contained(consumers, consumer)) {
        consumers.push_back(consumer);
      }
    }
  }

  EndAttr makeConsumer(OpOperand &use, Origins &origins) {
    Operation *op = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      auto variable = symbols.lookup<nn::VariableOp>(write.getVariable());
      add(variable->getAttrOfType<ArrayAttr>(dist::kOriginAttr), origins);
      return endOf(variable, EndKind::ParameterUpdate, EndKind::StateUpdate);
    }
    if (isa<func::ReturnOp>(op)) {
      add(function.getResultAttrOfType<ArrayAttr>(index, dist::kOriginAttr), origins);
      return endOf(EndKind::Output, function.getResultAttrOfType<StringAttr>(index, nn::kNameAttr), index, op->getContext());
    }
    addOriginsOfOp(op, origins);
    auto gradient = dyn_cast<nn::GradientOp>(op);
    return gradient ? EndAttr::get(op->getContext(), EndKind::Gradient, gradient.getVariable()) : endOf(op);
  }

  func::FuncOp function;
  SymbolTable symbols;
};

} // namespace

void recordReasons(func::FuncOp function) {
  Reasons reasons(function);
  for (auto op : function.front().getOps<dist::RedistributeOp>()) {
    if (!op->hasAttr(dist::kExplicitAttr)) { // the model asks for those itself
      reasons.record(op);
    }
  }
}

} // namespace ashlar::layout
