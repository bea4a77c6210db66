// SPDX-License-Identifier: Apache-2.0
//
// Job -> programs -> layouts -> forecast.

#include "compiler/planning/job_forecaster.h"

#include "compiler/frontend/import.h"
#include "compiler/frontend/weights/init_rules.h"
#include "compiler/planning/fit_search.h"
#include "compiler/planning/recompute_search.h"
#include "compiler/planning/sync_search.h"
#include "dialects/dist/recompute_rules.h"
#include "passes/search/search_attributes.h"

using namespace mlir;

namespace ashlar::planning {
namespace {

// The work of laying an op out, and of lowering it, each: units of a search's effort.
constexpr int64_t kUnitsOfOp = 50000;

int64_t countOps(ModuleOp programs) {
  int64_t ops = 0;
  programs.walk([&](Operation *) { ++ops; });
  return ops;
}

} // namespace

FailureOr<ModuleOp> JobForecaster::import(const job::Job &job) {
  OwningOpRef<ModuleOp> &module = imported[job::microBatches(job)];
  if (!module) {
    frontend::ImportOptions importOptions = frontend::makeImportOptions(job);
    importOptions.checkDataFile = [this](StringRef path) { return input.files.addInput("external data of the model,", path); };
    llvm::Expected<OwningOpRef<ModuleOp>> made = frontend::importOnnx(options.model, importOptions, &context);
    if (!made) {
      return emitError(UnknownLoc::get(&context), llvm::toString(made.takeError()));
    }
    module = std::move(*made);
  }
  return *module;
}

FailureOr<ModuleOp> JobForecaster::train(const job::Job &job, int64_t loops) {
  // Of all that jobs with as many micro-batches differ in here, batch normalization alone knows the mesh.
  const int64_t replicas = job.batch_norm() == job::BatchNorm::PER_REPLICA ? job::batchReplicas(job) : 1;
  OwningOpRef<ModuleOp> &module = trained[{job::microBatches(job), replicas, loops}];
  if (!module) {
    FailureOr<ModuleOp> model = import(job);
    if (failed(model)) {
      return failure();
    }
    OwningOpRef<ModuleOp> copy = model->clone();
    PassManager passes(&context);
    passes.enableVerifier(false); // see forecast()
    pipelines::attachSettings(*copy, job);
    if (job.recompute() == job::Recompute::AUTO) {
      (*copy)->setAttr(dist::kSegmentedLoopsAttr, Builder(&context).getI64IntegerAttr(loops));
    }
    pipelines::addTrainPasses(passes, job, input.target->kind(), options.joinsAttention);
    if (failed(passes.run(*copy))) {
      return failure();
    }
    module = std::move(copy);
  }
  return *module;
}

FailureOr<Forecast> JobForecaster::forecast(const job::Job &job, search::Effort &effort) {
  FailureOr<Forecast> found = failure();
  int64_t tried = -1; // loops of `found`
  auto tryLoops = [&](int64_t loops) -> FailureOr<RecomputeTrial> {
    FailureOr<ModuleOp> programs = train(job, loops);
    found = failed(programs) ? FailureOr<Forecast>() : forecastTrained(*programs, job, effort);
    tried = loops;
    if (failed(found)) {
      return failure();
    }
    auto all = (*programs)->getAttrOfType<IntegerAttr>(dist::kSegmentedLoopsAttr);
    return RecomputeTrial{found->leastBytes, all ? all.getInt() : 0};
  };
  if (job.recompute() != job::Recompute::AUTO) {
    return failed(tryLoops(0)) ? FailureOr<Forecast>() : found;
  }
  FailureOr<int64_t> loops = findLeastMoves(input.memoryLimit, tryLoops);
  if (failed(loops) || (*loops != tried && failed(tryLoops(*loops)))) {
    return failure();
  }
  return found;
}

FailureOr<Forecast> JobForecaster::forecastTrained(ModuleOp programs, const job::Job &job, search::Effort &effort) {
  pipelines::Variant variant = pipelines::listVariants(job, input.target->kind()).variants.front();
  variant.overlaps = options.overlaps;
  if (!variant.search) {
    return forecastLayouts(programs, variant, job, effort);
  }
  variant.search->effort = options.searchEffort;
  variant.search->seconds = effort.secondsLeft();
  variant.search->takesSmallest = true;
  FailureOr<Forecast> found = forecastSearched(programs, variant, job, effort);
  if (succeeded(found)) {
    found->isStopped = variant.search->wasStopped;
  }
  return found;
}

// Gives the search a limit with which the program fits.
FailureOr<Forecast> JobForecaster::forecastSearched(ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                                    search::Effort &effort) {
  FailureOr<Forecast> found = failure();
  LogicalResult fits = fitSearch(variant, searchLimit(job, input.memoryLimit), [&]() -> FailureOr<PlannedBytes> {
    found = forecastLayouts(programs, variant, job, effort);
    return failed(found) ? FailureOr<PlannedBytes>() : PlannedBytes{found->leastBytes, found->countedBytes};
  });
  return failed(fits) ? FailureOr<Forecast>() : found;
}

FailureOr<Forecast> JobForecaster::forecastLayouts(ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                                   search::Effort &effort) {
  OwningOpRef<ModuleOp> module = programs.clone();
  effort.count(kUnitsOfOp * countOps(programs));
  if (failed(pipelines::inferLayouts(*module, variant, job, /*verifies=*/false))) { // see forecast()
    return failure();
  }
  if (const auto units = (*module)->getAttrOfType<IntegerAttr>(search::kUnitsAttr)) {
    effort.count(units.getInt());
  }
  const uint64_t counted = noteSearch(variant, *module);
  FailureOr<Forecast> found = failure();
  auto plan = [&]() -> FailureOr<SyncTrial> {
    found = forecastRecomputed(*module, variant, job, effort);
    return failed(found) ? FailureOr<SyncTrial>() : SyncTrial{found->stepPs, found->leastBytes};
  };
  const LogicalResult planned = choosesGradientSync(job, input.memoryLimit)
                                    ? success(succeeded(chooseGradientSync(*module, input.memoryLimit, plan)))
                                    : success(succeeded(plan()));
  if (failed(planned)) {
    return failure();
  }
  found->countedBytes = counted;
  return found;
}

// Rematerializes as much as fits programs with layouts into the limit, where the job leaves it open.
FailureOr<Forecast> JobForecaster::forecastRecomputed(ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                                      search::Effort &effort) {
  auto forecastCopy = [&] {
    effort.count(kUnitsOfOp * countOps(programs));
    return planning::forecast(programs.clone(), variant, job);
  };
  if (job.recompute() == job::Recompute::AUTO) {
    FailureOr<int64_t> moves = findLeastMoves(input.memoryLimit, [&](int64_t count) -> FailureOr<RecomputeTrial> {
      variant.recomputeMoves = count;
      FailureOr<Forecast> found = forecastCopy();
      return failed(found) ? FailureOr<RecomputeTrial>() : RecomputeTrial{found->leastBytes, found->recomputeMoves};
    });
    if (failed(moves)) {
      return failure();
    }
    variant.recomputeMoves = *moves;
  }
  return forecastCopy();
}

} // namespace ashlar::planning
