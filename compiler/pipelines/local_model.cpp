// SPDX-License-Identifier: Apache-2.0
//
// Pieces are counted from the layouts in the rules, before there is a module that the rules could be applied to.

#include "compiler/pipelines/local_model.h"

#include "dialects/dist/rules.h"
#include "passes/layout/rules/layout_text.h"

using namespace mlir;

namespace ashlar::pipelines {
namespace {

RuleHead headOf(const job::Rule &rule) {
  return {rule.match(), rule.priority(), rule.origin()};
}

// Returns the pieces a dim of the layout of a rule.
FailureOr<std::vector<int64_t>> countPieces(const job::Rule &rule, dist::MeshAttr mesh) {
  auto emitError = [&] { return dist::emitRuleError(mesh.getContext(), headOf(rule)); };
  FailureOr<SmallVector<layout::DimSplit>> dims = layout::parseLayoutText(rule.layout(), emitError);
  if (failed(dims)) {
    return failure();
  }
  std::vector<int64_t> pieces;
  for (const layout::DimSplit &dim : *dims) {
    pieces.push_back(1);
    for (const analysis::AxisPart &part : dim.axes) {
      if (part.size != 0) {
        return emitError() << part.toString() << " is a part of an axis; in mode HYBRID give the mesh the parts as axes of their own";
      }
      if (failed(analysis::MeshRefinement(mesh).cut(part, emitError))) {
        return failure();
      }
      pieces.back() *= mesh.axisSize(StringAttr::get(mesh.getContext(), part.axis));
    }
  }
  return pieces;
}

} // namespace

dist::MeshAttr makeMesh(const job::Job &job, MLIRContext *context) {
  context->loadDialect<dist::DistDialect>();
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const job::Mesh::Axis &axis : job.mesh().axes()) {
    names.push_back(StringAttr::get(context, axis.name()));
    sizes.push_back(axis.size());
  }
  return dist::MeshAttr::get(context, names, sizes);
}

FailureOr<frontend::LocalModel> describeLocalModel(const job::Job &job, MLIRContext *context) {
  dist::MeshAttr mesh = makeMesh(job, context);
  std::map<int64_t, RuleSet<std::vector<int64_t>>> rules; // by rank
  for (const job::Rule &rule : job.rules()) {
    if (!rule.has_layout()) {
      continue; // it only has settings
    }
    FailureOr<std::vector<int64_t>> pieces = countPieces(rule, mesh);
    if (failed(pieces)) {
      return failure();
    }
    rules.try_emplace(pieces->size(), RuleScope{{NameKind::Tensor}}).first->second.add(headOf(rule), *pieces);
  }
  // ashlar-apply-rules reports rules that match nothing or contradict each other.
  auto pieces = [rules](StringRef name, int64_t rank) {
    auto ofRank = rules.find(rank);
    return (ofRank == rules.end() ? std::nullopt : ofRank->second.find(name)).value_or(std::vector<int64_t>(rank, 1));
  };
  return frontend::LocalModel{mesh, pieces};
}

} // namespace ashlar::pipelines
