// SPDX-License-Identifier: Apache-2.0
//
// Each op is tried as the last one before a sum: the linear ops above it, down to the redistributions that combine terms, are a tree that
// could compute on terms. Trees are tried in program order, so that a delayed sum can be delayed again; a step must save time by itself.

#include "passes/layout/redistribute/decide.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/repeat/flat_repeats.h"
#include "dialects/nn/scratch_state.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "passes/layout/inference/linear_ops.h"

#include <numeric>

using namespace mlir;

namespace ashlar::layout {

namespace {

constexpr unsigned kMaxDepth = 16; // of a tree: keeps time linear in the program

// Time, then bytes.
struct CollectiveCost {
  int64_t timePs = 0, bytes = 0;

  CollectiveCost operator+(const CollectiveCost &other) const { return {timePs + other.timePs, bytes + other.bytes}; }
  bool operator<(const CollectiveCost &other) const { return std::pair(timePs, bytes) < std::pair(other.timePs, other.bytes); }
};

// A value as terms that are still to be combined.
struct Terms {
  Layout layout;                                 // partial
  CollectiveCost saved;                          // of the redistributions that are left out
  SmallVector<Place> leaves;                     // where they lead
  SmallVector<std::pair<unsigned, Layout>> ops;  // that compute on terms, and the layouts of their results
  SmallVector<unsigned, 1> reads;                // of a variable that holds terms
  SmallVector<std::pair<unsigned, Layout>> made; // values beside the terms that are made in another layout, at no cost
};

// Delays sums.
class Delay {
public:
  Delay(const LayoutProblem &problem, Assignment &assignment, analysis::Planner &planner)
      : problem(problem), assignment(assignment), planner(planner) {}

  // Delays the sums of one program.
  void run(const ProblemProgram &program) {
    for (unsigned op = program.firstOp; op < program.endOp; ++op) {
      if (isExplicit(op)) {
        continue; // the model says where its sums are combined
      }
      SmallVector<Place> redistributed;
      for (unsigned value : problem.ops[op].results) {
        for (unsigned child : assignment.values[value].front().children) {
          redistributed.push_back({value, child});
        }
      }
      if (Value carriedValue = nn::findCarried(irOf(op)); carriedValue && carriedValue != irOf(op)->getResult(0)) { // its last value
        delayThroughLoop(*problem.values[problem.ops[op].operands.back()].maker, op);
      } else if (isSumOfScalars(op)) {
        if (goesOn(op)) {
          continue; // to the last one of a chain
        }
        sumScalars(op);
      } else if (isa<nn::AddOp>(irOf(op))) {
        groupTerms(op);
      }
      if (!linearOperands(irOf(op)).empty()) {
        delayBehind(op);
      }
      llvm::for_each(redistributed, [&](Place place) { delayInto(place); });
    }
  }

