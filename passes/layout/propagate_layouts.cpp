// SPDX-License-Identifier: Apache-2.0
//
// ashlar-propagate-layouts: one engine for all ops, which sees only their sharding rules.

#include "dialects/nn/nn.h"
#include "passes/layout/factor_split.h"
#include "passes/layout/given_layout.h"
#include "passes/layout/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_PROPAGATELAYOUTSPASS
#include "passes/layout/passes.h.inc"

namespace {

// What layouts are inferred for: a value, or a variable together with all values read from it.
struct Node {
  RankedTensorType type;
  Layout layout;
  bool isClosed = false;
  SmallVector<unsigned> rows; // that touch it
};

// An op as the engine sees it: a rule, and the nodes of its operands and results.
struct Row {
  ShardingRule rule;
  SmallVector<TensorFactors> tensors; // operands, then results
  SmallVector<unsigned> nodes;        // one a tensor
  SmallVector<bool> isBasic;          // for each factor: propagates before all others
};

// Returns the longest list that all can be extended to: Given [a], [a, b], []: [a, b]. Given [a, b], [a, c]: [a].
AxisList longestCompatible(ArrayRef<AxisList> lists) {
  AxisList best;
  for (const AxisList &list : lists) {
    best = list.size() > best.size() ? list : best;
  }
  for (const AxisList &list : lists) {
    size_t common = 0;
    while (common < list.size() && common < best.size() && list[common] == best[common]) {
      ++common;
    }
    if (common < list.size()) {
      best.truncate(common);
    }
  }
  return best;
}

// Infers layouts to a fixpoint. A layout only ever grows, by one axis at a time, and a row is looked at again only when a node it touches
// grew: time is linear in the program for a fixed mesh.
class Inference {
public:
  explicit Inference(MeshAttr mesh) : mesh(mesh) {}

  unsigned addNode(RankedTensorType type, std::optional<Layout> given) {
    Layout layout = given.value_or(Layout::replicated(type.getRank()));
    nodes.push_back({type, layout, given.has_value(), {}});
    return nodes.size() - 1;
  }

  void addRow(ShardingRule rule, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
    Row row{std::move(rule), {}, {}, {}};
    row.tensors = row.rule.operands;
    llvm::append_range(row.tensors, row.rule.results);
    llvm::append_range(row.nodes, operands);
    llvm::append_range(row.nodes, results);
    bool reduces = llvm::any_of(row.rule.factors, [](const Factor &factor) { return factor.kind == FactorKind::Reduction; });
    for (size_t factor = 0; factor < row.rule.factors.size(); ++factor) {
      row.isBasic.push_back(
          !reduces && llvm::all_of(row.tensors, [&](const TensorFactors &dims) { return dims.empty() || holdsFactor(dims, factor); }));
    }
    for (unsigned node : row.nodes) {
      nodes[node].rows.push_back(rows.size());
    }
    rows.push_back(std::move(row));
  }

  // Runs to the fixpoint: rows that wait for their basic factors go first.
  void run() {
    queued[0].assign(rows.size(), false);
    queued[1].assign(rows.size(), false);
    for (unsigned row = 0; row < rows.size(); ++row) {
      push(row);
    }
    while (!queue[0].empty() || !queue[1].empty()) {
      bool basicOnly = !queue[0].empty();
      auto &current = queue[basicOnly ? 0 : 1];
      unsigned row = current.front();
      current.pop_front();
      queued[basicOnly ? 0 : 1][row] = false;
      visit(rows[row], basicOnly);
    }
  }

  const Layout &getLayout(unsigned node) const { return nodes[node].layout; }

private:
  void push(unsigned row) {
    for (int level : {0, 1}) {
      if (!queued[level][row]) {
        queued[level][row] = true;
        queue[level].push_back(row);
      }
    }
  }

  void visit(Row &row, bool basicOnly) {
    SmallVector<FactorSplit> splits;
    for (auto [tensor, node] : llvm::zip_equal(row.tensors, row.nodes)) {
      splits.push_back(project(mesh, row.rule, tensor, nodes[node].layout));
    }
    for (size_t factor = 0; factor < row.rule.factors.size(); ++factor) {
      if (row.rule.factors[factor].kind != FactorKind::NeedReplication && (row.isBasic[factor] || !basicOnly)) {
        visitFactor(row, factor, splits);
      }
    }
  }

  void visitFactor(Row &row, int64_t factor, SmallVectorImpl<FactorSplit> &splits) {
    SmallVector<AxisList> lists;
    for (auto [tensor, split] : llvm::zip_equal(row.tensors, splits)) {
      if (holdsFactor(tensor, factor)) {
        lists.push_back(split[factor]);
      }
    }
    AxisList longest = longestCompatible(lists);
    for (size_t t = 0; t < row.tensors.size(); ++t) {
      if (holdsFactor(row.tensors[t], factor)) {
        extend(row, t, factor, longest, splits);
      }
    }
  }

  // Extends the split of `factor` in tensor `t` to `axes` as far as the tensor and the rest of the row allow.
  void extend(Row &row, size_t t, int64_t factor, ArrayRef<StringAttr> axes, SmallVectorImpl<FactorSplit> &splits) {
    Node &node = nodes[row.nodes[t]];
    FactorSplit &split = splits[t];
    // Axes that fit no factor of this row must not get lost.
    if (node.isClosed || split[factor].size() >= axes.size() || unproject(row.tensors[t], split) != node.layout) {
      return;
    }
    bool grew = false;
    for (StringAttr axis : axes.drop_front(split[factor].size())) {
      bool servesOther = llvm::any_of(splits, [&](const FactorSplit &other) {
        return llvm::any_of(llvm::enumerate(other), [&](auto item) {
          return static_cast<int64_t>(item.index()) != factor && llvm::is_contained(item.value(), axis);
        });
      });
      if (servesOther || node.layout.uses(axis) || !isSplittable(mesh, row.rule, row.tensors[t], split, factor, axis)) {
        break;
      }
      split[factor].push_back(axis);
      node.layout = unproject(row.tensors[t], split);
      grew = true;
    }
    if (grew) {
      llvm::for_each(node.rows, [&](unsigned other) { push(other); });
    }
  }

  MeshAttr mesh;
  std::vector<Node> nodes;
  std::vector<Row> rows;
  std::deque<unsigned> queue[2]; // rows to visit: [0] for their basic factors, [1] for all
  std::vector<bool> queued[2];
};

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
    variables[variable.getSymNameAttr()] = inference.addNode(variable.getTensorType(), given);
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
      values[argument] = inference.addNode(type, given);
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
      results.push_back(values[result] = inference.addNode(cast<RankedTensorType>(result.getType()), std::nullopt));
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
      unsigned node = inference.addNode(type, given);
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
    MeshAttr mesh = requireMesh(getOperation());
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
