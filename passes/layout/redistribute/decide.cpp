// SPDX-License-Identifier: Apache-2.0
//
// How each op takes its operands and makes its results, op by op in program order; then what the redistributions between them share.

#include "passes/layout/redistribute/decide.h"

#include "dialects/nn/nn.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/pointer_hash.h"
#include "passes/layout/optimizer/gather_parameters.h"
#include "passes/layout/redistribute/cut_axes.h"

#include <unordered_map>

using namespace mlir;

namespace ashlar::layout {

namespace {

// Finds the values that only become the gradient of one variable, by ops that keep their shape: terms of its sum, among others. Walks from
// the last op to the first, so that the users of a value are known before it.
SmallVector<StringRef> findGradientTerms(const LayoutProblem &problem) {
  std::vector<std::optional<StringRef>> variables(problem.values.size()); // "" where there are several, or the value goes elsewhere too
  for (const ProblemOp &op : llvm::reverse(problem.ops)) {
    auto gradient = dyn_cast<nn::GradientOp>(op.op);
    for (unsigned operand : op.operands) {
      auto shapeOf = [&](unsigned value) { return problem.typeOf(value).getShape(); };
      bool keepsShape = op.results.size() == 1 && shapeOf(op.results.front()) == shapeOf(operand);
      StringRef variable = gradient ? gradient.getVariable() : keepsShape ? variables[op.results.front()].value_or("") : StringRef();
      std::optional<StringRef> &known = variables[operand];
      known = !known || *known == variable ? variable : StringRef();
    }
  }
  return llvm::map_to_vector(variables, [](const auto &variable) { return variable.value_or(""); });
}

// Returns for each value the trained variable that it is a copy of, converted or rearranged maybe; "" when it is none.
SmallVector<StringRef> findCopiedParameters(const LayoutProblem &problem) {
  SmallVector<StringRef> variables(problem.values.size());
  llvm::DenseSet<unsigned> trained;
  for (auto [variable, tensor] : problem.variables) {
    if (nn::VariableOp(variable).getTrainable()) {
      trained.insert(tensor);
    }
  }
  for (const ProblemOp &op : problem.ops) {
    if (auto read = dyn_cast<nn::ReadOp>(op.op)) {
      variables[op.results.front()] = trained.contains(*op.variable) ? read.getVariable() : "";
    } else if (isCopy(op.op)) {
      variables[op.results.front()] = variables[op.operands.front()];
    }
  }
  return variables;
}

// Returns an op as a cause: by its module path, or its kind when it has none. The ops of one path are one cause.
dist::EndAttr opCause(Operation *op) {
  StringRef path = nn::getPath(op->getLoc());
  return dist::EndAttr::get(op->getContext(), dist::EndKind::Op, path, path.empty() ? op->getName().getStringRef() : "");
}

class Decision {
public:
  Decision(const LayoutProblem &problem, analysis::Planner &planner)
      : problem(problem), planner(planner), gradientTerms(findGradientTerms(problem)), copiedParameters(findCopiedParameters(problem)),
        delayedSums(findDelayedSums(problem)) {}

  FailureOr<Assignment> run() {
    assignment.inputs.resize(problem.ops.size());
    assignment.values.resize(problem.values.size());
    homes.resize(problem.values.size());
    for (const ProblemTensor &tensor : problem.tensors) {
      layouts.push_back(tensor.given ? dist::LayoutAttr::get(problem.mesh.getContext(), tensor.given->layout) : dist::LayoutAttr());
    }
    for (auto [number, value] : llvm::enumerate(problem.values)) {
      homes[number] = {static_cast<unsigned>(number), 0};
      assignment.values[number].push_back({homeOf(value.tensor)});
    }
    for (auto [variable, tensor] : problem.variables) {
      if (!problem.tensors[tensor].given) {
        return nn::VariableOp(variable).emitOpError("has no layout; run ashlar-propagate-layouts first");
      }
    }
    for (const ProblemProgram &program : problem.programs) {
      func::FuncOp function = program.function;
      for (BlockArgument argument : function.getArguments()) {
        if (!assignment.made(problem.find(argument))) {
          return function.emitError() << nameArgument(function, argument.getArgNumber())
                                      << " has no layout; run ashlar-propagate-layouts first";
        }
      }
      for (unsigned op = program.firstOp; op < program.endOp; ++op) {
        assignment.inputs[op].resize(problem.ops[op].operands.size());
        if (failed(decideOp(op))) {
          return failure();
        }
      }
    }
    shareRedistributions(problem, assignment, planner); // first: sums that only lead to pieces of them are one redistribution to delay
    for (const ProblemProgram &program : problem.programs) {
      delayReductions(problem, program, assignment, planner);
    }
    delayThroughVariables(problem, assignment, planner);
    shareRedistributions(problem, assignment, planner);
    narrowGradients();
    return std::move(assignment);
  }

private:
  // Has parts of f32 gradients travel in the type that the module asks for. The choices before count f32: all ways get faster alike.
  void narrowGradients() {
    auto module = problem.ops.empty() ? ModuleOp() : problem.ops.front().op->getParentOfType<ModuleOp>();
    auto type = module ? module->getAttrOfType<TypeAttr>(dist::kGradientTypeAttr) : TypeAttr();
    for (unsigned value = 0; type && value < problem.values.size(); ++value) {
      if (!problem.typeOf(value).getElementType().isF32() || problem.typeOf(value).getRank() == 0) {
        continue;
      }
      for (Holding &holding : assignment.values[value]) {
        const bool isGradient = holding.cause && holding.cause.getKind() == dist::EndKind::Gradient;
        const Layout from = assignment.values[value][holding.parent].layout.getLayout();
        if (isGradient && from.isPartial() && from.reduction == Reduction::Sum && !holding.layout.getLayout().isPartial()) {
          holding.travels = type.getValue();
        }
      }
    }
  }

