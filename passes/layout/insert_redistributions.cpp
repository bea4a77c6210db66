// SPDX-License-Identifier: Apache-2.0
//
// ashlar-insert-redistributions: gives each op its operands as the split of factors it computes with takes them, and its results the
// layouts of their values.

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"
#include "passes/layout/copy_sources.h"
#include "passes/layout/delay_reductions.h"
#include "passes/layout/factor_split.h"
#include "passes/layout/given_layout.h"
#include "passes/layout/passes.h"
#include "passes/layout/record_reasons.h"
#include "passes/layout/redistribution_trees.h"
#include "passes/layout/split_choice.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_INSERTREDISTRIBUTIONSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Finds the values that only become the gradient of one variable, by ops that keep their shape: terms of its sum, among others. Walks from
// the last op to the first, so that the users of a value are known before it.
DenseMap<Value, StringRef> findGradientTerms(Block &body) {
  DenseMap<Value, StringRef> variableOf; // "" where there are several, or the value goes elsewhere too
  for (Operation &op : llvm::reverse(body)) {
    auto gradient = dyn_cast<nn::GradientOp>(op);
    for (Value operand : op.getOperands()) {
      bool keepsShape = op.getNumResults() == 1 && typeOf(op.getResult(0)).getShape() == typeOf(operand).getShape();
      StringRef variable = gradient ? gradient.getVariable() : keepsShape ? variableOf.lookup(op.getResult(0)) : StringRef();
      auto [known, isFirst] = variableOf.try_emplace(operand, variable);
      known->second = isFirst || known->second == variable ? variable : StringRef();
    }
  }
  return variableOf;
}

// Returns how the report calls an op: its module path, or its name when it has none.
StringRef nameOp(Operation *op) {
  StringRef path = nn::getPath(op->getLoc());
  return path.empty() ? op->getName().getStringRef() : path;
}

// Rewrites one function op by op. State: the redistributions made so far, by value and target layout, so that each is made once.
class FunctionRewrite {
public:
  FunctionRewrite(MeshAttr mesh, dist::Planner &planner, const SymbolTable &symbols)
      : mesh(mesh), planner(planner), symbols(symbols), builder(symbols.getOp()->getContext()) {}

  LogicalResult run(func::FuncOp function) {
    gradientTerms = findGradientTerms(function.front());
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      if (failed(rewrite(&op))) {
        return failure();
      }
    }
    return success();
  }

