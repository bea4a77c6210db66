// SPDX-License-Identifier: Apache-2.0
//
// All splits of an op, axis by axis.

#include "passes/search/op_choices.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"
#include "passes/layout/inference/linear_ops.h"
#include "passes/layout/redistribute/decide.h"

using namespace mlir;

namespace ashlar::search {

namespace {

using dist::AxisList;
using layout::FactorSplit;

class Lister {
public:
  Lister(const layout::LayoutProblem &problem, const layout::ProblemOp &op, analysis::Planner &planner, MayBeTerms mayBeTerms)
      : problem(problem), mesh(problem.mesh), op(op), rule(*op.rule), tensors(rule.tensors), planner(planner), mayBeTerms(mayBeTerms),
        linear(layout::linearOperands(op.op)) {
    for (StringAttr axis : mesh.getAxes()) {
      if (mesh.axisSize(axis) > 1) {
        axes.push_back(axis);
      }
    }
    findGiven();
    findSums();
  }

  std::vector<OpChoice> run() {
    FactorSplit none(rule.factors.size());
    extend(none, 0);
    if (choices.empty()) { // what it is told is more than it can: the layouts around it say what becomes of it
      add(none);
    }
    return std::move(choices);
  }

private:
  // Notes how the op is told to split its factors.
  void findGiven() {
    given.resize(rule.factors.size());
    for (auto [tensor, taken] : llvm::zip_equal(rule.operands, op.taken)) {
      if (!taken || !problem.tensors[*taken].given) { // a carried value that is to be decided itself
        continue;
      }
      FactorSplit split = layout::project(mesh, rule, tensor, dist::withoutUnitAxes(mesh, problem.tensors[*taken].given->layout));
      for (size_t factor = 0; factor < split.size(); ++factor) {
        if (layout::holdsFactor(tensor, factor) && mayBeSplit(rule.factors[factor].kind)) {
          given[factor] = split[factor];
        }
      }
    }
  }

  // Visits each way to give the axes from `next` on to factors, and to the terms on which a linear op computes.
  void extend(FactorSplit &split, size_t next) {
    if (next == axes.size()) {
      bool fits = llvm::all_of(llvm::zip_equal(split, given),
                               [](auto item) { return !std::get<1>(item) || *std::get<1>(item) == std::get<0>(item); });
      if (fits) {
        add(split);
      }
      return;
    }
    extend(split, next + 1);
    for (size_t factor = 0; factor < split.size(); ++factor) {
      if (isWorthSplitting(split, factor, axes[next])) {
        split[factor].push_back(axes[next]);
        extend(split, next + 1);
        split[factor].pop_back();
      }
    }
    for (const auto &set : linear) { // all axes of one choice are of one set
      auto isTerms = [&](unsigned operand) { return mayBeTerms(operand, axes[next]); };
      if ((terms.empty() || ofTerms == &set) && llvm::all_of(set, isTerms)) {
        ofTerms = &set;
        terms.push_back(axes[next]);
        extend(split, next + 1);
        terms.pop_back();
      }
    }
  }

  bool isWorthSplitting(const FactorSplit &split, size_t factor, StringAttr axis) const {
    FactorKind kind = rule.factors[factor].kind;
    if (!mayBeSplit(kind) && kind != FactorKind::Expanded) {
      return false;
    }
    bool isHeld = llvm::any_of(tensors, [&](const TensorFactors &tensor) { return layout::holdsFactor(tensor, factor); });
    if (!isHeld || !layout::isSplittable(mesh, rule, tensors, split, factor, axis)) {
      return false;
    }
    int64_t size = rule.smallestSize(static_cast<int64_t>(factor));
    int64_t rest = split[factor].empty() ? size : dist::pieceSizes(mesh, size, split[factor]).back();
    return rest % mesh.axisSize(axis) == 0 || (rest > mesh.axisSize(axis) && layout::isWholeDim(tensors, factor));
  }

  void add(const FactorSplit &split) {
    FailureOr<SmallVector<layout::Layout>> results = layout::resultLayouts(rule, split);
    if (failed(results)) {
      return;
    }
    MLIRContext *context = mesh.getContext();
    OpChoice choice;
    choice.split = split;
    for (auto [number, tensor] : llvm::enumerate(rule.operands)) {
      layout::Layout taken = layout::unproject(tensor, split);
      if (!terms.empty() && llvm::is_contained(*ofTerms, number)) {
        taken.partial = terms;
      }
      choice.operands.push_back(dist::LayoutAttr::get(context, taken));
    }
    for (layout::Layout &made : *results) {
      if (!terms.empty()) {
        if (made.isPartial() && made.reduction != Reduction::Sum) {
          return;
        }
        llvm::append_range(made.partial, terms);
        made.partial = dist::inMeshOrder(mesh, made.partial);
        made.reduction = Reduction::Sum;
      }
      choice.results.push_back(dist::LayoutAttr::get(context, made));
    }
    choice.sendPs = layout::haloCostOf(problem, op, split, planner).timePs + expansionPs(split);
    choices.push_back(std::move(choice));
  }