  // Delays a sum that adds up in a variable to where its value goes elsewhere. `accesses`: the ops that read or write it.
  void delayThrough(nn::VariableOp variable, unsigned tensor, ArrayRef<unsigned> accesses) {
    SmallVector<unsigned> reads, zeros; // ops
    std::optional<unsigned> sum;        // the op that writes it
    for (unsigned op : accesses) {
      if (problem.ops[op].variable) {
        reads.push_back(op);
      } else if (nn::isZero(problem.values[assignment.inputs[op].front().value].value)) {
        zeros.push_back(op);
      } else if (std::exchange(sum, op)) {
        return; // two sums may have terms in two layouts
      }
    }
    const Layout home = problem.tensors[tensor].given->layout;
    carried = {tensor, std::nullopt};
    Place place = sum ? assignment.inputs[*sum].front() : Place();
    carried->layout = sum && place.holding == 0 ? layoutBeside(place, 0) : std::nullopt;
    std::optional<Terms> terms = carried->layout && keepsTerms(variable, bytesOf(tensor, *carried->layout), bytesOf(tensor, home))
                                     ? findTerms(place, 0)
                                     : std::nullopt;
    if (!terms || terms->layout != *carried->layout) {
      return;
    }
    auto partial = dist::LayoutAttr::get(variable.getContext(), terms->layout);
    assignment.partialVariables.emplace_back(variable, partial);
    apply(*terms);
    const std::optional<StringRef> parameter = variable.getStateOf(); // none: a loss, or its weight
    auto cause = dist::EndAttr::get(variable.getContext(), parameter ? dist::EndKind::Gradient : dist::EndKind::State,
                                    parameter.value_or(variable.getSymName()));
    for (unsigned read : reads) {
      if (!llvm::is_contained(terms->reads, read)) {
        assignment.redistributeUses(resultOf(read), assignment.made(resultOf(read)), cause);
      }
      assignment.values[resultOf(read)].front().layout = partial;
    }
    for (unsigned zero : zeros) {
      Place constant = assignment.inputs[zero].front();
      assignment.release({zero, 0});
      assignment.take({zero, 0}, assignment.redistribute({constant.value, 0}, partial, cause));
    }
  }

private:
  // Delays a sum that adds up in a carried value to behind the loop. `first`, `last`: the ops that begin and end the value.
  //   next(add(carry(0), sum(p)))      ==> sum(next(add(carry(0), p)))
  void delayThroughLoop(unsigned first, unsigned last) {
    const Use carriedUse = {last, 1}; // which only names the value
    const Place place = assignment.inputs[last].front(), zero = assignment.inputs[first].front();
    const dist::LayoutAttr home = assignment.made(resultOf(last));
    carried = {*problem.ops[last].carried, std::nullopt};
    assignment.release(carriedUse);
    if (place.holding == 0 && nn::isZero(problem.values[zero.value].value)) {
      carried->layout = layoutBeside(place, 0);
    }
    std::optional<Terms> terms = carried->layout && bytesOf(carried->tensor, *carried->layout) <= bytesOf(carried->tensor, home.getLayout())
                                     ? findTerms(place, 0)
                                     : std::nullopt;
    // Behind a body that runs once at most it costs as much, but joins what follows: the sum of a loop around, or a scatter.
    if (terms && terms->layout == *carried->layout && !(terms->saved < cost(resultOf(last), terms->layout, home.getLayout()))) {
      auto partial = dist::LayoutAttr::get(home.getContext(), terms->layout);
      assignment.redistributeUses(resultOf(last), home, causeOf(*terms));
      assignment.release({first, 0});
      assignment.take({first, 0}, assignment.redistribute({zero.value, 0}, partial, causeOf(*terms)));
      apply(*terms);
      assignment.values[resultOf(first)].front().layout = assignment.values[resultOf(last)].front().layout = partial;
    }
    assignment.take(carriedUse, {resultOf(first), 0});
    carried.reset();
  }

  // A variable, or a carried value of a loop, in which terms add up, and their layout when it is known.
  struct Carried {
    unsigned tensor;
    std::optional<Layout> layout;
  };

  int64_t bytesOf(unsigned tensor, const Layout &layout) const {
    return byteSize(dist::localType(problem.mesh, problem.tensors[tensor].type, layout));
  }

  bool readsCarried(unsigned op) const {
    return carried && (problem.ops[op].variable == carried->tensor || problem.ops[op].carried == carried->tensor);
  }

  // Whether a value is linear in the value of the variable.
  bool isLinearInCarried(Place place, unsigned depth) const {
    std::optional<unsigned> maker = problem.values[place.value].maker;
    if (place.holding != 0 || !maker || depth > kMaxDepth || assignment.countUses(place) != 1) { // so the ops above are a tree
      return false;
    }
    return readsCarried(*maker) || llvm::any_of(linearOperands(irOf(*maker)), [&](const auto &set) {
             return llvm::any_of(set, [&](unsigned number) { return isLinearInCarried(assignment.inputs[*maker][number], depth + 1); });
           });
  }

