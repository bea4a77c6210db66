// SPDX-License-Identifier: Apache-2.0
//
// ashlar-propagate-layouts: states a module as an inference problem and writes the solution back.

#include "dialects/nn/nn.h"
#include "passes/layout/given_layout.h"
#include "passes/layout/inference.h"
#include "passes/layout/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_PROPAGATELAYOUTSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Builds the inference problem of a module and writes its solution back.
class ModuleLayouts {
public:
  ModuleLayouts(ModuleOp module, MeshAttr mesh, bool splitVariables)
      : module(module), mesh(mesh), inference(mesh), splitVariables(splitVariables) {}

  LogicalResult run() {
    for (auto variable : module.getOps<nn::VariableOp>()) {
      if (failed(addVariable(variable))) {
        return failure();
      }
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      if (failed(addFunction(function))) {
        return failure();
      }
    }
    inference.run();
    write();
    return success();
  }

private:
  LogicalResult addVariable(nn::VariableOp variable) {
    std::optional<Layout> given;
    if (auto attribute = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr)) {
      given = attribute.getLayout();
      if (failed(checkGivenLayout(variable, "variable @" + variable.getSymName(), mesh, variable.getTensorType(), *given))) {
        return failure();
      }
    } else if (!splitVariables) {
      given = Layout::replicated(variable.getTensorType().getRank());
    }
    variables[variable.getSymNameAttr()] = inference.addNode(variable.getTensorType().getRank(), given);
    return success();
  }

  LogicalResult addFunction(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      std::string name = nameArgument(function, argument.getArgNumber());
      if (!type) {
        return function.emitError() << name << " has type " << argument.getType() << ", which is no ranked tensor";
      }
      std::optional<Layout> given;
      if (dist::LayoutAttr attribute = dist::findLayout(argument)) {
        given = attribute.getLayout();
        if (failed(checkGivenLayout(function, name, mesh, type, *given))) {
          return failure();
        }
      }
      values[argument] = inference.addNode(type.getRank(), given);
    }
    for (Operation &op : function.front()) {
      if (failed(addOp(op))) {
        return failure();
      }
    }
    return success();
  }

  LogicalResult addOp(Operation &op) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      values[read] = variables.at(read.getVariableAttr().getAttr());
      return success();
    }
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      addIdentity(write.getValue(), variables.at(write.getVariableAttr().getAttr()));
      return success();
    }
    if (auto end = dyn_cast<func::ReturnOp>(op)) {
      return addReturn(end);
    }
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled) {
      return op.emitOpError("has no sharding rule, so its layouts cannot be inferred");
    }
    SmallVector<unsigned> operands, results;
    for (Value operand : op.getOperands()) {
      operands.push_back(values.at(operand));
    }
    for (Value result : op.getResults()) {
      results.push_back(values[result] = inference.addNode(cast<RankedTensorType>(result.getType()).getRank(), std::nullopt));
    }
    inference.addRow(ruled.getShardingRule(), operands, results);
    return success();
  }

  // A value that leaves through another node takes its layout, and gives it.
  void addIdentity(Value value, unsigned node) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    inference.addRow(ShardingRule::elementwise(shape, /*numOperands=*/1), values.at(value), node);
  }

  // Results without a given layout keep that of the value.
  LogicalResult addReturn(func::ReturnOp end) {
    auto function = cast<func::FuncOp>(end->getParentOp());
    for (OpOperand &operand : end->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      auto type = cast<RankedTensorType>(operand.get().getType());
      std::optional<Layout> given;
      if (auto attribute = function.getResultAttrOfType<dist::LayoutAttr>(index, dist::kLayoutAttr)) {
        given = attribute.getLayout();
        if (failed(checkGivenLayout(function, "result " + Twine(index) + " of @" + function.getName(), mesh, type, *given))) {
          return failure();
        }
      }
      unsigned node = inference.addNode(type.getRank(), given);
      addIdentity(operand.get(), node);
      results.push_back({function, index, node});
    }
    return success();
  }

  void write() {
    MLIRContext *context = module.getContext();
    auto toAttr = [&](unsigned node) { return dist::LayoutAttr::get(context, inference.getLayout(node)); };
    for (auto variable : module.getOps<nn::VariableOp>()) {
      variable->setAttr(dist::kLayoutAttr, toAttr(variables.at(variable.getSymNameAttr())));
    }
    for (auto &[function, index, node] : results) {
      function.setResultAttr(index, dist::kLayoutAttr, toAttr(node));
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      for (BlockArgument argument : function.getArguments()) {
        function.setArgAttr(argument.getArgNumber(), dist::kLayoutAttr, toAttr(values.at(argument)));
      }
      for (Operation &op : function.front()) {
        SmallVector<Attribute> layouts =
            llvm::map_to_vector(op.getResults(), [&](Value value) -> Attribute { return toAttr(values.at(value)); });
        if (!layouts.empty()) {
          op.setAttr(dist::kLayoutsAttr, ArrayAttr::get(context, layouts));
        }
      }
    }
  }

  struct Result {
    func::FuncOp function;
    unsigned index, node;
  };

  ModuleOp module;
  MeshAttr mesh;
  Inference inference;
  bool splitVariables;
  DenseMap<StringAttr, unsigned> variables;
  DenseMap<Value, unsigned> values;
  SmallVector<Result> results;
};

// Copies ops without operands (constants, indices) for each use, so that each copy takes the layout its one user wants.
void copySources(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    if (!isa<ShardingRuleOpInterface>(op) || op.getNumOperands() != 0 || op.use_empty()) {
      continue;
    }
    for (OpOperand &use : llvm::make_early_inc_range(llvm::drop_begin(op.getUses()))) {
      use.set(OpBuilder(&op).clone(op)->getResult(0));
    }
  }
}

struct PropagateLayouts : impl::PropagateLayoutsPassBase<PropagateLayouts> {
  using PropagateLayoutsPassBase::PropagateLayoutsPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    llvm::for_each(getOperation().getOps<func::FuncOp>(), copySources);
    if (failed(ModuleLayouts(getOperation(), mesh, splitVariables).run())) {
      signalPassFailure();
    }
  }
};

} // namespace

} // namespace ashlar::layout
