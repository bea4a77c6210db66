// SPDX-License-Identifier: Apache-2.0
//
// The fixpoint of layout inference.

#include "passes/layout/inference/inference.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;

namespace ashlar::layout {

namespace {

// Returns the longest list that all can be extended to: Given [a], [a, b], []: [a, b]. Given [a, b], [a, c]: [a].
ArrayRef<StringAttr> longestCompatible(ArrayRef<ArrayRef<StringAttr>> lists) {
  ArrayRef<StringAttr> best;
  for (ArrayRef<StringAttr> list : lists) {
    best = list.size() > best.size() ? list : best;
  }
  for (ArrayRef<StringAttr> list : lists) {
    size_t common = 0;
    while (common < list.size() && common < best.size() && list[common] == best[common]) {
      ++common;
    }
    if (common < list.size()) {
      best = best.take_front(common);
    }
  }
  return best;
}

// Returns true when inference may split what `split` leaves of a factor by one more axis: evenly, or where padding can be (isWholeDim) and
// every device gets an element, unless some `mayIdle`.
bool isWorthSplitting(MeshAttr mesh, const ShardingRule &rule, ArrayRef<TensorFactors> tensors, const FactorSplit &split, int64_t factor,
                      StringAttr axis, bool mayIdle) {
  int64_t size = rule.smallestSize(factor);
  int64_t left = split[factor].empty() ? size : dist::pieceSizes(mesh, size, split[factor]).back();
  return left % mesh.axisSize(axis) == 0 || ((mayIdle || left > mesh.axisSize(axis)) && isWholeDim(tensors, factor));
}

} // namespace

Inference::Inference(const LayoutProblem &problem, bool mayIdle) : mesh(problem.mesh), mayIdle(mayIdle) {
  nodes.reserve(problem.tensors.size()); // what grows is copied: moving small vectors may throw
  rows.reserve(problem.ops.size());
  llvm::for_each(problem.tensors, [&](const ProblemTensor &tensor) { addNode(tensor); });
  DenseMap<Type, std::shared_ptr<const OpRule>> copies; // from a tensor of a type to another
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    SmallVector<unsigned> operands;
    for (auto [value, taken] : llvm::zip_equal(op.operands, op.taken)) {
      unsigned tensor = problem.values[value].tensor;
      if (taken) { // what is held otherwise than it is taken gives its layout nevertheless, and takes it
        RankedTensorType type = problem.tensors[tensor].type;
        std::shared_ptr<const OpRule> &copy = copies[type];
        copy = copy ? copy : std::make_shared<OpRule>(ShardingRule::elementwise(type.getShape(), /*numOperands=*/1));
        addRow(number, copy, tensor, *taken);
      }
      operands.push_back(taken.value_or(tensor));
    }
    if (op.rule) {
      SmallVector<unsigned> results = llvm::map_to_vector(op.results, [&](unsigned value) { return problem.values[value].tensor; });
      addRow(number, op.rule, operands, results);
    }
  }
}

void Inference::addNode(const ProblemTensor &tensor) {
  unsigned number = nodes.size();
  int64_t rank = tensor.type.getRank();
  Node &node = nodes.emplace_back();
  // An axis of size 1 splits nothing, and in a dim of several factors nobody could say which of them it belongs to.
  node.layout = tensor.given ? dist::withoutUnitAxes(mesh, tensor.given->layout) : Layout::replicated(rank);
  node.open.assign(rank, true);
  if (tensor.given) {
    node.open.assign(tensor.given->open.begin(), tensor.given->open.end());
  }
  node.priority = tensor.given ? tensor.given->priority : std::numeric_limits<int64_t>::min();
  if (tensor.suggested) {
    suggested.emplace_back(number, tensor);
  }
  for (const AxisList &axes : node.layout.dims) {
    for (StringAttr axis : axes) {
      node.origins.push_back({axis, number, std::nullopt});
    }
  }
}

void Inference::addRow(unsigned op, std::shared_ptr<const OpRule> rule, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  Row row{op, std::move(rule), {}};
  llvm::append_range(row.nodes, operands);
  llvm::append_range(row.nodes, results);
  for (unsigned node : row.nodes) {
    nodes[node].rows.push_back(rows.size());
  }
  rows.push_back(std::move(row));
}

void Inference::run() {
  queued[0].assign(rows.size(), false);
  queued[1].assign(rows.size(), false);
  for (unsigned row = 0; row < rows.size(); ++row) {
    push(row); // in the order in which they were added
  }
  std::map<int64_t, SmallVector<unsigned>> turns;
  for (auto [number, node] : llvm::enumerate(nodes)) {
    turns[node.priority].push_back(number);
  }
  for (auto &[priority, members] : turns) {
    for (unsigned number : members) {
      nodes[number].takesPart = true;
      llvm::for_each(nodes[number].rows, [&](unsigned row) { push(row); });
    }
    if (priority != std::numeric_limits<int64_t>::min()) { // those that nothing is said of start with the first that are given
      runToFixpoint();
    }
  }
  for (auto [number, tensor] : suggested) {
    addSuggested(number, tensor);
  }
  runToFixpoint();
}

// Adds the axes that were suggested of a tensor to the dims that are open to them.
void Inference::addSuggested(unsigned number, const ProblemTensor &tensor) {
  Node &node = nodes[number];
  for (auto [dim, axes] : llvm::enumerate(tensor.suggested.getLayout().dims)) {
    for (StringAttr axis : axes) {
      AxisList longer = node.layout.dims[dim];
      longer.push_back(axis);
      if (mesh.axisSize(axis) > 1 && node.open[dim] && !node.layout.uses(axis) && dist::isEven(mesh, tensor.type.getDimSize(dim), longer)) {
        node.layout.dims[dim] = longer;
        node.origins.push_back({axis, number, std::nullopt});
        llvm::for_each(node.rows, [&](unsigned row) { push(row); });
      }
    }
  }
}