  // Returns the layout of the terms that are added to the value of the variable on its way to `place`.
  std::optional<Layout> layoutBeside(Place place, unsigned depth) {
    std::optional<unsigned> maker = problem.values[place.value].maker;
    if (!isLinearInCarried(place, depth) || readsCarried(*maker)) {
      return std::nullopt;
    }
    for (const SmallVector<unsigned, 2> &set : linearOperands(irOf(*maker))) {
      for (unsigned number : set) {
        Place operand = assignment.inputs[*maker][number];
        if (isLinearInCarried(operand, depth + 1)) {
          if (std::optional<Layout> layout = layoutBeside(operand, depth + 1)) {
            return layout;
          }
        } else if (std::optional<Terms> terms = findTerms(operand, depth + 1)) {
          return terms->layout;
        }
      }
    }
    return std::nullopt;
  }

  Operation *irOf(unsigned op) const { return problem.ops[op].op; }
  bool isExplicit(unsigned op) const { return irOf(op)->hasAttr(dist::kExplicitAttr); }
  dist::LayoutAttr layoutAt(Place place) const { return assignment.values[place.value][place.holding].layout; }
  unsigned resultOf(unsigned op) const { return problem.ops[op].results.front(); }

  CollectiveCost cost(unsigned value, const Layout &from, const Layout &to) {
    const analysis::Plan &plan = planner.plan(problem.tensors[problem.values[value].tensor].type, from, to);
    const int64_t runs = problem.values[value].runs;
    return {costOfRuns(plan.timePs, runs), costOfRuns(plan.bytes, runs)};
  }

  // Returns the terms of a value that has one use; nothing when it is no sum.
  std::optional<Terms> findTerms(Place place, unsigned depth) {
    std::optional<unsigned> maker = problem.values[place.value].maker;
    if (assignment.countUses(place) != 1 || depth > kMaxDepth) {
      return std::nullopt;
    }
    if (place.holding != 0) {
      const Holdings &holdings = assignment.values[place.value];
      Layout from = holdings[holdings[place.holding].parent].layout.getLayout(), to = layoutAt(place).getLayout();
      bool isSum = from.isPartial() && from.reduction == Reduction::Sum && !to.isPartial();
      return isSum ? std::optional<Terms>({from, cost(place.value, from, to), {place}, {}, {}}) : std::nullopt;
    }
    if (maker && readsCarried(*maker) && carried->layout) {
      return Terms{*carried->layout, {}, {}, {}, {*maker}};
    }
    return maker && !isExplicit(*maker) ? findTerms(*maker, depth) : std::nullopt;
  }

  std::optional<Terms> findTerms(unsigned op, unsigned depth) {
    if (problem.ops[op].carried) {
      return std::nullopt; // the value of all iterations has one layout
    }
    for (const SmallVector<unsigned, 2> &set : linearOperands(irOf(op))) {
      std::vector<Terms> operands;
      for (unsigned number : set) {
        std::optional<Terms> terms = findTerms(assignment.inputs[op][number], depth + 1);
        if (!terms) {
          break;
        }
        operands.push_back(std::move(*terms));
      }
      if (operands.size() == set.size()) {
        if (std::optional<Terms> terms = combine(op, set, operands)) {
          return terms;
        }
      }
    }
    return std::nullopt;
  }

  // Whether a value is made for one op alone, of scalars at most, so that any layout of it costs nothing.
  bool isMadeAnyhow(Place place) const {
    std::optional<unsigned> maker = problem.values[place.value].maker;
    return maker && place.holding == 0 && assignment.countUses(place) == 1 && !isExplicit(*maker) && problem.ops[*maker].rule &&
           problem.ops[*maker].results.size() == 1 && !assignment.made(place.value).getLayout().isPartial() &&
           llvm::all_of(problem.ops[*maker].operands, [&](unsigned operand) { return problem.typeOf(operand).getRank() == 0; });
  }