  // Returns the layout of a tensor; null when it has none.
  dist::LayoutAttr homeOf(unsigned tensor) const { return layouts[tensor]; }

  LogicalResult decideOp(unsigned number) {
    const ProblemOp &row = problem.ops[number];
    Operation *op = row.op;
    auto hasLayout = [&](unsigned value) { return problem.tensors[problem.values[value].tensor].given.has_value(); };
    if (!llvm::all_of(row.results, hasLayout) || (row.rule && !llvm::all_of(row.operands, hasLayout))) {
      return op->emitOpError("has operands or results without a layout; run ashlar-propagate-layouts first");
    }
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      make(row.results.front(), homeOf(*row.variable),
           [&] { return dist::EndAttr::get(op->getContext(), dist::EndKind::Parameter, read.getVariable()); });
      return success();
    }
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      auto found = llvm::find_if(problem.variables, [&](const auto &variable) { return variable.second == row.taken[0]; });
      auto kind = nn::VariableOp(found->first).getTrainable() ? dist::EndKind::ParameterUpdate : dist::EndKind::StateUpdate;
      return take({number, 0}, homeOf(*row.taken[0]), [&] { return dist::EndAttr::get(op->getContext(), kind, write.getVariable()); });
    }
    if (isa<func::ReturnOp>(op)) {
      for (auto [index, taken] : llvm::enumerate(row.taken)) {
        auto cause = [&, index = index] { return dist::EndAttr::get(op->getContext(), dist::EndKind::Output, "", "", index); };
        if (failed(take({number, static_cast<unsigned>(index)}, homeOf(*taken), cause))) {
          return failure();
        }
      }
      return success();
    }
    if (op->hasAttr(dist::kExplicitAttr)) {
      return keepPlaced(number);
    }
    return row.rule ? decideSplit(number) : op->emitOpError("has no sharding rule");
  }

  LogicalResult decideSplit(unsigned number) {
    const ProblemOp &row = problem.ops[number];
    const Split &split = splitOf(row);
    for (auto [index, layout] : llvm::enumerate(split.operands)) {
      if (failed(take({number, static_cast<unsigned>(index)}, layout, [&] { return opCause(row.op); }))) {
        return failure();
      }
    }
    for (auto [value, layout] : llvm::zip_equal(row.results, split.results)) {
      make(value, layout, [&, value = value, layout = layout] { return causeOf(number, value, layout); });
    }
    return success();
  }

  // How an op takes its operands and makes its results.
  struct Split {
    SmallVector<dist::LayoutAttr, 3> operands;
    SmallVector<dist::LayoutAttr, 1> results;
  };

  // Returns how an op is split. Ops with one rule, tensors of the same layouts around them, are split alike: those of one layer after the
  // other.
  const Split &splitOf(const ProblemOp &row) {
    SmallVector<const void *, 8> key = {row.rule.get()};
    for (unsigned value : llvm::concat<const unsigned>(row.operands, row.results)) {
      key.push_back(homeOf(problem.values[value].tensor).getAsOpaquePointer());
      key.push_back(reinterpret_cast<const void *>(static_cast<intptr_t>(problem.values[value].runs)));
    }
    for (std::optional<unsigned> taken : row.taken) {
      key.push_back(taken ? homeOf(*taken).getAsOpaquePointer() : nullptr);
    }
    const bool delaysSum = row.results.size() == 1 && delayedSums[row.results.front()];
    key.push_back(delaysSum ? row.rule.get() : nullptr);
    auto [known, isNew] = splits.try_emplace(std::move(key));
    Split &split = known->second;
    if (isNew) {
      FactorSplit factors = chooseSplit(problem, row, planner, delaysSum);
      auto toAttr = [&](const Layout &layout) { return dist::LayoutAttr::get(problem.mesh.getContext(), layout); };
      for (const TensorFactors &tensor : row.rule->operands) {
        split.operands.push_back(toAttr(unproject(tensor, factors)));
      }
      FailureOr<SmallVector<Layout>> computed = resultLayouts(*row.rule, factors);
      assert(succeeded(computed) && "chosen splits have one reduction");
      llvm::append_range(split.results, llvm::map_range(*computed, toAttr));
    }
    return split;
  }