  // Builds the op as it is where a factor is split that it needs.
  void buildSplit(ExpandableOpInterface expandable, OpBuilder &builder) {
    auto combinable = dyn_cast<CombinableOpInterface>(op.op);
    for (auto [number, factor] : llvm::enumerate(rule.factors)) {
      int64_t parts = 2; // what combines them has the same size for any number
      while (factor.size % parts != 0 && parts < factor.size) {
        ++parts;
      }
      if (combinable && factor.kind == FactorKind::Expanded && combinable.combines(static_cast<int64_t>(number), parts)) {
        combinable.buildCombination(builder, static_cast<int64_t>(number), parts);
        return;
      }
    }
    expandable.buildExpansion(builder);
  }

  // Finds what the op's expansion sums up over a factor that needs it, if it has one: the bytes of the sums that can be sent together,
  // those of a maximum before those of a sum that needs it. The expansion is built, looked at, and dropped.
  void findSums() {
    auto expandable = dyn_cast<ExpandableOpInterface>(op.op);
    if (!expandable) {
      return;
    }
    Operation *before = op.op->getPrevNode();
    OpBuilder builder(op.op);
    buildSplit(expandable, builder);
    Operation *first = before ? before->getNextNode() : &op.op->getBlock()->front();
    llvm::DenseMap<Operation *, unsigned> levels; // sums that an op comes after
    SmallVector<Operation *> made;
    for (Operation *part = first; part != op.op; part = part->getNextNode()) {
      unsigned level = 0;
      for (Value operand : part->getOperands()) {
        level = std::max(level, levels.lookup(operand.getDefiningOp()));
      }
      if (isa<nn::ReduceOp>(part)) {
        sums.resize(std::max<size_t>(sums.size(), level + 1), 0);
        sums[level] += byteSize(typeOf(part->getResult(0)));
        ++level;
      }
      levels[part] = level;
      made.push_back(part);
    }
    for (Operation *part : llvm::reverse(made)) {
      part->erase();
    }
  }

  // Returns the time of the sums that the expansion takes where it is split.
  int64_t expansionPs(const FactorSplit &split) {
    AxisList summed;
    int64_t pieces = 1; // into which sums are split by other factors
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, split)) {
      if (factor.kind == FactorKind::Expanded) {
        llvm::append_range(summed, axes);
      } else {
        pieces *= mesh.groupSize(axes);
      }
    }
    int64_t time = 0;
    for (int64_t bytes : summed.empty() ? ArrayRef<int64_t>() : ArrayRef(sums)) {
      constexpr int64_t kElement = 4;
      auto type = RankedTensorType::get({std::max<int64_t>(1, bytes / pieces / kElement)}, Float32Type::get(mesh.getContext()));
      layout::Layout from = layout::Layout::replicated(1);
      from.partial = dist::inMeshOrder(mesh, summed);
      time += planner.plan(type, from, layout::Layout::replicated(1)).timePs;
    }
    return time;
  }

  const layout::LayoutProblem &problem;
  dist::MeshAttr mesh;
  const layout::ProblemOp &op;
  const layout::OpRule &rule;
  SmallVector<TensorFactors> tensors;
  analysis::Planner &planner;
  MayBeTerms mayBeTerms;
  SmallVector<SmallVector<unsigned, 2>> linear;      // the sets of operands in which the op is linear
  const SmallVector<unsigned, 2> *ofTerms = nullptr; // the one whose operands are terms
  AxisList terms;                                    // over these
  AxisList axes;                                     // of several devices
  SmallVector<std::optional<AxisList>> given;        // by factor
  SmallVector<int64_t> sums;                         // of the expansion: bytes sent together
  std::vector<OpChoice> choices;
};

} // namespace

std::vector<OpChoice> listChoices(const layout::LayoutProblem &problem, const layout::ProblemOp &op, analysis::Planner &planner,
                                  MayBeTerms mayBeTerms) {
  return Lister(problem, op, planner, mayBeTerms).run();
}

} // namespace ashlar::search
