// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-shard-messages; see passes.td. Only values that every device of a group holds are cut: what layouts split is a shard already.

#include "passes/stage/passes.h"

#include "dialects/dist/stages.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"
#include "passes/analysis/costs.h"
#include "passes/analysis/varying_axes.h"
#include "passes/stage/stage_assignment.h"

#include <map>

using namespace mlir;

namespace ashlar::stage {

#define GEN_PASS_DEF_SHARDMESSAGESPASS
#include "passes/stage/passes.h.inc"

namespace {

// How a message is cut: into shards along a dim, one for each device of a group over the axes.
struct Shards {
  int64_t dim = 0;
  dist::AxisList axes;
  int64_t savedPs = 0;

  bool operator==(const Shards &other) const { return dim == other.dim && axes == other.axes; }
};

// The uses of a value in another stage than its own, in the order of the program.
struct Taker {
  int64_t virtualStage; // which takes it first
  bool isForward;
  SmallVector<OpOperand *> uses;
};

class FunctionMessages {
public:
  FunctionMessages(func::FuncOp function, const SymbolTable &symbols, const StageAssignment &assignment, dist::MeshOp mesh)
      : function(function), assignment(assignment), mesh(mesh.getMesh()), hosts(mesh.getHostsAttr()), links(analysis::linksOf(mesh)),
        phases(function.front()), varying(function, symbols) {}

  void run() {
    SmallVector<Operation *> ops(llvm::make_pointer_range(function.front().without_terminator()));
    llvm::for_each(ops, [&](Operation *op) { varying.visit(op); });
    for (Operation *op : ops) {
      if (isMessage(op)) {
        llvm::for_each(op->getResults(), [&](OpResult value) { shard(value); });
      }
    }
  }

private:
  // Whether a program passes the results of an op on; what only expands is made where it is taken.
  bool isMessage(Operation *op) const {
    return assignment.accessOf(op) == Access::Fixed && !isa<nn::WriteOp, nn::GradientOp, dist::AfterOp>(op) && !expands(op) &&
           llvm::none_of(op->getUsers(), [](Operation *user) { return isa<dist::AfterOp>(user); });
  }

  // Returns the uses of a value by the other stages that take it.
  std::map<int64_t, Taker> takersOf(OpResult value) const {
    const int64_t home = assignment.getCut().stageOf(assignment.of(value.getOwner()));
    std::map<int64_t, Taker> takers;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      const int64_t virtualStage = assignment.of(user), stage = assignment.getCut().stageOf(virtualStage);
      if (assignment.accessOf(user) != Access::Fixed || isa<nn::WriteOp>(user) || stage == home) {
        continue;
      }
      const bool isForward = phases.of(user) == nn::Phase::Forward;
      auto [found, isNew] = takers.try_emplace(stage, Taker{virtualStage, isForward, {}});
      Taker &taker = found->second;
      if (isForward && (!taker.isForward || virtualStage < taker.virtualStage)) {
        taker.virtualStage = virtualStage;
      } else if (!isForward && !taker.isForward) { // the backward pass goes through the stages the other way
        taker.virtualStage = std::max(taker.virtualStage, virtualStage);
      }
      taker.isForward |= isForward;
      taker.uses.push_back(&use);
    }
    return takers;
  }

  // Returns the shards that save most time on a link; nothing where none saves any.
  std::optional<Shards> findShards(OpResult value, const analysis::Link &link) const {
    auto type = cast<RankedTensorType>(value.getType());
    const VaryingAxes::AxisSet own = varying.of(value);
    dist::AxisList equal(
        llvm::make_filter_range(mesh.getAxes(), [&](StringAttr axis) { return mesh.axisSize(axis) > 1 && !own.contains(axis); }));
    SmallVector<dist::AxisList> groups = {equal};
    for (StringAttr axis : equal.size() > 1 ? ArrayRef(equal) : ArrayRef<StringAttr>()) {
      groups.push_back({axis});
    }
    std::optional<Shards> best;
    for (const dist::AxisList &axes : groups) {
      const int64_t devices = mesh.groupSize(axes), bytes = byteSize(type);
      const auto *dim = llvm::find_if(type.getShape(), [&](int64_t size) { return size % devices == 0; });
      if (axes.empty() || dim == type.getShape().end()) {
        continue;
      }
      const int64_t gatherPs =
          analysis::collectiveTimePs(CollectiveKind::AllGather, bytes / devices, devices, analysis::groupLink(mesh, links.axes, axes));
      const int64_t savedPs = analysis::stageMessagePs(bytes, link) - analysis::stageMessagePs(bytes / devices, link) - gatherPs;
      if (savedPs > (best ? best->savedPs : 0)) {
        best = Shards{dim - type.getShape().begin(), axes, savedPs};
      }
    }
    return best;
  }