  // Returns why a result that is made in `layout` goes on to another: it is a term of a gradient, a copy of a parameter, or the op wants
  // it.
  dist::EndAttr causeOf(unsigned number, unsigned value, dist::LayoutAttr layout) {
    MLIRContext *context = problem.mesh.getContext();
    StringRef gradient = layout.getPartialAxes().empty() ? "" : gradientTerms[value];
    if (!gradient.empty()) {
      return dist::EndAttr::get(context, dist::EndKind::Gradient, gradient);
    }
    StringRef parameter = copiedParameters[value];
    return parameter.empty() ? opCause(problem.ops[number].op) : dist::EndAttr::get(context, dist::EndKind::Parameter, parameter);
  }

  // Has a value made in a layout, and redistributed from there to the layout of its tensor.
  void make(unsigned value, dist::LayoutAttr made, function_ref<dist::EndAttr()> cause) {
    dist::LayoutAttr home = std::exchange(assignment.values[value].front().layout, made);
    if (made != home) {
      homes[value] = assignment.redistribute({value, 0}, home, cause());
    }
  }

  // An op of a model that places its collectives itself stays as it is. Only constants may have to be cut for it, which sends nothing.
  LogicalResult keepPlaced(unsigned number) {
    const ProblemOp &row = problem.ops[number];
    for (auto [index, value, taken] : llvm::enumerate(row.operands, row.taken)) {
      std::optional<unsigned> maker = problem.values[value].maker;
      bool isFree = maker && problem.ops[*maker].isSource();
      dist::LayoutAttr layout = taken ? homeOf(*taken) : dist::LayoutAttr();
      if (!layout || (!isFree && assignment.values[value][homes[value].holding].layout != layout)) {
        return row.op->emitOpError("operand ") << index << " has layout " << dist::findLayout(row.op->getOperand(index))
                                               << " but is taken in " << layout << ", and nothing is placed in a model of mode HYBRID";
      }
      if (failed(take({number, static_cast<unsigned>(index)}, layout, [&] { return opCause(row.op); }))) {
        return failure();
      }
    }
    return success();
  }

  // Takes an operand in a layout.
  LogicalResult take(Use use, dist::LayoutAttr layout, function_ref<dist::EndAttr()> cause) {
    const ProblemOp &row = problem.ops[use.op];
    Place home = homes[row.operands[use.operand]];
    const Holdings &holdings = assignment.values[home.value];
    if (!holdings[home.holding].layout || !layout) {
      return row.op->emitOpError("operand ") << use.operand << " has no layout; run ashlar-propagate-layouts first";
    }
    if (holdings[home.holding].layout == layout) {
      assignment.take(use, home);
      return success();
    }
    for (unsigned child : holdings[home.holding].children) {
      if (holdings[child].layout == layout) {
        assignment.take(use, {home.value, child});
        return success();
      }
    }
    assignment.take(use, assignment.redistribute(home, layout, cause()));
    return success();
  }

  const LayoutProblem &problem;
  analysis::Planner &planner;
  SmallVector<StringRef> gradientTerms;                                        // of each value
  SmallVector<StringRef> copiedParameters;                                     // the same
  llvm::BitVector delayedSums;                                                 // values
  std::vector<dist::LayoutAttr> layouts;                                       // of each tensor
  std::unordered_map<SmallVector<const void *, 8>, Split, PointerHash> splits; // by rule and layouts
  std::vector<Place> homes;                                                    // where each value is in the layout of its tensor
  Assignment assignment;
};

} // namespace

FailureOr<Assignment> decide(const LayoutProblem &problem, analysis::Planner &planner) {
  analysis::Planner &cutting = mayCutAxes(problem) ? planner : planner.withoutCuts();
  FailureOr<Assignment> assignment = Decision(problem, cutting).run();
  if (failed(assignment)) {
    return failure();
  }
  assignment->cuts = findCuts(problem, *assignment, cutting);
  if (!assignment->cuts && asksForCuts(problem, *assignment, cutting)) { // it was decided for plans that there are not to be
    return Decision(problem, planner.withoutCuts()).run();
  }
  return assignment;
}

} // namespace ashlar::layout