  // Returns the terms of the result of `op`, given those of the operands in `set`; nothing when the op cannot compute on them.
  std::optional<Terms> combine(unsigned op, ArrayRef<unsigned> set, ArrayRef<Terms> operands) {
    const ShardingRule &rule = *problem.ops[op].rule;
    const Layout &first = operands.front().layout;
    FactorSplit split = project(problem.mesh, rule, rule.operands[set.front()], first);
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, split)) {
      if (!axes.empty() && !mayBeSplit(factor.kind)) {
        return std::nullopt;
      }
    }
    // A factor that is the minor one of a joined dim cannot be split alone: its pieces would be no run of the dim.
    auto fits = [&](const TensorFactors &tensor) {
      FactorSplit own = project(problem.mesh, rule, tensor, unproject(tensor, split));
      return llvm::all_of(llvm::seq<size_t>(0, split.size()),
                          [&](size_t factor) { return !holdsFactor(tensor, factor) || own[factor] == split[factor]; });
    };
    if (!llvm::all_of(rule.operands, fits) || !llvm::all_of(rule.results, fits)) {
      return std::nullopt;
    }
    Terms result;
    for (unsigned number = 0; number < rule.operands.size(); ++number) {
      Layout expected = unproject(rule.operands[number], split), actual = assignment.taken(op, number).getLayout();
      if (const auto *found = llvm::find(set, number); found != set.end()) {
        const Terms &terms = operands[found - set.begin()];
        expected.partial = first.partial;
        expected.reduction = first.reduction;
        actual = terms.layout;
        result.saved = result.saved + terms.saved;
        llvm::append_range(result.leaves, terms.leaves);
        llvm::append_range(result.ops, terms.ops);
        llvm::append_range(result.reads, terms.reads);
        llvm::append_range(result.made, terms.made);
      }
      if (actual != expected && (llvm::is_contained(set, number) || !isMadeAnyhow(assignment.inputs[op][number]))) {
        return std::nullopt;
      }
      if (actual != expected) {
        result.made.emplace_back(assignment.inputs[op][number].value, expected);
      }
    }
    FailureOr<SmallVector<Layout>> computed = resultLayouts(rule, split);
    if (failed(computed) || (computed->front().isPartial() && computed->front().reduction != Reduction::Sum)) {
      return std::nullopt;
    }
    result.layout = computed->front();
    llvm::append_range(result.layout.partial, first.partial);
    result.layout.partial = dist::inMeshOrder(problem.mesh, result.layout.partial);
    result.layout.reduction = Reduction::Sum;
    result.ops.emplace_back(op, result.layout);
    return result;
  }

  // Makes the ops compute on terms.
  void apply(const Terms &terms) {
    llvm::for_each(terms.leaves, [&](Place leaf) { assignment.drop(leaf); });
    for (const auto &[op, layout] : terms.ops) {
      assignment.values[resultOf(op)].front().layout = dist::LayoutAttr::get(irOf(op)->getContext(), layout);
    }
    for (const auto &[value, layout] : terms.made) {
      assignment.values[value].front().layout = dist::LayoutAttr::get(problem.mesh.getContext(), layout);
    }
  }

  dist::EndAttr causeOf(const Terms &terms) const {
    return assignment.values[terms.leaves.front().value][terms.leaves.front().holding].cause;
  }

  // Returns the op that makes what an operand takes, if it takes it as it is made.
  std::optional<unsigned> makerOf(unsigned op, unsigned operand) const {
    Place place = assignment.inputs[op][operand];
    return place.holding == 0 ? problem.values[place.value].maker : std::nullopt;
  }

