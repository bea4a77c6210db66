// SPDX-License-Identifier: Apache-2.0
//
// ashlar-verify-layouts: the border between passes/layout and passes/partition.

#include "dialects/nn/nn.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/layout_problem.h"
#include "passes/layout/inference/linear_ops.h"
#include "passes/layout/inference/partial_values.h"
#include "passes/layout/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_VERIFYLAYOUTSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Checks that a value that leaves through `op` has the layout of where it goes.
LogicalResult verifyArrival(Operation *op, Value value, dist::LayoutAttr expected, const Twine &where) {
  dist::LayoutAttr layout = dist::findLayout(value);
  if (!layout || !expected) {
    return op->emitOpError() << where << " or its value has no layout";
  }
  if (layout != expected) {
    return op->emitOpError() << where << " has layout " << expected << " but its value has " << layout;
  }
  return success();
}

// Returns a layout without the axes over which the op computes on terms of a sum.
Layout withoutTerms(Value value, ArrayRef<StringAttr> terms) {
  Layout layout = dist::findLayout(value).getLayout();
  llvm::erase_if(layout.partial, [&](StringAttr axis) { return llvm::is_contained(terms, axis); });
  return layout;
}

// Checks that the layouts around an op are one split of its factors. A linear op on terms of a sum has a sum of terms as its result.
LogicalResult verifyRuled(const LayoutProblem &problem, const ProblemOp &row) {
  Operation *op = row.op;
  MeshAttr mesh = problem.mesh;
  const ShardingRule &rule = *row.rule;
  FactorSplit split(rule.factors.size());
  SmallVector<bool> known(rule.factors.size(), false);
  auto merge = [&](const TensorFactors &tensor, const Layout &layout, const Twine &what) -> LogicalResult {
    FactorSplit own = project(mesh, rule, tensor, layout);
    if (unproject(tensor, own).dims != layout.dims) {
      return op->emitOpError() << what << " has layout " << layout.toString() << ", which does not fit the factors " << rule.toString();
    }
    for (size_t factor = 0; factor < own.size(); ++factor) {
      if (!holdsFactor(tensor, factor)) {
        continue;
      }
      if (!own[factor].empty() && !mayBeSplit(rule.factors[factor].kind)) {
        return op->emitOpError() << what << " has layout " << layout.toString()
                                 << ", which splits a factor that it needs whole: " << rule.toString();
      }
      if (known[factor] && own[factor] != split[factor]) {
        return op->emitOpError() << what << " has layout " << layout.toString()
                                 << ", which disagrees with the other tensors on a factor of " << rule.toString();
      }
      split[factor] = own[factor];
      known[factor] = true;
    }
    return success();
  };
  bool isExplicit = op->hasAttr(dist::kExplicitAttr);
  dist::AxisList terms = isExplicit ? dist::AxisList() : termAxes(op);
  SmallVector<Layout> operands;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    Layout layout = operands.emplace_back(withoutTerms(operand, terms));
    if (layout.isPartial() && !isExplicit) {
      return op->emitOpError("operand ") << index << " is partial: " << layout.toString();
    }
    if (failed(merge(rule.operands[index], layout, "operand " + Twine(index)))) {
      return failure();
    }
  }
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    if (failed(merge(rule.results[index], withoutTerms(result, terms), "result " + Twine(index)))) {
      return failure();
    }
  }
  std::string reason;
  FailureOr<SmallVector<Layout>> computed = resultLayoutsOfParts(op, rule, split, operands, reason);
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    Layout layout = dist::findLayout(result).getLayout();
    if (succeeded(computed) && !terms.empty()) {
      llvm::append_range((*computed)[index].partial, terms);
    }
    if (failed(computed) || (*computed)[index] != layout) {
      return op->emitOpError("result ") << index << " has layout " << layout.toString()
                                        << (failed(computed) ? " but the op cannot compute on its pieces: " + reason
                                                             : " but is computed as " + (*computed)[index].toString());
    }
  }
  return success();
}

class Verifier {
public:
  explicit Verifier(const LayoutProblem &problem) : problem(problem) {}

  LogicalResult run() {
    for (auto [variable, tensor] : problem.variables) {
      if (!layoutOf(tensor)) {
        return nn::VariableOp(variable).emitOpError("has no layout");
      }
    }
    for (const ProblemProgram &program : problem.programs) {
      func::FuncOp function = program.function;
      for (BlockArgument argument : function.getArguments()) {
        if (!dist::findLayout(argument)) { // its own, not that of another program's argument of this name
          return function.emitError() << nameArgument(function, argument.getArgNumber()) << " has no layout";
        }
      }
    }
    for (const ProblemOp &op : problem.ops) {
      if (failed(verifyOp(op))) {
        return failure();
      }
    }
    return success();
  }

private:
  // Returns the layout of a tensor; null when it has none.
  dist::LayoutAttr layoutOf(unsigned tensor) const {
    const std::optional<GivenLayout> &given = problem.tensors[tensor].given;
    return given ? dist::LayoutAttr::get(problem.mesh.getContext(), given->layout) : dist::LayoutAttr();
  }

  LogicalResult verifyOp(const ProblemOp &row) {
    Operation *op = row.op;
    for (auto [index, result] : llvm::enumerate(op->getResults())) {
      if (!dist::findLayout(result)) {
        return op->emitOpError("result ") << index << " has no layout";
      }
    }
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      return verifyArrival(op, read, layoutOf(*row.variable), "variable @" + read.getVariable());
    }
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      return verifyArrival(op, write.getValue(), layoutOf(*row.taken.front()), "variable @" + write.getVariable());
    }
    if (auto redistribute = dyn_cast<dist::RedistributeOp>(op)) {
      return success(succeeded(verifyArrival(op, redistribute.getInput(), redistribute.getFrom(), "\"from\"")) &&
                     succeeded(verifyArrival(op, redistribute, redistribute.getTo(), "\"to\"")));
    }
    if (isa<func::ReturnOp>(op)) {
      auto function = cast<func::FuncOp>(op->getParentOp());
      for (auto [index, value] : llvm::enumerate(op->getOperands())) {
        auto layout = function.getResultAttrOfType<dist::LayoutAttr>(index, dist::kLayoutAttr);
        if (failed(verifyArrival(op, value, layout, "result " + Twine(index)))) {
          return failure();
        }
      }
      return success();
    }
    return row.rule ? verifyRuled(problem, row) : op->emitOpError("has no sharding rule");
  }

  const LayoutProblem &problem;
};

struct VerifyLayouts : impl::VerifyLayoutsPassBase<VerifyLayouts> {
  using VerifyLayoutsPassBase::VerifyLayoutsPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    FailureOr<LayoutProblem> problem = LayoutProblem::create(getOperation(), mesh, /*isDecided=*/true);
    if (failed(problem) || failed(Verifier(*problem).run())) {
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace

} // namespace ashlar::layout
