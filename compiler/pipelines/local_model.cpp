// SPDX-License-Identifier: Apache-2.0
//
// Pieces are counted from the layouts in the rules, before there is a module that the rules could be applied to.

#include "compiler/pipelines/local_model.h"

#include "dialects/dist/rules.h"
#include "dialects/support/names.h"
#include "passes/layout/rules/mesh_refinement.h"

using namespace mlir;

namespace ashlar::pipelines {
namespace {

// The pieces a dim that one rule gives to the tensors it matches.
struct RulePieces {
  std::string match;
  int64_t priority;
  std::vector<int64_t> pieces;
};

// Returns the pieces a dim of the layout of a rule.
FailureOr<std::vector<int64_t>> countPieces(const job::Rule &rule, dist::MeshAttr mesh) {
  Builder builder(mesh.getContext());
  StringAttr match = builder.getStringAttr(rule.match()), origin = rule.origin().empty() ? nullptr : builder.getStringAttr(rule.origin());
  auto emitError = [&] { return dist::emitRuleError(match, origin); };
  FailureOr<SmallVector<layout::DimSplit>> dims = layout::parseLayoutText(rule.layout(), emitError);
  if (failed(dims)) {
    return failure();
  }
  std::vector<int64_t> pieces;
  for (const layout::DimSplit &dim : *dims) {
    pieces.push_back(1);
    for (const layout::AxisPart &part : dim.axes) {
      if (part.size != 0) {
        return emitError() << part.toString() << " is a part of an axis; in mode HYBRID give the mesh the parts as axes of their own";
      }
      if (failed(layout::MeshRefinement(mesh).cut(part, emitError))) {
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
  std::vector<RulePieces> rules;
  for (const job::Rule &rule : job.rules()) {
    if (!rule.has_layout()) {
      continue; // it only has settings
    }
    FailureOr<std::vector<int64_t>> pieces = countPieces(rule, mesh);
    if (failed(pieces)) {
      return failure();
    }
    rules.push_back({rule.match(), rule.priority(), *pieces});
  }
  // Of two rules the one with the lower priority holds, as in ashlar-apply-rules, which also tells of those that contradict.
  auto pieces = [rules](StringRef name, int64_t rank) {
    const RulePieces *best = nullptr;
    for (const RulePieces &rule : rules) {
      bool matches = static_cast<int64_t>(rule.pieces.size()) == rank && matchesGlob(rule.match, name);
      best = matches && (!best || rule.priority < best->priority) ? &rule : best;
    }
    return best ? best->pieces : std::vector<int64_t>(rank, 1);
  };
  return frontend::LocalModel{mesh, pieces};
}

} // namespace ashlar::pipelines