  // (whole + sum) + sum ==> whole + (sum + sum): the gradient of a value with many users is added up in any order.
  void groupTerms(unsigned add) {
    for (unsigned side : {0, 1}) {
      std::optional<unsigned> inner = makerOf(add, 1 - side);
      if (!inner || !isa<nn::AddOp>(irOf(*inner)) || problem.ops[*inner].loops != problem.ops[add].loops ||
          assignment.countUses({resultOf(*inner), 0}) != 1 || assignment.made(resultOf(*inner)) != assignment.made(resultOf(add)) ||
          !findTerms(assignment.inputs[add][side], 0)) {
        continue;
      }
      bool first = findTerms(assignment.inputs[*inner][0], 0).has_value();
      if (first == findTerms(assignment.inputs[*inner][1], 0).has_value()) {
        continue;
      }
      Place whole = assignment.inputs[*inner][first ? 1 : 0], sum = assignment.inputs[*inner][first ? 0 : 1];
      Place other = assignment.inputs[add][side], made = assignment.inputs[add][1 - side];
      for (Use use : {Use{*inner, 0}, Use{*inner, 1}, Use{add, 0}, Use{add, 1}}) {
        assignment.release(use);
      }
      assignment.take({*inner, 0}, sum);
      assignment.take({*inner, 1}, other);
      assignment.take({add, 0}, whole);
      assignment.take({add, 1}, made);
      assignment.movedBefore[add].push_back(*inner);
      return delayBehind(*inner);
    }
  }

  bool isSumOfScalars(unsigned op) const {
    auto add = dyn_cast<nn::AddOp>(irOf(op));
    return add && add.getType().getRank() == 0 && !isExplicit(op);
  }

  // Returns the sum of scalars that an operand of another one is, and nothing else takes.
  std::optional<unsigned> innerSum(unsigned op, unsigned operand) const {
    std::optional<unsigned> maker = makerOf(op, operand);
    bool isInner = maker && isSumOfScalars(*maker) && problem.ops[*maker].loops == problem.ops[op].loops &&
                   assignment.countUses({resultOf(*maker), 0}) == 1 && assignment.made(resultOf(*maker)) == assignment.made(resultOf(op));
    return isInner ? maker : std::nullopt;
  }

  // Whether a sum of scalars is a term of another one.
  bool goesOn(unsigned op) const {
    const auto &uses = assignment.values[resultOf(op)].front().uses;
    auto takes = [&](Use use) { return isSumOfScalars(use.op) && innerSum(use.op, use.operand); };
    return llvm::any_of(uses, takes);
  }

  // ((p + w) + q) + r ==> w + ((p + q) + r), where p, q and r are sums over the same axes: one collective for all of them. `op` is the last
  // addition; those before it were made alone, and move to it.
  void sumScalars(unsigned op) {
    if (!innerSum(op, 0) && !innerSum(op, 1)) {
      return;
    }
    SmallVector<unsigned> adds;
    SmallVector<Place> summands = summandsOf(op, adds);
    std::vector<std::pair<std::optional<Layout>, SmallVector<Place>>> groups; // by the layout of the terms, nothing for those without
    for (Place summand : summands) {
      std::optional<Terms> terms = findTerms(summand, 0);
      std::optional<Layout> layout = terms ? std::optional(terms->layout) : std::nullopt;
      auto known = llvm::find_if(groups, [&](const auto &group) { return group.first == layout; });
      known = known == groups.end() ? groups.insert(known, {layout, {}}) : known;
      known->second.push_back(summand);
    }
    if (groups.size() == 1 && !groups.front().first) {
      return;
    }
    for (unsigned add : adds) {
      assignment.release({add, 0});
      assignment.release({add, 1});
    }
    const unsigned *next = adds.begin();
    auto addUp = [&](Place sum, Place summand) {
      assignment.take({*next, 0}, sum);
      assignment.take({*next, 1}, summand);
      return Place{resultOf(*next++), 0};
    };
    SmallVector<Place> sums;
    for (const auto &[layout, members] : groups) {
      sums.push_back(std::accumulate(members.begin() + 1, members.end(), members.front(), addUp));
    }
    std::accumulate(sums.begin() + 1, sums.end(), sums.front(), addUp);
    adds.pop_back(); // `op`
    for (unsigned add : adds) {
      assignment.movedBefore[op].push_back(add);
      delayBehind(add);
    }
  }