private:
  LogicalResult rewrite(Operation *op) {
    if (isa<nn::ReadOp>(op)) {
      return success();
    }
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      auto variable = symbols.lookup<nn::VariableOp>(write.getVariable());
      auto layout = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
      return require(write.getValueMutable(), layout, "next value of " + write.getVariable());
    }
    if (isa<func::ReturnOp>(op)) {
      auto function = cast<func::FuncOp>(op->getParentOp());
      for (OpOperand &operand : op->getOpOperands()) {
        unsigned index = operand.getOperandNumber();
        auto layout = function.getResultAttrOfType<dist::LayoutAttr>(index, dist::kLayoutAttr);
        if (failed(require(operand, layout, "result " + Twine(index) + " of " + function.getName()))) {
          return failure();
        }
      }
      return success();
    }
    if (op->hasAttr(dist::kExplicitAttr)) {
      return keepPlaced(op);
    }
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    return ruled ? rewriteRuled(op, ruled.getShardingRule()) : op->emitOpError("has no sharding rule");
  }

  LogicalResult rewriteRuled(Operation *op, const ShardingRule &rule) {
    auto hasLayout = [](Value value) { return static_cast<bool>(dist::findLayout(value)); };
    if (!llvm::all_of(op->getOperands(), hasLayout) || !llvm::all_of(op->getResults(), hasLayout)) {
      return op->emitOpError("has operands or results without a layout; run ashlar-propagate-layouts first");
    }
    FactorSplit split = chooseSplit(mesh, planner, op, rule);
    op->removeAttr(dist::kOperandLayoutsAttr);
    for (OpOperand &operand : op->getOpOperands()) {
      Layout layout = unproject(rule.operands[operand.getOperandNumber()], split);
      if (failed(require(operand, dist::LayoutAttr::get(op->getContext(), layout), nameOp(op)))) {
        return failure();
      }
    }
    FailureOr<SmallVector<Layout>> computed = resultLayouts(rule, split);
    assert(succeeded(computed) && "chosen splits have one reduction");
    SmallVector<Attribute> attributes;
    builder.setInsertionPointAfter(op);
    for (auto [result, layout] : llvm::zip_equal(op->getResults(), *computed)) {
      dist::LayoutAttr from = dist::LayoutAttr::get(op->getContext(), layout), to = dist::findLayout(result);
      attributes.push_back(from);
      if (from != to) {
        StringRef variable = layout.isPartial() ? gradientTerms.lookup(result) : StringRef();
        std::string cause = variable.empty() ? nameOp(op).str() : ("gradient of " + variable).str();
        Value value = redistribute(result, from, to, cause);
        result.replaceAllUsesExcept(value, value.getDefiningOp());
      }
    }
    if (!attributes.empty()) {
      op->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(attributes));
    }
    return success();
  }

  // An op of a model that places its collectives itself stays as it is. Only constants may have to be cut for it, which sends nothing.
  LogicalResult keepPlaced(Operation *op) {
    auto layouts = op->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr);
    for (OpOperand &operand : op->getOpOperands()) {
      auto wanted = layouts ? dyn_cast<dist::LayoutAttr>(layouts[operand.getOperandNumber()]) : dist::LayoutAttr();
      Operation *producer = operand.get().getDefiningOp();
      bool isFree = producer && isSource(producer);
      if (!wanted || (!isFree && dist::findLayout(operand.get()) != wanted)) {
        return op->emitOpError("operand ") << operand.getOperandNumber() << " has layout " << dist::findLayout(operand.get())
                                           << " but is taken in " << wanted << ", and nothing is placed in a model of mode HYBRID";
      }
      if (failed(require(operand, wanted, nameOp(op)))) {
        return failure();
      }
    }
    op->removeAttr(dist::kOperandLayoutsAttr);
    return success();
  }

  // Makes an operand come in `layout`.
  LogicalResult require(OpOperand &operand, dist::LayoutAttr layout, const Twine &cause) {
    Value value = operand.get();
    dist::LayoutAttr from = dist::findLayout(value);
    if (!from || !layout) {
      return operand.getOwner()->emitOpError("operand ")
             << operand.getOperandNumber() << " has no layout; run ashlar-propagate-layouts first";
    }
    if (from != layout) {
      Value &made = redistributed[{value, layout}];
      if (!made) {
        builder.setInsertionPointAfterValue(value);
        made = redistribute(value, from, layout, cause.str());
      }
      operand.set(made);
    }
    return success();
  }

  Value redistribute(Value value, dist::LayoutAttr from, dist::LayoutAttr to, const std::string &cause) {
    auto op = dist::RedistributeOp::create(builder, value.getLoc(), value.getType(), value, from, to, builder.getStringAttr(cause));
    op->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(to));
    return op;
  }

  MeshAttr mesh;
  dist::Planner &planner;
  const SymbolTable &symbols;
  OpBuilder builder;
  DenseMap<Value, StringRef> gradientTerms; // of the function
  DenseMap<std::pair<Value, Attribute>, Value> redistributed;
};

struct InsertRedistributions : impl::InsertRedistributionsPassBase<InsertRedistributions> {
  using InsertRedistributionsPassBase::InsertRedistributionsPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    dist::Planner planner(dist::findMesh(getOperation()));
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(FunctionRewrite(mesh, planner, symbols).run(function))) {
        return signalPassFailure();
      }
      shareRedistributions(function, planner); // first: sums that only lead to pieces of them are one redistribution to delay
      delayReductions(function, planner, mesh);
      shareRedistributions(function, planner);
      recordReasons(function);
    }
  }
};

} // namespace

} // namespace ashlar::layout
