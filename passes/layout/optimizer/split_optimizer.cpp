// SPDX-License-Identifier: Apache-2.0
//
// ashlar-split-optimizer: gives optimizer state, gradients and stored parameters their layouts, and infers those of the update from them.

#include "dialects/dist/recompute_rules.h"
#include "dialects/nn/phases.h"
#include "dialects/nn/programs.h"
#include "dialects/support/tensor_values.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/inference/layout_writer.h"
#include "passes/layout/optimizer/gather_parameters.h"
#include "passes/layout/optimizer/parameter_shards.h"
#include "passes/layout/passes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_SPLITOPTIMIZERPASS
#include "passes/layout/passes.h.inc"

namespace {

// Returns the variables that forward and backward use only in narrower types, made by themselves or by @prepare: then each device stores
// its part of the master copy.
llvm::StringSet<> findMasterCopies(ModuleOp module) {
  llvm::StringSet<> narrowed, wide;
  for (auto function : module.getOps<func::FuncOp>()) {
    nn::Phases phases(function.front());
    for (auto read : function.front().getOps<nn::ReadOp>()) {
      for (Operation *user : read->getUsers()) {
        if (phases.of(user) != nn::Phase::Update || nn::hasRole(function, nn::ProgramRole::Prepare)) {
          bool isNarrowed = isCopy(user) && typeOf(user->getResult(0)).getElementTypeBitWidth() < read.getType().getElementTypeBitWidth();
          (isNarrowed ? narrowed : wide).insert(read.getVariable());
        }
      }
    }
  }
  for (const auto &variable : wide) {
    narrowed.erase(variable.first());
  }
  return narrowed;
}

struct SplitOptimizer : impl::SplitOptimizerPassBase<SplitOptimizer> {
  using SplitOptimizerPassBase::SplitOptimizerPassBase;

  // Returns the origins of a layout that this pass has split further: first of the axes that it adds, then those that it had.
  ArrayAttr makeOrigin(const ParameterShard &shard, ArrayAttr before) {
    Builder builder(&getContext());
    SmallVector<Attribute> origins;
    for (StringAttr axis : shard.axes) {
      origins.push_back(dist::OriginAttr::get(&getContext(), builder.getStringAttr("optimizer_parallel"), axis, {}, {}));
    }
    llvm::append_range(origins, before ? before.getValue() : ArrayRef<Attribute>());
    return builder.getArrayAttr(origins);
  }

  // Gives a variable the layout of the shard.
  void store(nn::VariableOp variable, const ParameterShard &shard) {
    variable->setAttr(dist::kLayoutAttr, dist::LayoutAttr::get(&getContext(), shard.layout));
    variable->setAttr(dist::kOriginAttr, makeOrigin(shard, variable->getAttrOfType<ArrayAttr>(dist::kOriginAttr)));
  }

  // Returns the variables in which a step that updates later adds up its gradients, where they are whole, and so the gradients: at level 1.
  llvm::StringSet<> findReplicatedSums() {
    llvm::StringSet<> sums;
    func::FuncOp step = nn::findProgram(getOperation(), nn::ProgramRole::TrainStep);
    if (level == 1 && step && nn::findProgram(getOperation(), nn::ProgramRole::Update)) {
      for (auto write : step.front().getOps<nn::WriteOp>()) {
        sums.insert(write.getVariable());
      }
    }
    return sums;
  }

  // Returns what @prepare writes: copies of parameters, stored like them, but for a master copy.
  llvm::StringSet<> findPrepared() {
    llvm::StringSet<> names;
    for (nn::VariableOp variable : nn::preparedVariables(getOperation())) {
      names.insert(variable.getSymName());
    }
    return names;
  }

  // Gives the gradients of parameters, and their state, the layouts of their shards.
  void splitState(ArrayRef<ParameterShard> shards) {
    llvm::StringSet<> replicatedSums = findReplicatedSums();
    llvm::StringMap<const ParameterShard *> split;
    for (const ParameterShard &shard : shards) {
      if (!shard.replicated) {
        split[nn::VariableOp(shard.variable).getSymName()] = &shard;
      }
    }
    llvm::StringMap<const ParameterShard *> states; // with the shape of their parameter
    llvm::StringSet<> prepared = findPrepared();
    for (auto variable : getOperation().getOps<nn::VariableOp>()) {
      const bool isState = variable.getStateOf() && !prepared.contains(variable.getSymName());
      const ParameterShard *shard = isState ? split.lookup(*variable.getStateOf()) : nullptr;
      if (shard && variable.getTensorType().getShape() == nn::VariableOp(shard->variable).getTensorType().getShape()) {
        states[variable.getSymName()] = shard;
        if (!replicatedSums.contains(variable.getSymName())) {
          store(variable, *shard);
        }
      }
    }
    if (replicatedSums.empty()) {
      getOperation().walk([&](nn::GradientOp gradient) { splitResult(gradient, split.lookup(gradient.getVariable())); });
    }
    // What is computed of whole state, such as the norm of all sums of gradients, is computed on its shards.
    getOperation().walk([&](nn::ReadOp read) {
      bool addsUp = replicatedSums.contains(read.getVariable()) && nn::hasRole(read->getParentOp(), nn::ProgramRole::TrainStep);
      splitResult(read, addsUp ? nullptr : states.lookup(read.getVariable()));
    });
  }

