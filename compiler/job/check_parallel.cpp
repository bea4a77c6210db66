// SPDX-License-Identifier: Apache-2.0
//
// Optimizer parallelism and the deterministic variant: both are about the devices of the whole mesh.

#include "compiler/job/check_parallel.h"

#include "compiler/job/job.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <tuple>

namespace ashlar::job {

namespace {

// "mesh axis "dp" of size 4", or "the 8 devices of mesh axes "a", "b"".
std::string nameAxes(const Job &job) {
  std::vector<std::string> axes;
  for (const Mesh::Axis &axis : job.mesh().axes()) {
    axes.push_back(axis.name());
  }
  if (axes.size() == 1) {
    return llvm::formatv("mesh axis \"{0}\" of size {1}", axes[0], numDevices(job));
  }
  return llvm::formatv("the {0} devices of mesh axes \"{1}\"", numDevices(job), llvm::join(axes, "\", \""));
}

// Returns why the program cannot be made again for a mesh of `chunks` devices; "" when it can. Its mesh then has one axis of another size,
// which must not change what rules mean.
Fault checkChunkedLayouts(const Job &job) {
  if (job.mode() == HYBRID) {
    return "deterministic cuts the batch into chunks, which the collectives of a model of mode HYBRID know nothing of; leave it out";
  }
  if (job.mode() == AUTO) {
    return "deterministic computes on a mesh of its own, whose layouts mode AUTO does not search; leave it out";
  }
  if (job.mode() != SEMI_AUTO) {
    return {};
  }
  if (job.mesh().axes_size() != 1) {
    return llvm::formatv("deterministic gives the one axis of the mesh the size of its chunks, and the mesh has {0} axes; leave it out",
                         job.mesh().axes_size());
  }
  for (const Rule &rule : job.rules()) {
    bool namesSizes = rule.in_size() + rule.out_size() > 0 || llvm::StringRef(rule.layout()).contains(":(");
    if (namesSizes) {
      return "deterministic gives the mesh axis another size, and the rule at " + rule.origin() + " (\"" + rule.match() +
             "\") counts slices; leave out one of the two";
    }
  }
  return job.has_device_configuration()
             ? "deterministic gives the mesh axis another size than device_configuration; leave out one of the two"
             : "";
}

// Returns the name of the optimizer as the job has it.
std::string nameOptimizer(const Optimizer &optimizer) {
  const auto *kinds = Optimizer::descriptor()->FindOneofByName("kind");
  const auto *kind = optimizer.GetReflection()->GetOneofFieldDescriptor(optimizer, kinds);
  return kind ? kind->name() : "none";
}

// Weights grouping: what optimizer_parallel is in mode DATA_PARALLEL. It takes whole parameters, so nothing that says how they are split.
Fault checkGrouping(const Job &job) {
  constexpr const char *kRemedy = "leave it out, or set mode: SEMI_AUTO and rules { match: \"INPUT\" layout: \"[{dp}, {}]\" }";
  const OptimizerParallel &given = job.optimizer_parallel();
  for (auto [isGiven, name, value] :
       {std::tuple(given.has_level(), "level", given.level()), std::tuple(given.has_threshold_kb(), "threshold_kb", given.threshold_kb()),
        std::tuple(given.has_shard_size(), "shard_size", given.shard_size())}) {
    if (isGiven) {
      return llvm::formatv("optimizer_parallel.{0} {1} shards parameters, but in mode DATA_PARALLEL each is replicated and has one "
                           "owner (parameter ownership); {2}",
                           name, value, kRemedy);
    }
  }
  for (const Rule &rule : job.rules()) {
    if (rule.has_optimizer_parallel()) {
      return llvm::formatv(
          "{0} (\"{1}\") sets optimizer_parallel: {2}, which shards parameters, but in mode DATA_PARALLEL each parameter is "
          "replicated and has one owner (parameter ownership); {3}",
          rule.origin().empty() ? "a rule" : "the rule at " + rule.origin(), rule.match(), rule.optimizer_parallel() ? "true" : "false",
          kRemedy);
    }
  }
  if (!job.optimizer().has_adamw() && !job.optimizer().has_lamb()) {
    return llvm::formatv(
        "optimizer_parallel in mode DATA_PARALLEL gives each parameter an owner (parameter ownership), which is for adamw and "
        "lamb, but the optimizer is {0}; take one of the two, or set mode: SEMI_AUTO, where it is for all",
        nameOptimizer(job.optimizer()));
  }
  return {};
}

// What decides about the order of a pipeline: a schedule, or a file; and how many chunks a stage has in it.
Fault checkSchedule(const Pipeline &pipeline) {
  const bool isInterleaved = pipeline.schedule() == Pipeline::INTERLEAVED;
  if (pipeline.has_order() && pipeline.has_schedule()) {
    return llvm::formatv("pipeline.order \"{0}\" and pipeline.schedule {1} both set the order of the stages; leave out one of the two",
                         pipeline.order(), Pipeline::Schedule_Name(pipeline.schedule()));
  }
  if (pipeline.has_order() && pipeline.order().empty()) {
    return "pipeline.order \"\" names no file; name one, or leave it out";
  }
  if (isInterleaved && pipeline.chunks() < 2) {
    return llvm::formatv(
        "pipeline.schedule INTERLEAVED has each stage work at several chunks of the model in turn, and pipeline.chunks is {0}; "
        "give at least 2",
        pipeline.chunks());
  }
  return pipeline.chunks() > 1 && !isInterleaved && !pipeline.has_order()
             ? llvm::formatv(
                   "pipeline.chunks {0} is for schedule INTERLEAVED or an order of your own, and the schedule is {1}; set schedule: "
                   "INTERLEAVED, or leave out chunks",
                   pipeline.chunks(), Pipeline::Schedule_Name(pipeline.schedule()))
                   .str()
             : "";
}

} // namespace

Fault checkDeterministic(const Job &job) {
  if (!job.has_deterministic()) {
    return {};
  }
  if (Fault fault = checkChunkedLayouts(job); !fault.empty()) {
    return fault;
  }
  bool isSplit = !batchAxes(job).empty() || job.mode() == SEMI_AUTO;
  int64_t chunks = job.deterministic().chunks(), devices = isSplit ? numDevices(job) : 1;
  if (chunks % devices != 0) {
    return llvm::formatv("deterministic.chunks {0} is not divisible by {1}; use a multiple of {2}", chunks, nameAxes(job), devices);
  }
  if (job.has_global_batch() && programBatch(job) % chunks != 0) {
    std::string batch = job.accumulate() == 1 ? "" : llvm::formatv(" / accumulate {0} = {1}", job.accumulate(), programBatch(job)).str();
    return llvm::formatv("global_batch {0}{1} is not divisible by deterministic.chunks {2}; use a multiple of {2}", job.global_batch(),
                         batch, chunks);
  }
  return {};
}

Fault checkPipeline(const Job &job) {
  if (!job.has_pipeline()) {
    auto rule = llvm::find_if(job.rules(), [](const Rule &each) { return each.has_pipeline_stage(); });
    return rule == job.rules().end() ? ""
                                     : llvm::formatv("the rule at {0} (\"{1}\") sets pipeline_stage {2}, and the job has no pipeline; add "
                                                     "pipeline {{ stages: {3} micro_batches: {3} }",
                                                     rule->origin(), rule->match(), rule->pipeline_stage(), rule->pipeline_stage() + 1)
                                           .str();
  }
  const int64_t stages = job.pipeline().stages(), count = job.pipeline().micro_batches();
  if (!job.has_loss()) {
    return "pipeline is for training, and the job has no loss; leave it out";
  }
  if (!job.pipeline().has_stages() || !job.pipeline().has_micro_batches()) {
    return "pipeline needs stages and micro_batches, for instance pipeline { stages: 2 micro_batches: 8 }";
  }
  if (stages < 2) {
    return "pipeline.stages 1 cuts nothing; give at least 2, or leave the pipeline out";
  }
  if (count < stages) {
    return llvm::formatv("pipeline.micro_batches {0} is less than the {1} stages, so some would never work; give at least {1}", count,
                         stages);
  }
  if (Fault fault = checkSchedule(job.pipeline()); !fault.empty()) {
    return fault;
  }
  if (job.global_batch() % count != 0) {
    return llvm::formatv(
        "pipeline.micro_batches {0} does not divide global_batch {1}; all micro-batches have one size, use a multiple of {0}", count,
        job.global_batch());
  }
  if (job.has_accumulate()) {
    return llvm::formatv("accumulate {0} and pipeline.micro_batches {1} both set the number of parts of a step; leave out accumulate",
                         job.accumulate(), count);
  }
  if (job.has_deterministic()) {
    return "deterministic makes each rank simulate several devices, and a rank of a pipeline simulates one device of one stage; leave out "
           "one of the "
           "two";
  }
  if (effectiveMode(job) == HYBRID) {
    return "a pipeline cuts the program of the whole model, and a model of mode HYBRID is one device's; leave it out";
  }
  if (job.has_optimizer_parallel() && effectiveMode(job) == DATA_PARALLEL) {
    return "parameter ownership (optimizer_parallel in mode DATA_PARALLEL) is not implemented for a pipeline; leave out one of the two, or "
           "set "
           "mode: SEMI_AUTO";
  }
  return job.mesh().device_ids_size() == 0 ? "" : "mesh.device_ids is not implemented for a pipeline; leave out one of the two";
}

Fault checkOptimizerParallel(const Job &job) {
  if (!job.has_optimizer_parallel()) {
    return {};
  }
  if (!job.has_loss()) {
    return "optimizer_parallel shards the state of training, and the job has no loss; leave it out";
  }
  switch (effectiveMode(job)) {
  case STAND_ALONE:
    return "optimizer_parallel splits over the devices of a mesh, and the job has none; add mesh { axes { name: \"dp\" size: 4 } }";
  case DATA_PARALLEL:
    return checkGrouping(job);
  case HYBRID:
    return "optimizer_parallel chooses layouts, which mode HYBRID leaves to the model; leave it out";
  default:
    break;
  }
  int64_t size = job.optimizer_parallel().shard_size();
  return size == 0 || size == 1
             ? llvm::formatv("optimizer_parallel.shard_size {0} splits nothing; give -1 for all devices that replicate a "
                             "parameter, or at least 2",
                             size)
                   .str()
             : "";
}

} // namespace ashlar::job
