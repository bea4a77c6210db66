// SPDX-License-Identifier: Apache-2.0
//
// Chooses the split of factors of one op by the communication it costs.

#include "passes/layout/split_choice.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

// State: the layouts around one op, and for each factor the splits to try. Coordinate descent: each factor is tried with each of its
// splits, and with none, while the others stay, until nothing is better.
class SplitChoice {
public:
  SplitChoice(MeshAttr mesh, dist::Planner &planner, Operation *op, const ShardingRule &rule)
      : mesh(mesh), planner(planner), op(op), rule(rule), tensors(rule.operands) {
    llvm::append_range(tensors, rule.results);
    for (Value value : op->getOperands()) {
      layouts.push_back(dist::findLayout(value).getLayout());
    }
    for (Value value : op->getResults()) {
      layouts.push_back(dist::findLayout(value).getLayout());
    }
    collectCandidates();
  }

  FactorSplit choose() {
    SmallVector<AxisList> wanted;
    bool agreed = true;
    for (const auto &lists : candidates) {
      wanted.push_back(lists.front());
      agreed &= lists.size() == 1;
    }
    FactorSplit best = fit(wanted);
    if (agreed && best == wanted) {
      return best;
    }
    Score bestScore = score(best);
    for (bool improved = true; improved;) {
      improved = false;
      for (size_t factor = 0; factor < candidates.size(); ++factor) {
        SmallVector<AxisList> lists = candidates[factor];
        if (!isGiven[factor]) {
          lists.push_back({});
        }
        for (const AxisList &list : lists) {
          SmallVector<AxisList> changed = wanted;
          changed[factor] = list;
          FactorSplit split = fit(changed);
          if (Score other = score(split); other < bestScore) {
            best = split;
            bestScore = other;
            wanted = changed;
            improved = true;
          }
        }
      }
    }
    return best;
  }

private:
  // Time, bytes sent, then minus the number of axes used: more of them is less work a device.
  using Score = std::tuple<int64_t, int64_t, int64_t>;

  // Collects for each factor the splits that its tensors have, longest first.
  void collectCandidates() {
    candidates.resize(rule.factors.size());
    SmallVector<AxisList> homeless;
    for (auto [tensor, layout] : llvm::zip_equal(tensors, layouts)) {
      FactorSplit split = project(mesh, rule, tensor, layout);
      for (size_t factor = 0; factor < split.size(); ++factor) {
        if (!mayBeSplit(rule.factors[factor].kind) && !split[factor].empty()) {
          homeless.push_back(split[factor]);
        }
        bool usable = mayBeSplit(rule.factors[factor].kind) && holdsFactor(tensor, factor);
        if (usable && !llvm::is_contained(candidates[factor], split[factor])) {
          auto *shorter = llvm::find_if(candidates[factor], [&](const AxisList &other) { return other.size() < split[factor].size(); });
          candidates[factor].insert(shorter, split[factor]);
        }
      }
    }
    collectGiven();
    for (auto [lists, factor, given] : llvm::zip_equal(candidates, rule.factors, isGiven)) {
      if (lists.empty()) {
        lists.emplace_back();
      }
      // Axes that split what the op needs whole may split another dim meanwhile: an all-to-all moves less than an all-gather.
      for (const AxisList &axes : homeless) {
        AxisList extended = lists.front();
        llvm::append_range(extended, axes);
        if (factor.kind == FactorKind::PassThrough && !given && !llvm::is_contained(lists, extended)) {
          lists.push_back(extended);
        }
      }
    }
  }

  // Leaves only what the op is told of the factors of operands that it is told how to take.
  void collectGiven() {
    isGiven.assign(rule.factors.size(), false);
    auto given = op->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr);
    for (auto [index, tensor] : llvm::enumerate(given ? ArrayRef(rule.operands) : ArrayRef<TensorFactors>())) {
      auto layout = dyn_cast<dist::LayoutAttr>(given[index]);
      FactorSplit split =
          layout ? project(mesh, rule, tensor, dist::withoutUnitAxes(mesh, layout.getLayout())) : FactorSplit(rule.factors.size());
      for (size_t factor = 0; factor < split.size(); ++factor) {
        if (layout && holdsFactor(tensor, factor) && mayBeSplit(rule.factors[factor].kind)) {
          candidates[factor] = {split[factor]};
          isGiven[factor] = true;
        }
      }
    }
  }

  // Returns `wanted`, each list cut where the op cannot follow: an axis serves one factor only, and must divide it.
  FactorSplit fit(ArrayRef<AxisList> wanted) const {
    FactorSplit split(wanted.size());
    llvm::SmallPtrSet<StringAttr, 4> used;
    for (size_t factor = 0; factor < wanted.size(); ++factor) {
      for (StringAttr axis : wanted[factor]) {
        if (used.contains(axis) || !isSplittable(mesh, rule, tensors, split, factor, axis)) {
          break;
        }
        used.insert(axis);
        split[factor].push_back(axis);
      }
    }
    return split;
  }

  Score score(const FactorSplit &split) const {
    FailureOr<SmallVector<Layout>> computed = resultLayouts(rule, split);
    if (failed(computed)) {
      return {std::numeric_limits<int64_t>::max(), 0, 0};
    }
    int64_t time = 0, bytes = 0, axes = 0;
    auto add = [&](Value value, const Layout &from, const Layout &to) {
      const dist::Plan &plan = planner.plan(typeOf(value), from, to);
      time += plan.timePs;
      bytes += plan.bytes;
    };
    for (auto [value, tensor, layout] : llvm::zip(op->getOperands(), rule.operands, layouts)) {
      add(value, layout, unproject(tensor, split));
    }
    for (auto [result, from, to] : llvm::zip(op->getResults(), *computed, ArrayRef(layouts).drop_front(op->getNumOperands()))) {
      add(result, from, to);
    }
    for (const AxisList &list : split) {
      axes += list.size();
    }
    return {time, bytes, -axes};
  }

  MeshAttr mesh;
  dist::Planner &planner;
  Operation *op;
  const ShardingRule &rule;
  SmallVector<TensorFactors> tensors;
  SmallVector<Layout> layouts; // of the values, one a tensor
  SmallVector<SmallVector<AxisList>> candidates;
  SmallVector<bool> isGiven; // factors that the op is told how to split
};

} // namespace

FactorSplit chooseSplit(MeshAttr mesh, dist::Planner &planner, Operation *op, const ShardingRule &rule) {
  return SplitChoice(mesh, planner, op, rule).choose();
}

} // namespace ashlar::layout
