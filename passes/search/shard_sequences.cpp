// SPDX-License-Identifier: Apache-2.0
//
// ashlar-shard-sequences: values that tensor parallelism leaves replicated, as shards.

#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/layout_writer.h"
#include "passes/search/passes.h"
#include "passes/search/strategies.h"

#include "dialects/nn/phases.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ashlar::search {

#define GEN_PASS_DEF_SHARDSEQUENCESPASS
#include "passes/search/passes.h.inc"

namespace {

using dist::Layout;
using layout::LayoutProblem;

constexpr int64_t kLeastRank = 3; // of an activation with a sequence: of samples, tokens and features

// The values of the forward pass that all devices along an axis compute alike, because a sum over the axis comes before them: those of one
// type, the one that most of them have.
struct ReplicatedPart {
  StringAttr axis;
  SmallVector<OpResult> values;
  Layout layout; // of the first one
};

// Finds the replicated parts of programs with inferred layouts.
class PartFinder {
public:
  PartFinder(const LayoutProblem &problem, const layout::Inference &inference, StringAttr axis)
      : problem(problem), inference(inference), axis(axis) {}

  // Returns the part of an axis; no values where there is none.
  ReplicatedPart find() {
    llvm::for_each(problem.programs, [&](const layout::ProblemProgram &program) { visit(program); });
    llvm::MapVector<Type, SmallVector<OpResult>> ofType;
    for (unsigned value : reached) {
      auto result = cast<OpResult>(problem.values[value].value);
      if (problem.typeOf(value).getRank() >= kLeastRank && result.getResultNumber() == 0) {
        ofType[result.getType()].push_back(result);
      }
    }
    ReplicatedPart part{axis, {}, {}};
    for (auto &[type, values] : ofType) {
      part.values = values.size() > part.values.size() ? values : part.values;
    }
    if (!part.values.empty()) {
      part.layout = layoutOf(problem.find(part.values.front()));
    }
    return part;
  }

private:
  // In the order of a program, so that the makers of a value are known before it.
  void visit(const layout::ProblemProgram &program) {
    const nn::Phases phases(func::FuncOp(program.function).front());
    for (unsigned number = program.firstOp; number < program.endOp; ++number) {
      const layout::ProblemOp &op = problem.ops[number];
      const bool isForward = op.rule && phases.of(op.op) == nn::Phase::Forward;
      const bool follows = llvm::any_of(op.operands, [&](unsigned value) { return sums.contains(value) || reached.contains(value); });
      if (isForward && sumsOverAxis(op)) {
        sums.insert(op.results.begin(), op.results.end());
      } else if (isForward && follows && !usesAxis(op)) {
        reached.insert(op.results.begin(), op.results.end());
      }
    }
  }

  const Layout &layoutOf(unsigned value) const { return inference.getLayout(problem.values[value].tensor); }

  // Whether devices along the axis hold different parts of what an op takes or makes.
  bool usesAxis(const layout::ProblemOp &op) const {
    return llvm::any_of(llvm::concat<const unsigned>(op.operands, op.results), [&](unsigned value) { return layoutOf(value).uses(axis); });
  }

  // Whether an op makes terms of a sum over the axis, and their sum goes on.
  bool sumsOverAxis(const layout::ProblemOp &op) const {
    const bool isSharded = llvm::any_of(op.results, [&](unsigned value) { return layoutOf(value).uses(axis); });
    return !isSharded && llvm::any_of(llvm::zip_equal(op.rule->operands, op.operands), [&](auto item) {
      auto [tensor, value] = item;
      const layout::FactorSplit split = layout::project(problem.mesh, *op.rule, tensor, layoutOf(value));
      return llvm::any_of(llvm::zip_equal(op.rule->factors, split), [&](auto each) {
        return std::get<0>(each).kind == FactorKind::Reduction && llvm::is_contained(std::get<1>(each), axis);
      });
    });
  }

