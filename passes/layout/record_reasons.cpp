// SPDX-License-Identifier: Apache-2.0
//
// The ops on both sides of a redistribution. Other redistributions in between are looked through: they are for the same ops.

#include "passes/layout/record_reasons.h"

#include "dialects/dist/reasons.h"
#include "dialects/nn/nn.h"
#include "passes/layout/describe_op.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

using Texts = llvm::SmallSetVector<StringRef, 4>;

// "parameter fc1.weight"; "state" for a variable that is not trained.
std::string describeVariable(nn::VariableOp variable) {
  return (variable.getTrainable() ? "parameter " : "state ") + variable.getSymName().str();
}

// "input x", "argument 0" without a name.
std::string describe(StringRef named, StringRef numbered, StringAttr name, unsigned index) {
  return name ? (named + " " + name.getValue()).str() : (numbered + " " + Twine(index)).str();
}

// Collects what stands on both sides of the redistributions of one function.
class Reasons {
public:
  explicit Reasons(func::FuncOp function) : function(function), symbols(function->getParentOfType<ModuleOp>()) {}

  void record(dist::RedistributeOp op) {
    dist::Reason reason;
    Texts origins;
    reason.producer = describeProducer(op.getInput(), origins);
    addOriginsOfParts(op.getInput(), op.getFrom().getLayout().partial, origins);
    addConsumers(op, reason.consumers, origins);
    reason.origins.assign(origins.begin(), origins.end());
    reason.from = op.getFrom();
    reason.to = op.getTo();
    reason.type = cast<RankedTensorType>(op.getType());
    op->setLoc(dist::withReasons(op.getLoc(), reason));
  }

private:
  static void add(StringAttr origin, Texts &origins) {
    if (origin && !origin.empty()) {
      origins.insert(origin.getValue());
    }
  }

  static void addOrigins(Operation *op, Texts &origins) {
    if (auto texts = op->getAttrOfType<ArrayAttr>(dist::kOriginsAttr)) {
      llvm::for_each(texts.getAsRange<StringAttr>(), [&](StringAttr text) { add(text, origins); });
    }
  }

  void addOrigins(Value value, Texts &origins) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      add(function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), dist::kOriginAttr), origins);
    } else if (auto redistribute = value.getDefiningOp<dist::RedistributeOp>()) {
      addOrigins(redistribute.getInput(), origins);
    } else {
      addOrigins(value.getDefiningOp(), origins);
    }
  }

  // A value is partial because the op that makes it reduces a dim that an operand has split.
  void addOriginsOfParts(Value value, ArrayRef<StringAttr> partial, Texts &origins) {
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

  std::string describeProducer(Value value, Texts &origins) {
    addOrigins(value, origins);
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned index = argument.getArgNumber();
      return describe("input", "argument", function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr), index);
    }
    Operation *op = value.getDefiningOp();
    if (auto redistribute = dyn_cast<dist::RedistributeOp>(op)) {
      return describeProducer(redistribute.getInput(), origins);
    }
    auto read = dyn_cast<nn::ReadOp>(op);
    return read ? describeVariable(symbols.lookup<nn::VariableOp>(read.getVariable())) : describeOp(op);
  }

  void addConsumers(Value value, std::vector<std::string> &consumers, Texts &origins) {
    SmallVector<OpOperand *> uses = llvm::map_to_vector(value.getUses(), [](OpOperand &use) { return &use; });
    llvm::sort(uses, [](OpOperand *a, OpOperand *b) {
      return a->getOwner() == b->getOwner() ? a->getOperandNumber() < b->getOperandNumber() : a->getOwner()->isBeforeInBlock(b->getOwner());
    });
    for (OpOperand *use : uses) {
      if (auto redistribute = dyn_cast<dist::RedistributeOp>(use->getOwner())) {
        addConsumers(redistribute, consumers, origins);
      } else if (std::string text = describeConsumer(*use, origins); !llvm::is_contained(consumers, text)) {
        consumers.push_back(text);
      }
    }
  }

  std::string describeConsumer(OpOperand &use, Texts &origins) {
    Operation *op = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      auto variable = symbols.lookup<nn::VariableOp>(write.getVariable());
      add(variable->getAttrOfType<StringAttr>(dist::kOriginAttr), origins);
      return "update of " + describeVariable(variable);
    }
    if (isa<func::ReturnOp>(op)) {
      add(function.getResultAttrOfType<StringAttr>(index, dist::kOriginAttr), origins);
      return describe("output", "result", function.getResultAttrOfType<StringAttr>(index, nn::kNameAttr), index);
    }
    addOrigins(op, origins);
    auto gradient = dyn_cast<nn::GradientOp>(op);
    return gradient ? "gradient of " + gradient.getVariable().str() : describeOp(op);
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
