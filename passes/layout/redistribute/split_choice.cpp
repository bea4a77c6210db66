// SPDX-License-Identifier: Apache-2.0
//
// Chooses the split of factors of one op by the communication it costs.

#include "passes/layout/redistribute/decide.h"

#include "dialects/support/element_type.h"
#include "passes/layout/inference/linear_ops.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

// State: the layouts around one op, and for each factor the splits to try. Steepest descent: each factor is tried with each of its splits,
// and with none, while the others stay, and the best of all these is where the next round begins, until nothing is better. Windowed factors
// are also tried all whole at once: the axes that split them may serve another factor only then.
class SplitChoice {
public:
  SplitChoice(const LayoutProblem &problem, const ProblemOp &op, analysis::Planner &planner, bool delaysSum)
      : problem(problem), mesh(problem.mesh), planner(planner), op(op), delaysSum(delaysSum), rule(*op.rule), tensors(rule.tensors) {
    for (unsigned value : llvm::concat<const unsigned>(op.operands, op.results)) {
      const ProblemTensor &tensor = problem.tensors[problem.values[value].tensor];
      types.push_back(tensor.type);
      layouts.push_back(tensor.given->layout);
      runs.push_back(problem.values[value].runs);
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
    Score bestScore = descend(wanted, best);
    for (const WindowedDim &window : rule.windows) {
      if (!isGiven[rule.factorOf(window)]) {
        wanted[rule.factorOf(window)].clear();
      }
    }
    if (FactorSplit other = fit(wanted); other != best && descend(wanted, other) < bestScore) {
      best = std::move(other);
    }
    return best;
  }

private:
  // Time, bytes sent, then minus the number of axes used: more of them is less work a device.
  using Score = std::tuple<int64_t, int64_t, int64_t>;

  // Descends from what is wanted of the factors. `best` is how far the op can follow that, and becomes the best split found, whose score
  // is returned.
  Score descend(SmallVector<AxisList> wanted, FactorSplit &best) const {
    Score bestScore = score(best);
    for (bool improved = true; improved;) {
      improved = false;
      const SmallVector<AxisList> from = wanted;
      for (size_t factor = 0; factor < candidates.size(); ++factor) {
        SmallVector<AxisList> lists = candidates[factor];
        if (!isGiven[factor]) {
          lists.push_back({});
        }
        for (const AxisList &list : lists) {
          SmallVector<AxisList> changed = from;
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
    return bestScore;
  }

  // Collects for each factor the splits that its tensors have, longest first.
  void collectCandidates() {
    candidates.resize(rule.factors.size());
    SmallVector<AxisList> homeless;
    for (auto [tensor, layout] : llvm::zip_equal(tensors, layouts)) {
      FactorSplit split = project(mesh, rule, tensor, layout);
      for (size_t factor = 0; factor < split.size(); ++factor) {
        if ((!mayBeSplit(rule.factors[factor].kind) || isWindowed(factor)) && !split[factor].empty()) {
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
      // Axes that split what the op needs whole, or what devices exchange, may split another dim meanwhile: an all-to-all moves less than
      // an all-gather, and may be one message where a halo is many.
      for (const AxisList &axes : homeless) {
        AxisList extended = lists.front();
        llvm::append_range(extended, axes);
        if (factor.kind == FactorKind::PassThrough && !given && !llvm::is_contained(lists, extended) && lists.front() != axes) {
          lists.push_back(extended);
        }
      }
    }
  }

  // Whether positions of windows are counted along a factor.
  bool isWindowed(size_t factor) const {
    return llvm::any_of(rule.windows, [&](const WindowedDim &window) { return rule.factorOf(window) == static_cast<int64_t>(factor); });
  }

  // Leaves only what the op is told of the factors of operands that it is told how to take.
  void collectGiven() {
    isGiven.assign(rule.factors.size(), false);
    for (auto [tensor, taken] : llvm::zip_equal(rule.operands, op.taken)) {
      if (!taken) {
        continue;
      }
      FactorSplit split = project(mesh, rule, tensor, dist::withoutUnitAxes(mesh, problem.tensors[*taken].given->layout));
      for (size_t factor = 0; factor < split.size(); ++factor) {
        if (holdsFactor(tensor, factor) && mayBeSplit(rule.factors[factor].kind)) {
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
    FailureOr<SmallVector<Layout>> results = resultLayouts(rule, split);
    if (failed(results)) {
      return {std::numeric_limits<int64_t>::max(), 0, 0};
    }
    int64_t time = 0, bytes = 0, axes = 0;
    size_t operands = rule.operands.size();
    for (auto [number, tensor] : llvm::enumerate(tensors)) {
      bool isOperand = number < operands;
      Layout computed = isOperand ? unproject(tensor, split) : (*results)[number - operands];
      if (!isOperand && delaysSum && keepsTerms(op.op, bytesOf(number, computed), bytesOf(number, layouts[number]))) {
        computed.partial.clear();
      }
      const analysis::Plan &plan =
          isOperand ? planner.plan(types[number], layouts[number], computed) : planner.plan(types[number], computed, layouts[number]);
      time += costOfRuns(plan.timePs, runs[number]);
      bytes += costOfRuns(plan.bytes, runs[number]);
    }
    analysis::HaloCost halos = haloCostOf(problem, op, split, planner);
    time += costOfRuns(halos.timePs, op.runs);
    bytes += costOfRuns(halos.bytes, op.runs);
    for (const AxisList &list : split) {
      axes += list.size();
    }
    return {time, bytes, -axes};
  }

  // Returns the bytes that a device holds of a tensor.
  int64_t bytesOf(size_t number, const Layout &layout) const { return byteSize(dist::localType(mesh, types[number], layout)); }

  const LayoutProblem &problem;
  MeshAttr mesh;
  analysis::Planner &planner;
  const ProblemOp &op;
  const bool delaysSum;
  const OpRule &rule;
  SmallVector<TensorFactors> tensors;  // operands, then results
  SmallVector<RankedTensorType> types; // of the values, one a tensor
  SmallVector<Layout> layouts;         // that the values have
  SmallVector<int64_t> runs;           // how often each is made
  SmallVector<SmallVector<AxisList>> candidates;
  SmallVector<bool> isGiven; // factors that the op is told how to split
};

} // namespace

analysis::HaloCost haloCostOf(const LayoutProblem &problem, const ProblemOp &op, const FactorSplit &split, analysis::Planner &planner) {
  analysis::HaloCost total{0, 0};
  const ShardingRule &rule = *op.rule;
  if (rule.windows.empty()) {
    return total;
  }
  SmallVector<Layout> computed;
  for (const TensorFactors &tensor : rule.operands) {
    computed.push_back(unproject(tensor, split));
  }
  llvm::append_range(computed, *resultLayouts(rule, split));
  SmallVector<RankedTensorType> types, local;
  for (auto [value, layout] : llvm::zip_equal(llvm::concat<const unsigned>(op.operands, op.results), computed)) {
    types.push_back(problem.typeOf(value));
    local.push_back(dist::localType(problem.mesh, types.back(), layout));
  }
  for (const dist::SplitWindow &window : dist::splitWindows(problem.mesh, rule, types, computed)) {
    if (window.halo) {
      analysis::HaloCost cost = analysis::haloCost(problem.mesh, window, local[window.tensor], planner.linkOf(window.axes));
      total.timePs += cost.timePs;
      total.bytes += cost.bytes;
      local[window.tensor] = dist::withLength(local[window.tensor], window.dim, window.length(problem.mesh));
    }
  }
  return total;
}

llvm::BitVector findDelayedSums(const LayoutProblem &problem) {
  llvm::DenseSet<unsigned> variables; // tensors
  for (auto [variable, tensor] : problem.variables) {
    if (mayHoldTerms(variable)) {
      variables.insert(tensor);
    }
  }
  // From the last op to the first, so that all users of a value are known before it.
  llvm::BitVector isDelayed(problem.values.size()), isOther(problem.values.size());
  for (const ProblemOp &op : llvm::reverse(problem.ops)) {
    const bool isWrite = isa<nn::WriteOp>(op.op) && variables.contains(*op.taken.front());
    const bool goesOn = op.results.size() == 1 && !op.carried && isDelayed[op.results.front()] && !isOther[op.results.front()];
    llvm::SmallDenseSet<unsigned, 4> linear;
    for (const auto &set : goesOn ? linearOperands(op.op) : SmallVector<SmallVector<unsigned, 2>>()) {
      linear.insert(set.begin(), set.end());
    }
    for (auto [index, value] : llvm::enumerate(op.operands)) {
      (isWrite || linear.contains(index) ? isDelayed : isOther).set(value);
    }
  }
  return isDelayed.reset(isOther);
}

FactorSplit chooseSplit(const LayoutProblem &problem, const ProblemOp &op, analysis::Planner &planner, bool delaysSum) {
  return SplitChoice(problem, op, planner, delaysSum).choose();
}

} // namespace ashlar::layout
