// SPDX-License-Identifier: Apache-2.0
//
// Programs of one device, or of the stages of a pipeline -> tables -> the cost of a step.

#include "compiler/planning/forecast.h"

#include "compiler/planning/planned_stages.h"
#include "compiler/report/step_programs.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/dist/stages.h"
#include "passes/analysis/step_runs.h"

using namespace mlir;

namespace ashlar::planning {
namespace {

// What a device does in a step, or one of a stage.
struct StageSum {
  llvm::StringMap<int64_t> runs; // of each program
  int64_t computePs = 0, sendPs = 0, stepPs = 0, bytesSent = 0;
};

// Returns the runs of the programs of a module, or of a stage, and what they send.
StageSum sumMessages(ModuleOp module) {
  StageSum sum;
  sum.runs = analysis::runsOfStep(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    const __int128 runs = sum.runs.lookup(function.getSymName());
    const analysis::CollectiveSum collectives = analysis::sumCollectives(function);
    analysis::addRuns(sum.sendPs, runs, collectives.timePs);
    analysis::addRuns(sum.bytesSent, runs, collectives.bytes);
    function.walk([&](dist::TransferOpInterface op) {
      if (!op.isSource()) {
        analysis::addRuns(sum.bytesSent, runs * op.getPeers().size(), op.getBytes());
      }
    });
  }
  return sum;
}

// Adds the times of the programs.
void addTimes(StageSum &sum, exec::VariantOp table) {
  constexpr int64_t kPsPerNs = 1000;
  for (auto program : table.getOps<exec::ProgramOp>()) {
    const int64_t runs = sum.runs.lookup(program.getSymName());
    analysis::addRuns(sum.stepPs, runs, kPsPerNs * static_cast<int64_t>(program.getPredictedNs().value_or(0)));
    analysis::addRuns(sum.computePs, runs, kPsPerNs * static_cast<int64_t>(program.getComputingNs().value_or(0)));
  }
}

// Returns the role of a program of a micro-batch: one that a step runs more than once, in each micro-batch but those that a joined program
// runs for, which is the rest of the step.
nn::ProgramRole roleOf(const report::StageProgramFact &program) {
  return program.runs > 1 && program.role ? program.role.getRole() : nn::ProgramRole::Update;
}

// Adds the messages of a pipeline to its stages: those of micro-batches lie in the slots of both ends.
void addMessages(const report::PipelineFacts &pipeline, MutableArrayRef<StageForecast> stages) {
  for (const report::CrossingFact &message : pipeline.crossings) {
    const std::vector<report::StageProgramFact> &programs = pipeline.stages[message.from].programs;
    auto sender = llvm::find_if(programs, [&](const report::StageProgramFact &each) { return each.name == message.sender; });
    StageForecast &from = stages[message.from], &to = stages[message.to];
    if (sender == programs.end() || roleOf(*sender) == nn::ProgramRole::Update) {
      to.onceReceivePs += message.messages * message.timePs;
      continue;
    }
    to.receivePs += message.timePs;
    from.messageBytes += message.bytes;
    to.messageBytes += message.bytes;
  }
}

// Returns what the stages of a pipeline take.
std::vector<StageForecast> describeStages(const report::PipelineFacts &pipeline) {
  std::vector<StageForecast> stages;
  for (auto [facts, timeline] : llvm::zip_equal(pipeline.stages, pipeline.timeline.stages)) {
    StageForecast stage;
    for (const report::StageProgramFact &program : facts.programs) {
      const nn::ProgramRole role = roleOf(program);
      stage.forwardPs += role == nn::ProgramRole::Forward ? program.timePs : 0;
      stage.backwardPs += role == nn::ProgramRole::Backward ? program.timePs : 0;
      stage.weightsPs += role == nn::ProgramRole::Weights ? program.timePs : 0;
    }
    const int64_t microBatchPs = stage.forwardPs + stage.backwardPs + stage.weightsPs;
    stage.oncePs = std::max<int64_t>(timeline.computePs - pipeline.microBatches * microBatchPs, 0);
    stage.slotBytes = facts.slotBytes;
    stage.fixedBytes = facts.fixedBytes();
    stages.push_back(stage);
  }
  addMessages(pipeline, stages);
  return stages;
}

} // namespace

FailureOr<Forecast> forecast(OwningOpRef<ModuleOp> module, const pipelines::Variant &variant, const job::Job &job) {
  PassManager dist(module->getContext()), exec(module->getContext());
  dist.enableVerifier(false); // of many forecasts one is compiled, and verified then
  exec.enableVerifier(false);
  pipelines::addOptimizerParallelPasses(dist, variant);
  pipelines::addDistPasses(dist, variant, /*verifies=*/false);
  pipelines::addLowerPasses(exec, variant, /*memoryLimit=*/0, /*verifies=*/false);
  if (failed(dist.run(*module))) {
    return failure();
  }
  Forecast whole;
  if (const auto moves = (*module)->getAttrOfType<IntegerAttr>(dist::kRecomputeMovesAttr)) {
    whole.recomputeMoves = moves.getInt();
  }
  SmallVector<StageSum> sums = llvm::map_to_vector(report::programsOf(*module), sumMessages);
  if (failed(exec.run(*module))) {
    return failure();
  }
  if (variant.pipeline) {
    module = pipelines::mergeStages(std::move(module));
  }
  int64_t busiest = -1;
  for (auto [sum, table, memory] : llvm::zip_equal(sums, tablesOf(*module), countMemory(*module, variant))) {
    addTimes(sum, table);
    whole.bytesSent = std::max(whole.bytesSent, sum.bytesSent);
    whole.memory = memory.bytes() < whole.memory.bytes() ? whole.memory : memory;
    whole.leastBytes = std::max(whole.leastBytes, memory.leastBytes());
    if (sum.stepPs > busiest) {
      busiest = whole.stepPs = sum.stepPs;
      whole.computePs = sum.computePs;
      whole.sendPs = sum.sendPs;
      whole.exposedPs = sum.stepPs - sum.computePs;
    }
  }
  if (std::optional<report::PipelineFacts> pipeline = describePipeline(*module, variant, job)) {
    whole.stepPs = pipeline->timeline.timePs;
    whole.bubble = pipeline->timeline.bubble();
    whole.stages = describeStages(*pipeline);
  }
  return whole;
}

bool wasSearchStopped(ModuleOp module) {
  const auto searched = module->getAttrOfType<dist::SearchAttr>(dist::kSearchAttr);
  return searched && searched.getStoppedS();
}

void searchByForecast(pipelines::Variant &variant, const job::Job &job, int64_t memoryLimit) {
  if (!variant.search) {
    return;
  }
  variant.search->memoryLimit = job.recompute() == job::Recompute::AUTO ? 0 : memoryLimit;
  pipelines::Variant inferred = variant;
  inferred.search.reset();
  variant.search->costOfLowered = [inferred, &job](OwningOpRef<ModuleOp> given) -> std::optional<search::LoweredCost> {
    MLIRContext *context = given->getContext();
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
    PassManager passes(context);
    passes.enableVerifier(false);
    pipelines::addInferencePasses(passes, inferred);
    FailureOr<Forecast> found = failed(passes.run(*given)) ? FailureOr<Forecast>() : forecast(std::move(given), inferred, job);
    return failed(found) ? std::nullopt : std::optional(search::LoweredCost{found->stepPs, static_cast<int64_t>(found->leastBytes)});
  };
}

} // namespace ashlar::planning