  // Gives the result of an op the layout of the shard, if there is one.
  void splitResult(Operation *op, const ParameterShard *shard) {
    if (!shard) {
      return;
    }
    Builder builder(&getContext());
    auto origins = op->getAttrOfType<ArrayAttr>(dist::kOriginsAttr);
    ArrayAttr before = origins ? cast<ArrayAttr>(origins[0]) : ArrayAttr();
    op->setAttr(dist::kLayoutsAttr, builder.getArrayAttr(dist::LayoutAttr::get(&getContext(), shard->layout)));
    op->setAttr(dist::kOriginsAttr, builder.getArrayAttr(makeOrigin(*shard, before)));
  }

  // Splits what devices store of parameters, and has the programs gather it where it is used.
  void splitParameters(ArrayRef<ParameterShard> shards) {
    dist::RecomputeRules recompute(getOperation());
    llvm::StringSet<> masterCopies = findMasterCopies(getOperation());
    StoredLayouts stored;
    auto storeSplit = [&](nn::VariableOp variable, const ParameterShard &shard) {
      store(variable, shard);
      stored[variable.getSymName()] = dist::LayoutAttr::get(&getContext(), shard.layout);
    };
    llvm::StringMap<SmallVector<nn::VariableOp>> prepared; // by parameter
    for (nn::VariableOp variable : nn::preparedVariables(getOperation())) {
      prepared[*variable.getStateOf()].push_back(variable);
    }
    for (const ParameterShard &shard : shards) {
      nn::VariableOp variable = shard.variable;
      if (!shard.replicated && (level == 3 || masterCopies.contains(variable.getSymName()))) {
        storeSplit(variable, shard);
      }
      if (!shard.replicated && level == 3) {
        llvm::for_each(prepared[variable.getSymName()], [&](nn::VariableOp copy) { storeSplit(copy, shard); });
      }
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      gatherAtUses(function, stored, [&](Operation *op) { return level == 3 && recompute.of(nn::getPath(op->getLoc())).paramGather; });
    }
  }

  // Infers the layouts of updates and initial values, with all else as it is.
  LogicalResult inferUpdate() {
    FailureOr<LayoutProblem> problem = LayoutProblem::create(getOperation(), dist::findMesh(getOperation()).getMesh());
    if (failed(problem)) {
      return failure();
    }
    for (const ProblemProgram &program : problem->programs) {
      nn::Phases phases(func::FuncOp(program.function).front());
      for (unsigned op = program.firstOp; op < program.endOp; ++op) {
        if (problem->ops[op].rule && phases.of(problem->ops[op].op) == nn::Phase::Update) {
          llvm::for_each(problem->ops[op].results, [&](unsigned value) { problem->tensors[problem->values[value].tensor].given.reset(); });
        }
      }
    }
    Inference inference(*problem, /*mayIdle=*/true); // as the shards may
    inference.run();
    writeLayouts(*problem, inference);
    return success();
  }

  void runOnOperation() override {
    if (!requirePrograms(getOperation())) {
      return signalPassFailure();
    }
    if (level < 1 || level > 3 || threshold < 0 || (shardSize != -1 && shardSize < 2)) {
      getOperation().emitError(
          "optimizer parallelism takes a level of 1, 2 or 3, a threshold of at least 0 and a shard size of -1 or at least 2; got ")
          << level.getValue() << ", " << threshold.getValue() << " and " << shardSize.getValue();
      return signalPassFailure();
    }
    FailureOr<std::vector<ParameterShard>> shards = shardParameters(getOperation(), {threshold, shardSize});
    if (failed(shards)) {
      return signalPassFailure();
    }
    for (const ParameterShard &shard : *shards) {
      if (shard.replicated) {
        nn::VariableOp(shard.variable)->setAttr(dist::kReplicatedAttr, shard.replicated);
      }
    }
    splitState(*shards);
    splitParameters(*shards);
    if (failed(inferUpdate())) {
      signalPassFailure();
    }
  }
};

} // namespace

} // namespace ashlar::layout