  // Returns what a chain of additions adds up, in program order, and adds the additions to `adds`, also so.
  SmallVector<Place> summandsOf(unsigned last, SmallVectorImpl<unsigned> &adds) const {
    SmallVector<Place> summands;
    SmallVector<unsigned> pending = {last};
    while (!pending.empty()) {
      unsigned op = pending.pop_back_val();
      adds.push_back(op);
      for (unsigned operand : {0, 1}) {
        if (std::optional<unsigned> inner = innerSum(op, operand)) {
          pending.push_back(*inner);
        } else {
          summands.push_back(assignment.inputs[op][operand]);
        }
      }
    }
    llvm::sort(adds);
    llvm::sort(summands, [](Place a, Place b) { return std::pair(a.value, a.holding) < std::pair(b.value, b.holding); });
    return summands;
  }

  // Combines the terms in a redistribution that is there already.
  void delayInto(Place place) {
    const Holding &holding = assignment.values[place.value][place.holding];
    if (holding.parent != 0) {
      return;
    }
    std::optional<Terms> terms = findTerms({place.value, 0}, 0);
    Layout from = assignment.made(place.value).getLayout(), to = holding.layout.getLayout();
    if (terms && !to.isPartial() && cost(place.value, terms->layout, to) < terms->saved + cost(place.value, from, to)) {
      assignment.values[place.value][place.holding].cause = causeOf(*terms);
      apply(*terms);
    }
  }

  // Combines the terms behind an op.
  void delayBehind(unsigned op) {
    unsigned result = resultOf(op);
    dist::LayoutAttr layout = assignment.made(result);
    std::optional<Terms> terms = layout.getLayout().isPartial() ? std::nullopt : findTerms(op, 0);
    if (!terms || !(cost(result, terms->layout, layout.getLayout()) < terms->saved)) {
      return;
    }
    assignment.redistributeUses(result, layout, causeOf(*terms));
    apply(*terms);
  }

  const LayoutProblem &problem;
  Assignment &assignment;
  analysis::Planner &planner;
  std::optional<Carried> carried; // the variable through which a sum is delayed
};

} // namespace

void delayReductions(const LayoutProblem &problem, const ProblemProgram &program, Assignment &assignment, analysis::Planner &planner) {
  Delay(problem, assignment, planner).run(program);
}

bool keepsTerms(Operation *op, int64_t termBytes, int64_t sumBytes) {
  return termBytes <= sumBytes || dist::gradientSync(op->getParentOfType<ModuleOp>()) == dist::GradientSync::Step;
}

bool mayHoldTerms(nn::VariableOp variable) {
  return variable->hasAttr(nn::kScratchAttr) && // nothing outside of the programs reads it
         !(variable.getStateOf() && dist::gradientSync(variable->getParentOfType<ModuleOp>()) == dist::GradientSync::MicroBatch);
}

void delayThroughVariables(const LayoutProblem &problem, Assignment &assignment, analysis::Planner &planner) {
  llvm::DenseMap<unsigned, SmallVector<unsigned>> accesses; // by tensor
  for (const auto &[number, op] : llvm::enumerate(problem.ops)) {
    if (op.variable) {
      accesses[*op.variable].push_back(number);
    } else if (isa<nn::WriteOp>(op.op)) {
      accesses[*op.taken.front()].push_back(number);
    }
  }
  for (auto [variable, tensor] : problem.variables) {
    if (mayHoldTerms(variable)) {
      Delay(problem, assignment, planner).delayThrough(variable, tensor, accesses.lookup(tensor));
    }
  }
}

} // namespace ashlar::layout
