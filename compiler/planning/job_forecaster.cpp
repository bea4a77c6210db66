// SPDX-License-Identifier: Apache-2.0
//
// Job -> programs -> layouts -> forecast.

#include "compiler/planning/job_forecaster.h"

#include "compiler/frontend/import.h"
#include "compiler/frontend/weights/init_rules.h"
#include "compiler/planning/equal_layers.h"
#include "compiler/planning/recompute_search.h"
#include "compiler/planning/sync_search.h"
#include "compiler/strategy/strategy.h"
#include "dialects/dist/recompute_rules.h"

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

// Returns a copy of programs with layouts: the known ones, or those that are searched or inferred.
FailureOr<OwningOpRef<ModuleOp>> layOut(ModuleOp programs, const pipelines::Variant &variant, const job::Job &job, search::Effort &effort,
                                        const LayoutHandover &handover) {
  OwningOpRef<ModuleOp> module = programs.clone();
  effort.count(kUnitsOfOp * countOps(programs));
  pipelines::Variant inferred = variant;
  if (handover.known) {
    handover.known->give(*module, handover.nameOf);
    inferred.search.reset();
  }
  if (failed(pipelines::inferLayouts(*module, inferred, job, /*verifies=*/false))) { // see forecast()
    return failure();
  }
  if (const auto searched = (*module)->getAttrOfType<dist::SearchAttr>(dist::kSearchAttr)) {
    effort.count(searched.getUnits());
  }
  if (handover.found) {
    *handover.found = KnownLayouts::read(*module);
  }
  if (handover.strategy) {
    *handover.strategy = strategy::readStrategy(*module);
  }
  return std::move(module);
}

} // namespace

FailureOr<ModuleOp> JobForecaster::import(const job::Job &job) {
  OwningOpRef<ModuleOp> &module = imported[job::microBatches(job)];
  if (!module && whole) {
    FailureOr<ModuleOp> model = whole->import(job);
    if (failed(model)) {
      return failure();
    }
    OwningOpRef<ModuleOp> copy = model->clone();
    if (!keepLayers(*copy, layers)) {
      return emitError(UnknownLoc::get(&context)) << "the model has fewer than " << layers << " equal layers";
    }
    module = std::move(copy);
  } else if (!module) {
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
    // Of each job, so that one with `recompute: AUTO` has the programs, and the number of loops, of one without.
    (*copy)->setAttr(dist::kSegmentedLoopsAttr, Builder(&context).getI64IntegerAttr(loops));
    pipelines::addTrainPasses(passes, job, input.target->kind(), options.joinsAttention);
    if (failed(passes.run(*copy))) {
      return failure();
    }
    module = std::move(copy);
  }
  return *module;
}

FailureOr<Forecast> JobForecaster::sketch(const job::Job &job, search::Effort &effort, int64_t memoryLimit, const LayoutHandover &handover,
                                          int64_t moves) {
  FailureOr<ModuleOp> programs = train(job);
  if (failed(programs)) {
    return failure();
  }
  pipelines::Variant variant = pipelines::listVariants(job, input.target->kind()).variants.front();
  variant.overlaps = options.overlaps;
  variant.recomputeMoves = moves;
  if (variant.search) {
    variant.search->effort = options.searchEffort;
    variant.search->seconds = effort.secondsLeft();
    variant.search->takesSmallest = true;
    variant.search->memoryLimit = memoryLimit;
  }
  FailureOr<OwningOpRef<ModuleOp>> module = layOut(*programs, variant, job, effort, handover);
  effort.count(kUnitsOfOp * countOps(*programs));
  return failed(module) ? FailureOr<Forecast>() : planning::forecast(std::move(*module), variant, job);
}

int64_t JobForecaster::unitsOf(const job::Job &job) {
  FailureOr<ModuleOp> programs = train(job);
  return failed(programs) ? 0 : 2 * kUnitsOfOp * countOps(*programs);
}

FailureOr<Forecast> JobForecaster::forecast(const job::Job &job, search::Effort &effort, const LayoutHandover &handover) {
  FailureOr<Forecast> found = failure();
  int64_t tried = -1; // loops of `found`
  auto tryLoops = [&](int64_t loops) -> FailureOr<RecomputeTrial> {
    FailureOr<ModuleOp> programs = train(job, loops);
    found = failed(programs) ? FailureOr<Forecast>() : forecastTrained(*programs, job, effort, handover);
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
  if (handover.strategy && *loops > 0) {
    handover.strategy->Clear();
  }
  return found;
}

FailureOr<Forecast> JobForecaster::forecastTrained(ModuleOp programs, const job::Job &job, search::Effort &effort,
                                                   const LayoutHandover &handover) {
  pipelines::Variant variant = pipelines::listVariants(job, input.target->kind()).variants.front();
  variant.overlaps = options.overlaps;
  if (variant.search) {
    variant.search->effort = options.searchEffort;
    variant.search->seconds = effort.secondsLeft();
    variant.search->takesSmallest = true;
    searchByForecast(variant, job, input.memoryLimit);
  }
  return forecastLayouts(programs, variant, job, effort, handover);
}

FailureOr<Forecast> JobForecaster::forecastLayouts(ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                                   search::Effort &effort, const LayoutHandover &handover) {
  FailureOr<OwningOpRef<ModuleOp>> laidOut = layOut(programs, variant, job, effort, handover);
  if (failed(laidOut)) {
    return failure();
  }
  ModuleOp module = laidOut->get();
  FailureOr<Forecast> found = failure();
  auto plan = [&]() -> FailureOr<SyncTrial> {
    found = forecastRecomputed(module, variant, job, effort, handover.guess);
    return failed(found) ? FailureOr<SyncTrial>() : SyncTrial{found->stepPs, found->leastBytes};
  };
  const LogicalResult planned = choosesGradientSync(job, input.memoryLimit)
                                    ? success(succeeded(chooseGradientSync(module, input.memoryLimit, plan)))
                                    : success(succeeded(plan()));
  if (failed(planned)) {
    return failure();
  }
  found->isStopped = wasSearchStopped(module);
  return found;
}

// Rematerializes as much as fits programs with layouts into the limit, where the job leaves it open.
FailureOr<Forecast> JobForecaster::forecastRecomputed(ModuleOp programs, pipelines::Variant &variant, const job::Job &job,
                                                      search::Effort &effort, const MovesGuess &guess) {
  auto forecastCopy = [&] {
    effort.count(kUnitsOfOp * countOps(programs));
    return planning::forecast(programs.clone(), variant, job);
  };
  std::map<int64_t, Forecast> known; // by moves
  if (job.recompute() == job::Recompute::AUTO) {
    FailureOr<int64_t> moves = findLeastMoves(
        input.memoryLimit,
        [&](int64_t count) -> FailureOr<RecomputeTrial> {
          variant.recomputeMoves = count;
          FailureOr<Forecast> found = forecastCopy();
          if (failed(found)) {
            return failure();
          }
          known[count] = *found;
          return RecomputeTrial{found->leastBytes, found->recomputeMoves};
        },
        guess, [&] { return guess && effort.isOver(); }); // the effort of a search for the mesh
    if (failed(moves)) {
      return failure();
    }
    variant.recomputeMoves = *moves;
    return known.at(*moves);
  }
  return forecastCopy();
}

} // namespace ashlar::planning
