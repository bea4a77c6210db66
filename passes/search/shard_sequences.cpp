// SPDX-License-Identifier: Apache-2.0
//
// ashlar-shard-sequences: what tensor parallelism leaves replicated, as shards.

#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/inference.h"
#include "passes/layout/redistribute/decide.h"
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

// The values of the forward pass that all devices along an axis compute alike, because a sum over the axis was combined before them: those
// of one type, on which most of that is computed.
struct ReplicatedPart {
  StringAttr axis;
  SmallVector<OpResult> values;
  Layout layout; // of the first one
};

// Finds the replicated parts of programs with decided layouts.
class PartFinder {
public:
  PartFinder(const LayoutProblem &problem, const layout::Assignment &assignment) : problem(problem), assignment(assignment) {}

  // Returns the part of an axis; no values where there is none.
  ReplicatedPart find(StringAttr axis) {
    this->axis = axis;
    for (const layout::ProblemProgram &program : problem.programs) {
      visit(program);
    }
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
      part.layout = assignment.made(problem.find(part.values.front())).getLayout();
    }
    return part;
  }

private:
  void visit(const layout::ProblemProgram &program) {
    const nn::Phases phases(func::FuncOp(program.function).front());
    SmallVector<unsigned> pending; // ops
    for (unsigned number = program.firstOp; number < program.endOp; ++number) {
      const layout::ProblemOp &op = problem.ops[number];
      if (op.rule && phases.of(op.op) == nn::Phase::Forward) {
        llvm::for_each(op.results, [&](unsigned value) { addUsersOfSum(value, pending); });
      }
    }
    llvm::DenseSet<unsigned> seen;
    while (!pending.empty()) {
      const unsigned number = pending.pop_back_val();
      const layout::ProblemOp &op = problem.ops[number];
      if (!op.rule || phases.of(op.op) != nn::Phase::Forward || !seen.insert(number).second || usesAxis(number)) {
        continue;
      }
      for (unsigned value : op.results) {
        reached.insert(value);
        for (const layout::Holding &holding : assignment.values[value]) {
          llvm::for_each(holding.uses, [&](const layout::Use &use) { pending.push_back(use.op); });
        }
      }
    }
  }

  // Adds the ops that take a value replicated which is made as terms of a sum over the axis.
  void addUsersOfSum(unsigned value, SmallVectorImpl<unsigned> &ops) const {
    const layout::Holdings &holdings = assignment.values[value];
    if (!llvm::is_contained(holdings.front().layout.getLayout().partial, axis)) {
      return;
    }
    for (const layout::Holding &holding : llvm::drop_begin(holdings)) {
      if (!holding.layout.getLayout().uses(axis)) {
        llvm::for_each(holding.uses, [&](const layout::Use &use) { ops.push_back(use.op); });
      }
    }
  }

  // Whether devices along the axis compute different parts of an op.
  bool usesAxis(unsigned number) const {
    const layout::ProblemOp &op = problem.ops[number];
    auto uses = [&](dist::LayoutAttr layout) { return layout.getLayout().uses(axis); };
    return llvm::any_of(op.results, [&](unsigned value) { return uses(assignment.made(value)); }) ||
           llvm::any_of(llvm::seq<unsigned>(0, op.operands.size()),
                        [&](unsigned operand) { return uses(assignment.taken(number, operand)); });
  }

  const LayoutProblem &problem;
  const layout::Assignment &assignment;
  StringAttr axis;
  llvm::SetVector<unsigned> reached; // values
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

// Suggests that a dim of a part is sharded, beside what was suggested of it before, which is returned: one attribute a value, maybe null.
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
    dist::Planner planner(dist::findMesh(module));
    std::optional<Prediction> best;
    for (StringAttr axis : mesh.getAxes()) {
      const ReplicatedPart part = findPart(axis, planner);
      const SmallVector<int64_t> dims = part.values.empty() ? SmallVector<int64_t>() : sequenceDims(mesh, part);
      if (dims.empty()) {
        continue;
      }
      best = best ? best : predict(module, planner);
      for (int64_t dim : dims) {
        const SmallVector<dist::LayoutAttr> before = suggest(part, dim);
        std::optional<Prediction> with = predict(module, planner);
        if (best && with && costsNoMore(*with, *best)) {
          best = with;
          break;
        }
        restore(part, before);
      }
    }
  }

private:
  // Whether a prediction is better in one respect, and in none worse.
  static bool costsNoMore(const Prediction &one, const Prediction &other) {
    return one.stepPs <= other.stepPs && one.memoryBytes <= other.memoryBytes &&
           (one.stepPs < other.stepPs || one.memoryBytes < other.memoryBytes);
  }

  // Returns the replicated part of an axis that shards parameters, by inference on what is given and suggested. No values where inference
  // refuses that.
  ReplicatedPart findPart(StringAttr axis, dist::Planner &planner) {
    ModuleOp module = getOperation();
    llvm::for_each(module.getOps<func::FuncOp>(), layout::copySources);
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    FailureOr<LayoutProblem> problem = LayoutProblem::create(module, dist::findMesh(module).getMesh());
    if (failed(problem)) {
      return {axis, {}, {}};
    }
    layout::Inference inference(*problem);
    inference.run();
    const bool isOfTensors = llvm::any_of(problem->variables, [&](const auto &variable) {
      return nn::VariableOp(variable.first).getTrainable() && inference.getLayout(variable.second).uses(axis);
    });
    for (auto [number, tensor] : llvm::enumerate(problem->tensors)) {
      tensor.given = layout::GivenLayout{inference.getLayout(number), SmallVector<bool>(tensor.type.getRank(), false)};
    }
    FailureOr<layout::Assignment> assignment = isOfTensors ? layout::decide(*problem, planner) : FailureOr<layout::Assignment>();
    return failed(assignment) ? ReplicatedPart{axis, {}, {}} : PartFinder(*problem, *assignment).find(axis);
  }
};

} // namespace

} // namespace ashlar::search
