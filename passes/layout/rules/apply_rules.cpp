// SPDX-License-Identifier: Apache-2.0
//
// ashlar-apply-rules: rules of the user become given layouts.

#include "dialects/dist/rules.h"
#include "dialects/nn/nn.h"
#include "passes/layout/inference/given_attributes.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/named_tensors.h"
#include "passes/layout/passes.h"
#include "passes/layout/rules/layout_text.h"
#include "passes/layout/rules/slice_counts.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_APPLYRULESPASS
#include "passes/layout/passes.h.inc"

namespace {

// The layout that a rule gives to a tensor.
struct GivenDims {
  SmallVector<DimSplit> dims;

  std::string text() const { return printLayoutText(dims); }
  bool operator==(const GivenDims &other) const { return text() == other.text(); }
};

// Turns the rules of a module into attributes.
class RuleApplication {
public:
  RuleApplication(ModuleOp module, dist::MeshAttr mesh, ArrayRef<dist::RuleAttr> rules)
      : module(module), context(module.getContext()), rules(rules),
        heads(llvm::map_to_vector(rules, [](dist::RuleAttr rule) { return dist::headOf(rule); })), named(module), refinement(mesh) {}

  LogicalResult run() {
    // Counts take their axes with regard to how the layouts cut the mesh.
    for (bool hasLayout : {true, false}) {
      for (auto [rule, head] : llvm::zip_equal(rules, heads)) {
        bool applies = static_cast<bool>(rule.getLayout()) == hasLayout;
        if (applies && failed(hasLayout ? applyLayout(rule, head) : applyCounts(rule, head))) {
          return failure();
        }
      }
      if (failed(refinement.check([&] { return emitError(UnknownLoc::get(context)); }))) {
        return failure();
      }
    }
    for (const auto &[tensor, verdict] : verdicts) {
      auto print = [](const GivenDims &given) { return given.text(); };
      if (failed(dist::emitIfError(context, verdict.contradiction(tensor.describe(), "layout", print)))) {
        return failure();
      }
    }
    refinement.apply(module);
    return success(llvm::all_of(verdicts, [&](const auto &entry) { return succeeded(write(entry.first, *entry.second.holds())); }));
  }

private:
  void add(const TensorRef &tensor, SmallVector<DimSplit> dims, const RuleHead &rule) {
    auto [place, isNew] = index.try_emplace(tensor, verdicts.size());
    if (isNew) {
      verdicts.emplace_back(tensor, RuleVerdict<GivenDims>());
    }
    verdicts[place->second].second.add({&rule, {std::move(dims)}, {rule.priority}});
  }

  // Gives the layout of a rule to the tensors that it names.
  LogicalResult applyLayout(dist::RuleAttr rule, const RuleHead &head) {
    auto emitError = [&] { return dist::emitRuleError(context, head); };
    FailureOr<SmallVector<DimSplit>> dims = parseLayoutText(rule.getLayout(), emitError);
    if (failed(dims) || failed(cutMesh(*dims, emitError))) {
      return failure();
    }
    SmallVector<TensorRef> tensors = named.findTensors(rule.getMatch());
    if (tensors.empty()) {
      return dist::emitIfError(context, describeUnmatched(head, {{NameKind::Tensor, NameKind::Op}}, named.names()));
    }
    for (const TensorRef &tensor : tensors) {
      if (tensor.getType().getRank() != static_cast<int64_t>(dims->size())) {
        return emitError() << "layout " << printLayoutText(*dims) << " is of rank " << dims->size() << " but " << tensor.describe()
                           << " has type " << tensor.getType() << ", rank " << tensor.getType().getRank()
                           << "; match tensors of one rank only";
      }
      add(tensor, *dims, head);
    }
    return success();
  }

  // Gives the layouts that the counts of a rule become to the operands and results of the ops that it names.
  LogicalResult applyCounts(dist::RuleAttr rule, const RuleHead &head) {
    auto groups = named.findOps(rule.getMatch());
    if (groups.empty()) {
      return dist::emitIfError(context, describeUnmatched(head, {{NameKind::Op}, ", which `in` and `out` are for"}, named.names()));
    }
    for (auto [path, group] : groups) {
      auto emitOpError = [&, path = path] {
        InFlightDiagnostic error = dist::emitRuleError(context, head);
        error << describeName(NameKind::Op, path) << ": ";
        return error;
      };
      FailureOr<SmallVector<TensorSplit>> splits = assignAxes(refinement, rule, *group, emitOpError);
      if (failed(splits)) {
        return failure();
      }
      for (TensorSplit &split : *splits) {
        if (failed(cutMesh(split.dims, emitOpError))) {
          return failure();
        }
        add(split.tensor, split.dims, head);
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

  // Writes the layout that holds for a tensor into the module.
  LogicalResult write(const TensorRef &tensor, const RuleStatement<GivenDims> &given) {
    const SmallVector<DimSplit> &dims = given.value.dims;
    dist::Layout layout = dist::Layout::replicated(dims.size());
    SmallVector<int64_t> open;
    SmallPtrSet<StringAttr, 4> used;
    for (auto [d, dim] : llvm::enumerate(dims)) {
      for (const AxisPart &part : dim.axes) {
        for (StringAttr axis : refinement.expand(part)) {
          if (!used.insert(axis).second) {
            return dist::emitRuleError(context, *given.rule)
                   << "layout " << given.value.text() << " uses axis " << axis << " twice; an axis splits one dim, once";
          }
          layout.dims[d].push_back(axis);
        }
      }
      if (dim.isOpen) {
        open.push_back(d);
      }
    }
    Builder builder(context);
    Attribute origin = dist::OriginAttr::get(context, builder.getStringAttr(given.rule->describe()), {}, {}, {});
    writeGiven(tensor, {dist::LayoutAttr::get(context, layout), builder.getDenseI64ArrayAttr(open), given.rule->priority,
                        builder.getArrayAttr({origin})});
    return success();
  }

  ModuleOp module;
  MLIRContext *context;
  ArrayRef<dist::RuleAttr> rules;
  SmallVector<RuleHead> heads; // of the rules
  NamedTensors named;
  MeshRefinement refinement;
  std::vector<std::pair<TensorRef, RuleVerdict<GivenDims>>> verdicts; // in the order in which rules first name the tensors
  std::map<TensorRef, size_t> index;                                  // of these
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
    if (!mesh || failed(RuleApplication(module, mesh, rules).run())) {
      return signalPassFailure();
    }
    module->removeAttr(dist::kRulesAttr);
  }
};

} // namespace

} // namespace ashlar::layout