  // Sends shards of a value to the stages where that saves time.
  void shard(OpResult value) {
    const int64_t virtualStage = assignment.of(value.getOwner()), home = assignment.getCut().stageOf(virtualStage);
    std::vector<std::pair<Shards, Value>> made;
    for (auto &[stage, taker] : takersOf(value)) {
      const analysis::Link link = analysis::stageLink(hosts, mesh.numDevices(), home, stage);
      std::optional<Shards> shards = findShards(value, link);
      if (!shards) {
        continue;
      }
      auto known = llvm::find_if(made, [&](const auto &each) { return each.first == *shards; });
      Value slice = known == made.end() ? cut(value, *shards, virtualStage) : known->second;
      if (known == made.end()) {
        made.emplace_back(*shards, slice);
      }
      Value whole = gather(slice, value, *shards, taker);
      for (OpOperand *use : taker.uses) {
        use->set(whole);
      }
    }
  }

  Value cut(OpResult value, const Shards &shards, int64_t virtualStage) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfter(value.getOwner());
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[shards.dim] /= mesh.groupSize(shards.axes);
    auto slice = dist::SliceOp::create(builder, value.getLoc(), type.clone(shape), value, builder.getI64IntegerAttr(shards.dim),
                                       dist::toAttr(builder.getContext(), shards.axes));
    slice->setAttr(dist::kVirtualStageAttr, builder.getI64IntegerAttr(virtualStage));
    return slice;
  }

  Value gather(Value slice, OpResult value, const Shards &shards, const Taker &taker) {
    Operation *first = *llvm::min_element(llvm::map_to_vector(taker.uses, [](OpOperand *use) { return use->getOwner(); }),
                                          [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder(first);
    StringRef path = nn::getPath(value.getLoc()), kind = value.getOwner()->getName().getStringRef();
    auto cause = dist::EndAttr::get(builder.getContext(), dist::EndKind::Op, path, path.empty() ? kind : "");
    auto gather = dist::AllGatherOp::create(builder, first->getLoc(), value.getType(), slice, builder.getDenseI64ArrayAttr(shards.dim),
                                            dist::toAttr(builder.getContext(), shards.axes), builder.getArrayAttr(Attribute(cause)),
                                            dist::FusionAttr());
    gather->setAttr(dist::kVirtualStageAttr, builder.getI64IntegerAttr(taker.virtualStage));
    return gather.getResult(0);
  }

  using VaryingAxes = analysis::VaryingAxes;

  func::FuncOp function;
  const StageAssignment &assignment;
  dist::MeshAttr mesh;
  dist::HostsAttr hosts;
  analysis::MeshLinks links;
  nn::Phases phases; // of the ops that there were
  VaryingAxes varying;
};

struct ShardMessagesPass : public impl::ShardMessagesPassBase<ShardMessagesPass> {
  using ShardMessagesPassBase::ShardMessagesPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::findMesh(module);
    if (!mesh || !mesh.getHostsAttr()) { // nothing is known of links between stages
      return;
    }
    FailureOr<StageAssignment> assignment = StageAssignment::create(module, {stages.getValue(), chunks.getValue()});
    if (failed(assignment)) {
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    for (auto function : module.getOps<func::FuncOp>()) {
      if (nn::hasRole(function, nn::ProgramRole::TrainStep) || nn::hasRole(function, nn::ProgramRole::EvalStep)) {
        FunctionMessages(function, symbols, *assignment, mesh).run();
      }
    }
  }
};

} // namespace
} // namespace ashlar::stage
