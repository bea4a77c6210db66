// SPDX-License-Identifier: Apache-2.0
//
// ashlar-apply-rules: rules of the user become given layouts.

#include "dialects/nn/nn.h"
#include "dialects/support/names.h"
#include "passes/layout/given_attributes.h"
#include "passes/layout/given_layout.h"
#include "passes/layout/mesh_refinement.h"
#include "passes/layout/named_tensors.h"
#include "passes/layout/passes.h"
#include "passes/layout/slice_counts.h"

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
};

// "rule "fc1.weight" (job.txtpb:14)", the source of the layouts that it gives.
std::string describeRule(dist::RuleAttr rule) {
  std::string text = "rule \"" + rule.getMatch().str() + "\"";
  return rule.getOrigin() ? text + " (" + rule.getOrigin().str() + ")" : text;
}

// Opens an error with the place of the rule: job.txtpb:14: rule "fc1.weight"
InFlightDiagnostic emitRuleError(dist::RuleAttr rule) {
  InFlightDiagnostic error = emitError(UnknownLoc::get(rule.getContext()));
  if (rule.getOrigin()) {
    error << rule.getOrigin().getValue() << ": ";
  }
  error << "rule \"" << rule.getMatch().getValue() << "\": ";
  return error;
}

// Collects what the rules say of each tensor, in the order of the rules.
class ConstraintTable {
public:
  // Adds what a rule says. Of two rules the one with the lower priority holds; equal ones have to agree.
  LogicalResult add(Constraint constraint) {
    auto [found, inserted] = index.try_emplace(constraint.tensor, list.size());
    if (inserted) {
      list.push_back(std::move(constraint));
      return success();
    }
    Constraint &other = list[found->second];
    if (constraint.rule.getPriority() < other.rule.getPriority()) {
      other = std::move(constraint);
      return success();
    }
    std::string before = printLayoutText(other.dims), now = printLayoutText(constraint.dims);
    if (constraint.rule.getPriority() > other.rule.getPriority() || before == now) {
      return success();
    }
    return emitRuleError(constraint.rule) << "gives " << constraint.tensor.describe() << " the layout " << now << " but "
                                          << describeRule(other.rule) << " gives it " << before
                                          << "; make them agree, or let the priority of one be lower";
  }

  std::vector<Constraint> list;

private:
  std::map<TensorRef, size_t> index;
};

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
    return success(llvm::all_of(constraints.list, [&](const Constraint &constraint) { return succeeded(write(constraint)); }));
  }

private:
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
      if (failed(constraints.add({tensor, *dims, rule}))) {
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
        if (failed(cutMesh(split.dims, emitOpError)) || failed(constraints.add({split.tensor, split.dims, rule}))) {
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
  ConstraintTable constraints;
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