void Inference::runToFixpoint() {
  while (!queue[0].empty() || !queue[1].empty()) {
    bool basicOnly = !queue[0].empty();
    auto &current = queue[basicOnly ? 0 : 1];
    unsigned row = current.front();
    current.pop_front();
    queued[basicOnly ? 0 : 1][row] = false;
    visit(row, basicOnly);
  }
}

void Inference::push(unsigned row) {
  for (int level : {0, 1}) {
    const bool hasFactors = llvm::is_contained(rows[row].rule->isBasic, level == 0); // basic ones are done when the others' turn comes
    if (hasFactors && !queued[level][row]) {
      queued[level][row] = true;
      queue[level].push_back(row);
    }
  }
}

void Inference::visit(unsigned number, bool basicOnly) {
  const Row &row = rows[number];
  auto hasAxes = [&](unsigned node) { return nodes[node].takesPart && !nodes[node].layout.isReplicated(); };
  if (llvm::none_of(row.nodes, hasAxes)) { // nothing to hand on
    return;
  }
  const Layout &first = nodes[row.nodes.front()].layout;
  auto isEqual = [&](unsigned node) { return nodes[node].takesPart && nodes[node].layout == first; };
  if (row.rule->isPointwise && llvm::all_of(row.nodes, isEqual)) {
    return;
  }
  SmallVector<FactorSplit> splits;
  for (auto [tensor, node] : llvm::zip_equal(row.rule->tensors, row.nodes)) {
    splits.push_back(nodes[node].takesPart ? project(mesh, *row.rule, tensor, nodes[node].layout) : FactorSplit(row.rule->factors.size()));
  }
  for (size_t factor = 0; factor < row.rule->factors.size(); ++factor) {
    if (row.rule->factors[factor].kind != FactorKind::NeedReplication && (row.rule->isBasic[factor] || !basicOnly)) {
      visitFactor(number, factor, splits);
    }
  }
}

void Inference::visitFactor(unsigned number, int64_t factor, SmallVectorImpl<FactorSplit> &splits) {
  const Row &row = rows[number];
  SmallVector<ArrayRef<StringAttr>> lists;
  for (auto [tensor, split, node] : llvm::zip_equal(row.rule->tensors, splits, row.nodes)) {
    if (holdsFactor(tensor, factor) && nodes[node].takesPart) {
      lists.push_back(split[factor]);
    }
  }
  const AxisList longest(longestCompatible(lists)); // a copy: the lists grow
  if (longest.empty()) {
    return;
  }
  for (size_t t = 0; t < row.rule->tensors.size(); ++t) {
    if (holdsFactor(row.rule->tensors[t], factor)) {
      extend(number, t, factor, longest, splits);
    }
  }
}

// Returns true when axes may be added to all dims of the tensor that hold the factor.
bool Inference::isOpen(const Node &node, const TensorFactors &tensor, int64_t factor) const {
  return llvm::all_of(llvm::zip_equal(tensor, node.open), [&](auto item) {
    auto [dim, open] = item;
    return open || !llvm::is_contained(dim, factor);
  });
}

// Returns the origin of an axis that a tensor takes for `factor` from the others of the row: that of the first one that has it there.
const AxisOrigin &Inference::traceAxis(const Row &row, int64_t factor, StringAttr axis, ArrayRef<FactorSplit> splits) const {
  for (auto [node, split] : llvm::zip_equal(row.nodes, splits)) {
    if (!llvm::is_contained(split[factor], axis)) {
      continue;
    }
    for (const AxisOrigin &origin : nodes[node].origins) {
      if (origin.axis == axis) {
        return origin;
      }
    }
  }
  llvm_unreachable("an axis comes from another tensor of the row");
}

// Extends the split of `factor` in tensor `t` to `axes` as far as the tensor and the rest of the row allow.
void Inference::extend(unsigned number, size_t t, int64_t factor, ArrayRef<StringAttr> axes, SmallVectorImpl<FactorSplit> &splits) {
  const Row &row = rows[number];
  Node &node = nodes[row.nodes[t]];
  FactorSplit &split = splits[t];
  // Axes that fit no factor of this row must not get lost.
  if (!node.takesPart || !isOpen(node, row.rule->tensors[t], factor) || split[factor].size() >= axes.size() ||
      unproject(row.rule->tensors[t], split) != node.layout) {
    return;
  }
  bool grew = false;
  for (StringAttr axis : axes.drop_front(split[factor].size())) {
    bool servesOther = llvm::any_of(splits, [&](const FactorSplit &other) {
      return llvm::any_of(llvm::enumerate(other), [&](auto item) {
        return static_cast<int64_t>(item.index()) != factor && llvm::is_contained(item.value(), axis);
      });
    });
    if (servesOther || node.layout.uses(axis) || !isSplittable(mesh, *row.rule, row.rule->tensors[t], split, factor, axis) ||
        !isWorthSplitting(mesh, *row.rule, row.rule->tensors, split, factor, axis, mayIdle)) {
      break;
    }
    unsigned source = traceAxis(row, factor, axis, splits).source;
    node.origins.push_back({axis, source, row.op});
    split[factor].push_back(axis);
    node.layout = unproject(row.rule->tensors[t], split);
    grew = true;
  }
  if (grew) {
    llvm::for_each(node.rows, [&](unsigned other) { push(other); });
  }
}

} // namespace ashlar::layout