  const LayoutProblem &problem;
  const layout::Inference &inference;
  StringAttr axis;
  llvm::DenseSet<unsigned> sums;     // values
  llvm::SetVector<unsigned> reached; // the same
};

// Returns the dims of a part that may be the sequence, the longest first: those that nothing shards, except the last, which norms reduce.
SmallVector<int64_t> sequenceDims(dist::MeshAttr mesh, const ReplicatedPart &part) {
  auto type = cast<RankedTensorType>(part.values.front().getType());
  SmallVector<int64_t> dims;
  for (int64_t dim = 0; dim + 1 < type.getRank(); ++dim) {
    if (part.layout.dims[dim].empty() && dist::isEven(mesh, type.getDimSize(dim), part.axis)) {
      dims.push_back(dim);
    }
  }
  llvm::sort(dims, [&](int64_t a, int64_t b) { return std::pair(-type.getDimSize(a), a) < std::pair(-type.getDimSize(b), b); });
  return dims;
}

// Suggests that a dim of a part is sharded, beside earlier suggestions, which are returned: one attribute a value, maybe null.
SmallVector<dist::LayoutAttr> suggest(const ReplicatedPart &part, int64_t dim) {
  return llvm::map_to_vector(part.values, [&](OpResult value) {
    Operation *op = value.getOwner();
    auto before = op->getAttrOfType<dist::LayoutAttr>(dist::kSuggestedAttr);
    Layout layout = before ? before.getLayout() : Layout::replicated(cast<RankedTensorType>(value.getType()).getRank());
    if (!layout.uses(part.axis)) {
      layout.dims[dim].push_back(part.axis);
    }
    op->setAttr(dist::kSuggestedAttr, dist::LayoutAttr::get(op->getContext(), layout));
    return before;
  });
}

void restore(const ReplicatedPart &part, ArrayRef<dist::LayoutAttr> before) {
  for (auto [value, layout] : llvm::zip_equal(part.values, before)) {
    layout ? value.getOwner()->setAttr(dist::kSuggestedAttr, layout) : (void)value.getOwner()->removeAttr(dist::kSuggestedAttr);
  }
}

struct ShardSequences : impl::ShardSequencesPassBase<ShardSequences> {
  using ShardSequencesPassBase::ShardSequencesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshAttr mesh = layout::requirePrograms(module);
    if (!mesh) {
      return signalPassFailure();
    }
    FailureOr<layout::Inferred> inferred = layout::inferLayouts(module, /*splitVariables=*/true, /*keeps=*/false);
    if (failed(inferred)) {
      return signalPassFailure();
    }
    if (const SmallVector<ReplicatedPart> parts = findParts(*inferred); !parts.empty()) {
      inferred = shard(parts, mesh, std::move(*inferred));
    }
    layout::writeLayouts(inferred->problem, inferred->inference);
  }

private:
  // Shards parts of the module where that costs no more, and returns the layouts with that. `plain`: those without. Of a large model one
  // problem is kept at a time.
  FailureOr<layout::Inferred> shard(ArrayRef<ReplicatedPart> parts, dist::MeshAttr mesh, FailureOr<layout::Inferred> plain) {
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); }); // a part may not fit
    analysis::Planner planner(dist::findMesh(getOperation()), analysis::Cuts::Allowed);
    std::optional<Prediction> best = predict(getOperation(), *plain, planner);
    plain = failure();
    OwningOpRef<ModuleOp> sharded;
    FailureOr<layout::Inferred> inferred;
    for (const ReplicatedPart &part : parts) {
      for (int64_t dim : sequenceDims(mesh, part)) {
        const SmallVector<dist::LayoutAttr> before = suggest(part, dim);
        OwningOpRef<ModuleOp> trial = getOperation().clone();
        FailureOr<layout::Inferred> with = layout::inferLayouts(*trial, /*splitVariables=*/true);
        std::optional<Prediction> prediction = failed(with) ? std::nullopt : predict(*trial, *with, planner);
        if (best && prediction && costsNoMore(*prediction, *best)) {
          best = prediction;
          inferred = std::move(with);
          sharded = std::move(trial);
          break;
        }
        restore(part, before);
      }
    }
    if (!sharded) {
      return layout::inferLayouts(getOperation(), /*splitVariables=*/true);
    }
    getOperation().getBodyRegion().takeBody(sharded->getBodyRegion());
    return inferred;
  }

  // Whether a prediction is better in one respect, and in none worse.
  static bool costsNoMore(const Prediction &one, const Prediction &other) {
    return one.stepPs <= other.stepPs && one.memoryBytes <= other.memoryBytes &&
           (one.stepPs < other.stepPs || one.memoryBytes < other.memoryBytes);
  }

  // Returns the replicated parts of the axes that shard parameters.
  static SmallVector<ReplicatedPart> findParts(const layout::Inferred &inferred) {
    const LayoutProblem &problem = inferred.problem;
    const layout::Inference &inference = inferred.inference;
    SmallVector<ReplicatedPart> parts;
    for (StringAttr axis : problem.mesh.getAxes()) {
      const bool shardsParameters = llvm::any_of(problem.variables, [&](const auto &variable) {
        return nn::VariableOp(variable.first).getTrainable() && inference.getLayout(variable.second).uses(axis);
      });
      ReplicatedPart part = shardsParameters ? PartFinder(problem, inference, axis).find() : ReplicatedPart{axis, {}, {}};
      if (!part.values.empty()) {
        parts.push_back(std::move(part));
      }
    }
    return parts;
  }
};

} // namespace

} // namespace ashlar::search
