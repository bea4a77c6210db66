// SPDX-License-Identifier: Apache-2.0
//
// ashlar-apply-rules: rules of the user become given layouts.

#include "dialects/dist/rules.h"
#include "dialects/nn/nn.h"
#include "dialects/support/names.h"
#include "passes/layout/inference/given_attributes.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/named_tensors.h"
#include "passes/layout/passes.h"
#include "passes/layout/rules/mesh_refinement.h"
#include "passes/layout/rules/slice_counts.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_APPLYRULESPASS
#include "passes/layout/passes.h.inc"

namespace {

// What one rule says of one tensor.
struct Constraint {
  TensorRef tensor;
  SmallVector<DimSplit> dims;
  dist::RuleAttr rule;

  int64_t getPriority() const { return rule.getPriority(); }
  std::string text() const { return printLayoutText(dims); }
};

std::string describeRule(dist::RuleAttr rule) {
  return dist::describeRule(rule.getMatch(), rule.getOrigin());
}

InFlightDiagnostic emitRuleError(dist::RuleAttr rule) {
  return dist::emitRuleError(rule.getMatch(), rule.getOrigin());
}

// Turns the rules of a module into attributes.
class RuleApplication {
public:
  RuleApplication(ModuleOp module, dist::MeshAttr mesh) : module(module), named(module), refinement(mesh) {}

  LogicalResult run(ArrayRef<dist::RuleAttr> rules) {
    // Counts take their axes with regard to how the layouts cut the mesh.
    for (bool hasLayout : {true, false}) {
      for (dist::RuleAttr rule : rules) {
        bool applies = static_cast<bool>(rule.getLayout()) == hasLayout;
        if (applies && failed(hasLayout ? applyLayout(rule) : applyCounts(rule))) {
          return failure();
        }
      }
      if (failed(refinement.check([&] { return emitError(UnknownLoc::get(module.getContext())); }))) {
        return failure();
      }
    }
    refinement.apply(module);
    return success(llvm::all_of(constraints.statements(), [&](const Constraint &constraint) { return succeeded(write(constraint)); }));
  }

private:
  LogicalResult add(const Constraint &constraint) {
    const Constraint *other = constraints.add(constraint.tensor, constraint);
    if (!other) {
      return success();
    }
    return emitRuleError(constraint.rule) << "gives " << constraint.tensor.describe() << " the layout " << constraint.text() << " but "
                                          << describeRule(other->rule) << " gives it " << other->text()
                                          << "; make them agree, or let the priority of one be lower";
  }

  // Gives the layout of a rule to the tensors that it names.
  LogicalResult applyLayout(dist::RuleAttr rule) {
    auto emitError = [&] { return emitRuleError(rule); };
    FailureOr<SmallVector<DimSplit>> dims = parseLayoutText(rule.getLayout(), emitError);
    if (failed(dims) || failed(cutMesh(*dims, emitError))) {
      return failure();
    }
    SmallVector<TensorRef> tensors = named.findTensors(rule.getMatch());
    if (tensors.empty()) {
      return emitError() << "matches no tensor and no op; nearest names: " << nearestNames(named.names(/*opsOnly=*/false), rule.getMatch());
    }
    for (const TensorRef &tensor : tensors) {
      if (tensor.getType().getRank() != static_cast<int64_t>(dims->size())) {
        return emitError() << "layout " << printLayoutText(*dims) << " is of rank " << dims->size() << " but " << tensor.describe()
                           << " has type " << tensor.getType() << ", rank " << tensor.getType().getRank()
                           << "; match tensors of one rank only";
      }
      if (failed(add({tensor, *dims, rule}))) {
        return failure();
      }
    }
    return success();
  }

  // Gives the layouts that the counts of a rule become to the operands and results of the ops that it names.
  LogicalResult applyCounts(dist::RuleAttr rule) {
    auto emitError = [&] { return emitRuleError(rule); };
    auto groups = named.findOps(rule.getMatch());
    if (groups.empty()) {
      return emitError() << "matches no op, which `in` and `out` are for; nearest names: "
                         << nearestNames(named.names(/*opsOnly=*/true), rule.getMatch());
    }
    for (auto [path, group] : groups) {
      auto emitOpError = [&, path = path] {
        InFlightDiagnostic error = emitRuleError(rule);
        error << "op \"" << path << "\": ";
        return error;
      };
      FailureOr<SmallVector<TensorSplit>> splits = assignAxes(refinement, rule, *group, emitOpError);
      if (failed(splits)) {
        return failure();
      }
      for (TensorSplit &split : *splits) {
        if (failed(cutMesh(split.dims, emitOpError)) || failed(add({split.tensor, split.dims, rule}))) {
          return failure();
        }
      }
    }
    return success();
  }

  LogicalResult cutMesh(ArrayRef<DimSplit> dims, function_ref<InFlightDiagnostic()> emitError) {
    for (const DimSplit &dim : dims) {
      for (const AxisPart &axis : dim.axes) {
        if (failed(refinement.cut(axis, emitError))) {
          return failure();
        }
      }
    }
    return success();
  }

  // Writes what is said of a tensor into the module.
  LogicalResult write(const Constraint &constraint) {
    dist::Layout layout = dist::Layout::replicated(constraint.dims.size());
    SmallVector<int64_t> open;
    SmallPtrSet<StringAttr, 4> used;
    for (auto [d, dim] : llvm::enumerate(constraint.dims)) {
      for (const AxisPart &part : dim.axes) {
        for (StringAttr axis : refinement.expand(part)) {
          if (!used.insert(axis).second) {
            return emitRuleError(constraint.rule)
                   << "layout " << printLayoutText(constraint.dims) << " uses axis " << axis << " twice; an axis splits one dim, once";
          }
          layout.dims[d].push_back(axis);
        }
      }
      if (dim.isOpen) {
        open.push_back(d);
      }
    }
    Builder builder(module.getContext());
    Attribute origin = dist::OriginAttr::get(builder.getContext(), builder.getStringAttr(describeRule(constraint.rule)), {}, {}, {});
    writeGiven(constraint.tensor, {dist::LayoutAttr::get(module.getContext(), layout), builder.getDenseI64ArrayAttr(open),
                                   constraint.rule.getPriority(), builder.getArrayAttr({origin})});
    return success();
  }

  ModuleOp module;
  NamedTensors named;
  MeshRefinement refinement;
  dist::RuleTable<TensorRef, Constraint> constraints;
};

struct ApplyRules : impl::ApplyRulesPassBase<ApplyRules> {
  using ApplyRulesPassBase::ApplyRulesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto attribute = module->getAttrOfType<ArrayAttr>(dist::kRulesAttr);
    if (!attribute) {
      return;
    }
    dist::MeshAttr mesh = requirePrograms(module);
    auto rules = llvm::map_to_vector(attribute, [](Attribute rule) { return dyn_cast<dist::RuleAttr>(rule); });
    if (mesh && llvm::is_contained(rules, dist::RuleAttr())) {
      module.emitError() << dist::kRulesAttr << " holds something other than rules";
      mesh = {};
    }
    if (!mesh || failed(RuleApplication(module, mesh).run(rules))) {
      return signalPassFailure();
    }
    module->removeAttr(dist::kRulesAttr);
  }
};

} // namespace

} // namespace ashlar::layout
