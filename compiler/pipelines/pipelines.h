// SPDX-License-Identifier: Apache-2.0
//
// The passes between the model and the instruction tables, in order, with the reason for each place; and their options from a job.

#ifndef ASHLAR_COMPILER_PIPELINES_PIPELINES_H
#define ASHLAR_COMPILER_PIPELINES_PIPELINES_H

#include "compiler/job/job.pb.h"
#include "dialects/exec/exec.h"
#include "passes/partition/fusion_setting.h"
#include "passes/search/passes.h"
#include "passes/stage/schedule.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <optional>
#include <string>
#include <vector>

namespace ashlar::pipelines {

// An axis of a mesh.
struct Axis {
  std::string name;
  int64_t size;

  bool operator==(const Axis &other) const { return name == other.name && size == other.size; }
};

// The sharding of optimizer state, gradients and parameters beyond their layouts (passes/layout/passes.td).
struct OptimizerParallel {
  int64_t level;
  int64_t threshold; // bytes
  int64_t shardSize; // -1: all devices that replicate a parameter
};

// The fusion of collectives of a kind whose parameters have no fusion ids, as ashlar-fuse-collectives takes it.
struct CommFusion {
  partition::FusionSetting allReduce, allGather, reduceScatter;
};

// How the model is cut into stages (passes/stage/passes.td).
struct Stages {
  int64_t stages;
  int64_t microBatches;
  stage::Schedule schedule = stage::Schedule::OneFOneB;
  int64_t chunks = 1;    // of each stage
  std::string orderFile; // instead of the schedule, if not empty
};

// How layouts are searched (passes/search/passes.td).
struct Search {
  search::Method method = search::Method::DynamicProgramming;
  int64_t memoryLimit = 0;    // bytes of a device; 0: any number
  bool takesSmallest = false; // take the smallest where nothing keeps the limit; else that is an error
  double effort = 1;          // bound of the counted work, in default searches (passes/search/solver/effort.h)
  double seconds = search::Effort::kSeconds;
  search::CostOfLowered costOfLowered = {}; // null: estimates of layouts decide
};

// One set of programs of an executable: the mesh they are for, and how many devices of it a process plays.
struct Variant {
  std::string name;
  std::vector<Axis> mesh;             // major to minor; empty: one device
  std::vector<std::string> batchAxes; // axes that shard the batch
  int64_t devicesPerProcess = 1;
  bool inferParameters = false;        // let inference shard parameters, and their state, without a given layout
  bool usesStrategy = false;           // take all layouts from the job's strategy
  std::optional<Search> search = {};   // for layouts, before inference
  bool shardsSequences = false;        // between the products that rules split
  std::vector<int64_t> deviceIds = {}; // rank of each device, row-major; empty: the devices in turn
  exec::Target target = exec::Target::Cpu;
  bool allowTf32 = false; // in f32 products of the cuda target
  std::optional<OptimizerParallel> optimizerParallel = {};
  bool groupWeights = false; // give each parameter an owner, which alone keeps its state and updates it
  CommFusion commFusion = {};
  bool overlaps = true;                // overlap collectives with computation
  int64_t ranksPerHost = INT64_MAX;    // of the job's machine
  std::optional<Stages> pipeline = {}; // then the mesh is a stage's
  int64_t recomputeMoves = -1;         // by cost, as ashlar-recompute takes it; -1: rules alone decide
  bool cutsSmall = false;              // compute small values in blocks, too: for tests
};

// Returns the order that a job's schedule names.
stage::Schedule scheduleOf(job::Pipeline::Schedule schedule);

// The variants that a job asks for, the default one first, and why there is no deterministic one ("" when there is).
struct VariantList {
  std::vector<Variant> variants;
  std::string deterministicRefusal;
};

// Returns the variants of a checked job. A training job gets "default", on the job's mesh, and "deterministic": the batch is cut into a
// fixed number of chunks, each a device of a one-axis mesh, so that every number of ranks that divides the chunks computes the same bits.
//   mesh dp=4, chunks 8  ->  "default" on dp=4, "deterministic" on dp=8 with two devices a process.
// A process of the cuda target plays one device, so there is no deterministic variant. In mode SEMI_AUTO there is one when the job asks for
// it.
VariantList listVariants(const job::Job &job, exec::Target target = exec::Target::Cpu);

// From the imported model to a module of programs (@init and either @train_step and @eval_step or @forward) on global shapes.
// `joinsAttention`: with ops for the attentions of the model.
void addTrainPasses(mlir::OpPassManager &passes, const job::Job &job, exec::Target target = exec::Target::Cpu, bool joinsAttention = true);

// Attaches the job's rules about parameters, other than layouts, and about rematerialization to the module, for addTrainPasses: in every
// mode.
void attachSettings(mlir::ModuleOp module, const job::Job &job);

// Attaches the rules about stages of a pipeline to the module. Fails with an error when one of these, or a rule about rematerialization,
// matches no op, or two contradict each other.
mlir::LogicalResult attachOpRules(mlir::ModuleOp module, const job::Job &job);

// Adds the job's rules on layouts to the rules of the module, for ashlar-apply-rules.
void attachRules(mlir::ModuleOp module, const job::Job &job);

// From an imported model of mode HYBRID, the program of one device with the job's rules attached, to a model like any other, on global
// shapes. Comes before addTrainPasses.
void addHybridPasses(mlir::OpPassManager &passes);

// Attaches to a module the rates of its devices on the job's machine, and the mesh of a variant, if it has one, with the ranks of its
// devices and the costs of its links; on the mesh that the module has already, if any.
void attachMachine(mlir::ModuleOp module, const Variant &variant, const job::Job &job);

// From there to a layout on every value. Nothing to do for a variant without a mesh.
void addLayoutPasses(mlir::OpPassManager &passes, const Variant &variant, const job::Job &job);

// The last part of these passes: from the layouts of rules and of a search to those of all values.
void addInferencePasses(mlir::OpPassManager &passes, const Variant &variant);

// From a module of programs on global shapes to a layout on every value: attaches the job's layouts and its machine, and runs
// addLayoutPasses. In mode HYBRID rules have been applied before training. `verifies`: each op after each pass. Fails with an error.
mlir::LogicalResult inferLayouts(mlir::ModuleOp programs, const Variant &variant, const job::Job &job, bool verifies = true);

// From there to the layouts that shard training state further. Strategies are saved and written with the layouts before that: these follow
// from them and the job.
void addOptimizerParallelPasses(mlir::OpPassManager &passes, const Variant &variant);

// From there to redistributions where two layouts disagree: the first passes of addDistPasses. Nothing to do for a variant without a mesh.
void addRedistributionPasses(mlir::OpPassManager &passes, const Variant &variant);

// From there to one device's programs. Nothing to do for a variant without a mesh. `verifies`: with the passes that verify each border.
void addDistPasses(mlir::OpPassManager &passes, const Variant &variant, bool verifies = true);

// From there to fusions and library calls, with overlapped collectives. `leastLibraryFlops`: of a product that goes to the library; by
// default the size that is worth a call.
void addFusionPasses(mlir::OpPassManager &passes, const Variant &variant, std::optional<int64_t> leastLibraryFlops = std::nullopt);

// The same, and on to instruction tables and kernels. A device may hold `memoryLimit` bytes; 0: any number. `verifies`: the tables.
void addLowerPasses(mlir::OpPassManager &passes, const Variant &variant, int64_t memoryLimit = 0, bool verifies = true);

// Makes one module of the stages' modules of a pipeline, in their order.
mlir::OwningOpRef<mlir::ModuleOp> mergeStages(mlir::OwningOpRef<mlir::ModuleOp> model);

// Moves the variants and kernels of `from` into `into`; both are results of addLowerPasses. Equal constants and kernels are kept once.
void mergeVariants(mlir::ModuleOp into, mlir::ModuleOp from);

} // namespace ashlar::pipelines

#endif // ASHLAR_COMPILER_PIPELINES_PIPELINES_H
