// SPDX-License-Identifier: Apache-2.0
//
// The fixpoint of layout inference.

#include "passes/layout/inference.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

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

// Returns true when inference may split what `split` leaves of a factor by one more axis: evenly, or where padding can be (isWholeDim) and
// every device gets an element.
bool isWorthSplitting(MeshAttr mesh, const ShardingRule &rule, ArrayRef<TensorFactors> tensors, const FactorSplit &split, int64_t factor,
                      StringAttr axis) {
  int64_t size = rule.factors[factor].size;
  int64_t left = split[factor].empty() ? size : dist::pieceSizes(mesh, size, split[factor]).back();
  return left % mesh.axisSize(axis) == 0 || (left > mesh.axisSize(axis) && isWholeDim(tensors, factor));
}

} // namespace

unsigned Inference::addNode(int64_t rank, std::optional<Layout> given) {
  nodes.push_back({given.value_or(Layout::replicated(rank)), given.has_value(), {}});
  return nodes.size() - 1;
}

void Inference::addRow(ShardingRule rule, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
  Row row{std::move(rule), {}, {}, {}};
  row.tensors = row.rule.operands;
  llvm::append_range(row.tensors, row.rule.results);
  llvm::append_range(row.nodes, operands);
  llvm::append_range(row.nodes, results);
  bool reduces = llvm::any_of(row.rule.factors, [](const Factor &factor) { return factor.kind == FactorKind::Reduction; });
  for (size_t factor = 0; factor < row.rule.factors.size(); ++factor) {
    row.isBasic.push_back(!reduces &&
                          llvm::all_of(row.tensors, [&](const TensorFactors &dims) { return dims.empty() || holdsFactor(dims, factor); }));
  }
  for (unsigned node : row.nodes) {
    nodes[node].rows.push_back(rows.size());
  }
  rows.push_back(std::move(row));
}

void Inference::run() {
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

void Inference::push(unsigned row) {
  for (int level : {0, 1}) {
    if (!queued[level][row]) {
      queued[level][row] = true;
      queue[level].push_back(row);
    }
  }
}

void Inference::visit(Row &row, bool basicOnly) {
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

void Inference::visitFactor(Row &row, int64_t factor, SmallVectorImpl<FactorSplit> &splits) {
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
void Inference::extend(Row &row, size_t t, int64_t factor, ArrayRef<StringAttr> axes, SmallVectorImpl<FactorSplit> &splits) {
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
    if (servesOther || node.layout.uses(axis) || !isSplittable(mesh, row.rule, row.tensors[t], split, factor, axis) ||
        !isWorthSplitting(mesh, row.rule, row.tensors, split, factor, axis)) {
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

} // namespace ashlar::layout
