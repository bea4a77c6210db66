// SPDX-License-Identifier: Apache-2.0
//
// Which variants a job asks for, and how their modules become one.

#include "compiler/pipelines/pipelines.h"

#include "compiler/cost/machine.h"
#include "compiler/job/job.h"
#include "dialects/exec/target_traits.h"
#include "passes/lower/memory/constant_pool.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;

namespace ashlar::pipelines {
namespace {

// Returns why the batch cannot be computed in `chunks` chunks on `ranks` ranks; "" when it can.
std::string refuseChunks(const job::Job &job, exec::Target target, int64_t chunks, int64_t ranks) {
  if (job.has_pipeline()) {
    return "--deterministic makes each rank simulate several devices, and a rank of a pipeline simulates one device of one stage; leave "
           "the pipeline "
           "out";
  }
  if (!exec::traitsOf(target).playsDevices) {
    return ("--deterministic has each rank simulate several devices in turn, which the target " + exec::stringifyTarget(target) +
            " cannot; compile for cpu")
        .str();
  }
  if (job::Mode mode = job::effectiveMode(job);
      mode == job::HYBRID || mode == job::AUTO || (mode == job::SEMI_AUTO && !job.has_deterministic())) {
    return "--deterministic computes the batch in chunks, one after the other; that is for mode DATA_PARALLEL, this program has mode " +
           job::Mode_Name(mode) +
           (mode != job::SEMI_AUTO ? "" : "; with a mesh of one axis, deterministic { chunks: 8 } in the job asks for it");
  }
  bool hasRules = llvm::any_of(job.rules(), [](const job::Rule &rule) { return rule.has_layout(); });
  if (job.has_strategy() && !hasRules && job::effectiveMode(job) == job::SEMI_AUTO) {
    return "--deterministic computes on a mesh of its own, which the strategy has no layouts for; give the job the rules, too";
  }
  if (!job.has_loss()) {
    return "--deterministic is for training programs; this one only runs the model";
  }
  if (job::programBatch(job) % chunks != 0) {
    return llvm::formatv(
        "--deterministic computes the batch in {0} chunks, which do not divide the {1} of {2}; set deterministic {{ chunks } in the job",
        chunks, job.accumulate() == 1 ? "global batch" : "micro-batches", job::programBatch(job));
  }
  if (chunks % ranks != 0) {
    return llvm::formatv(
        "--deterministic computes the batch in {0} chunks, which cannot be shared evenly by {1} ranks; set deterministic {{ "
        "chunks } in the job",
        chunks, ranks);
  }
  return "";
}

partition::FusionSetting fusionSettingOf(const job::CommFusion::Setting &setting) {
  constexpr int64_t kBytesPerMb = 1000000;
  switch (setting.mode()) {
  case job::CommFusion::AUTO_BUCKETS:
    return {dist::FusionMode::Auto, {}};
  case job::CommFusion::SIZE:
    return {dist::FusionMode::Size, {setting.size_mb() * kBytesPerMb}};
  case job::CommFusion::INDEX:
    return {dist::FusionMode::Index, {setting.index().begin(), setting.index().end()}};
  }
  llvm_unreachable("unknown mode");
}

CommFusion commFusionOf(const job::CommFusion &fusion) {
  CommFusion settings;
  if (fusion.has_all_reduce()) {
    settings.allReduce = fusionSettingOf(fusion.all_reduce());
  }
  if (fusion.has_all_gather()) {
    settings.allGather = fusionSettingOf(fusion.all_gather());
  }
  if (fusion.has_reduce_scatter()) {
    settings.reduceScatter = fusionSettingOf(fusion.reduce_scatter());
  }
  return settings;
}

// Returns the kernels of a module.
SmallVector<func::FuncOp> kernelsOf(ModuleOp module) {
  return llvm::to_vector(module.getOps<func::FuncOp>());
}

bool areEqualKernels(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() && a->getAttr(exec::kExtentAttr) == b->getAttr(exec::kExtentAttr) &&
         a->getAttr(exec::kGrainAttr) == b->getAttr(exec::kGrainAttr) &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

// Makes the programs of `from` call the kernels of `into` where those do the same, and drops their own: updates of parameters, for
// instance, do not depend on the mesh. Kernels of a program are few, however deep the model.
void shareKernels(ModuleOp into, ModuleOp from) {
  DenseMap<StringAttr, FlatSymbolRefAttr> shared;
  for (func::FuncOp kernel : kernelsOf(from)) {
    for (func::FuncOp other : kernelsOf(into)) {
      if (areEqualKernels(kernel, other)) {
        shared[kernel.getSymNameAttr()] = FlatSymbolRefAttr::get(other.getSymNameAttr());
        kernel.erase();
        break;
      }
    }
  }
  from.walk([&](exec::KernelOp call) {
    if (FlatSymbolRefAttr target = shared.lookup(call.getCalleeAttr().getAttr())) {
      call.setCalleeAttr(target);
    }
  });
}

} // namespace

stage::Schedule scheduleOf(job::Pipeline::Schedule schedule) {
  switch (schedule) {
  case job::Pipeline::GPIPE:
    return stage::Schedule::GPipe;
  case job::Pipeline::ONE_F_ONE_B:
    return stage::Schedule::OneFOneB;
  case job::Pipeline::INTERLEAVED:
    return stage::Schedule::Interleaved;
  case job::Pipeline::ZERO_BUBBLE:
    return stage::Schedule::ZeroBubble;
  }
  llvm_unreachable("unknown schedule");
}

VariantList listVariants(const job::Job &job, exec::Target target) {
  VariantList list;
  Variant plain{"default", {}, job::batchAxes(job), 1};
  for (const job::Mesh::Axis &axis : job.mesh().axes()) {
    plain.mesh.push_back({axis.name(), axis.size()});
  }
  plain.usesStrategy = job.has_strategy();
  plain.inferParameters =
      job::effectiveMode(job) == job::SEMI_AUTO || job::effectiveMode(job) == job::HYBRID || job::effectiveMode(job) == job::AUTO;
  plain.target = target;
  plain.allowTf32 = job.allow_tf32();
  plain.commFusion = commFusionOf(job.comm_fusion());
  plain.ranksPerHost = cost::machineOf(job, target).ranksPerHost;
  plain.deviceIds.assign(job.mesh().device_ids().begin(), job.mesh().device_ids().end());
  plain.groupWeights = job.has_optimizer_parallel() && job::effectiveMode(job) == job::DATA_PARALLEL;
  if (job.has_optimizer_parallel() && !plain.groupWeights) {
    const job::OptimizerParallel &split = job.optimizer_parallel();
    plain.optimizerParallel = OptimizerParallel{split.level(), int64_t(split.threshold_kb()) * 1024, split.shard_size()};
  }
  if (job::effectiveMode(job) == job::AUTO && job.search() != job::PROPAGATION && !job.has_strategy()) {
    plain.search = Search{job.search() == job::ILP ? search::Method::IntegerProgram : search::Method::DynamicProgramming};
  }
  // With kept collectives the gathered activations would be kept, and the shards besides.
  plain.shardsSequences =
      job::infersSequences(job) && job.sequence_parallel() == job::SequenceParallel::AUTO && !job::keepsCollectives(job);
  if (job.has_pipeline()) {
    const job::Pipeline &given = job.pipeline();
    plain.pipeline = Stages{given.stages(), given.micro_batches(), scheduleOf(given.schedule()), given.chunks(), given.order()};
  }
  list.variants.push_back(plain);
  int64_t chunks = job.deterministic().chunks(), ranks = job::numDevices(job);
  list.deterministicRefusal = refuseChunks(job, target, chunks, ranks);
  if (list.deterministicRefusal.empty()) {
    // Every axis of the mesh splits the batch, so one axis of all chunks says the same; in mode SEMI_AUTO there is one.
    std::string axis = job.mesh().axes().empty() ? "dp" : job.mesh().axes(0).name();
    std::vector<std::string> batchAxes = plain.inferParameters ? std::vector<std::string>() : std::vector{axis};
    Variant chunked{"deterministic", {{axis, chunks}}, batchAxes, chunks / ranks, plain.inferParameters};
    chunked.optimizerParallel = plain.optimizerParallel;
    chunked.groupWeights = plain.groupWeights;
    chunked.commFusion = plain.commFusion;
    chunked.ranksPerHost = plain.ranksPerHost;
    if (job.deterministic().always()) {
      list.variants.clear();
    }
    list.variants.push_back(chunked);
  }
  return list;
}

void mergeVariants(ModuleOp into, ModuleOp from) {
  lower::ConstantPool pool;
  pool.read(into);
  std::map<uint64_t, uint64_t> moved; // offsets of constants of `from` to those of `into`
  for (auto op : from.getOps<exec::ConstantOp>()) {
    moved[op.getOffset()] = pool.offsetOf(op.getValue());
  }
  shareKernels(into, from);
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](exec::BufferAttr buffer) -> std::optional<Attribute> {
    if (buffer.getSpace() != exec::Space::Constant) {
      return std::nullopt;
    }
    const auto [from, to] = *std::prev(moved.upper_bound(buffer.getOffset())); // of the constant, where the buffer is a row of one
    return exec::BufferAttr::get(buffer.getContext(), buffer.getSpace(), to + buffer.getOffset() - from, buffer.getType(),
                                 buffer.getStrides());
  });
  for (Operation &op : llvm::make_early_inc_range(*from.getBody())) {
    if (isa<exec::VariantOp>(op)) {
      replacer.recursivelyReplaceElementsIn(&op);
    }
    if (isa<exec::VariantOp, func::FuncOp>(op)) {
      op.moveBefore(into.getBody(), into.getBody()->end());
    }
  }
  for (auto op : llvm::make_early_inc_range(into.getOps<exec::ConstantOp>())) {
    op.erase();
  }
  pool.write(into);
}

OwningOpRef<ModuleOp> mergeStages(OwningOpRef<ModuleOp> model) {
  auto stages = llvm::to_vector(model->getOps<ModuleOp>());
  OwningOpRef<ModuleOp> first = stages.front();
  first->getOperation()->remove();
  first->setSymName(model->getSymName());
  for (ModuleOp stage : ArrayRef(stages).drop_front()) {
    mergeVariants(*first, stage);
  }
  return first;
}

} // namespace ashlar::pipelines
