// SPDX-License-Identifier: Apache-2.0
//
// See mesh_search.h.

#include "compiler/planning/mesh_search.h"

#include "compiler/command/diagnostics.h"
#include "compiler/planning/candidate_jobs.h"
#include "compiler/planning/deep_search.h"
#include "compiler/planning/sort_by.h"
#include "compiler/report/units.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "passes/search/solver/effort.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

using namespace mlir;

namespace ashlar::planning {
namespace {

constexpr size_t kRefined = 3;  // jobs that others are made of
constexpr double kSearches = 5; // for layouts, whose effort a search for the mesh has

int64_t units(const command::Options &options) {
  return search::Effort::unitsOf(kSearches * options.searchEffort);
}

class MeshSearch {
public:
  MeshSearch(const command::Options &options, const command::Input &input, JobForecaster &forecaster, MLIRContext &context,
             bool keepsLayouts)
      : options(options), input(input), forecaster(forecaster), context(context), effort(units(options), options.searchSeconds),
        keepsLayouts(keepsLayouts), ranking(forecaster, input.memoryLimit) {}

  FoundMeshes run() {
    std::vector<job::Job> jobs = listMeshJobs(input.job);
    const bool isDeep = !jobs.empty() && hasEstimates(jobs.front());
    mayDivide = input.job.has_loss() && !input.job.has_accumulate() && !input.job.has_pipeline();
    if (std::string reason = mayDivide ? whyWhole(jobs.front(), isDeep ? ranking.shortModel() : forecaster) : ""; !reason.empty()) {
      emitRemark(UnknownLoc::get(&context)) << "stages and micro-batches are left out of the search: " << reason
                                            << "; to have them, give the job a pipeline or accumulate";
      llvm::erase_if(jobs, [](const job::Job &job) { return job::microBatches(job) > 1; });
      mayDivide = false;
    }
    std::vector<RankedJob> ranked = isDeep ? rank(jobs) : std::vector<RankedJob>();
    tryRanked(ranked);
    if (ranked.empty()) {
      for (job::Job &job : jobs) {
        tryJob(std::move(job));
      }
    }
    sort();
    for (size_t place = 0; ranked.empty() && place < std::min(kRefined, found.candidates.size()); ++place) { // estimates have the changes
      refine(found.candidates[place]);
    }
    sort();
    found.isStopped = effort.isStopped() || llvm::any_of(found.candidates, [](const Candidate &each) {
                        return each.row.forecast && each.row.forecast->isStopped;
                      });
    return std::move(found);
  }

private:
  // Returns the jobs of a deep model in the order of their estimates. Half of the effort is left for forecasts, or as much as a few take.
  std::vector<RankedJob> rank(ArrayRef<job::Job> jobs) {
    constexpr int64_t kPrograms = 8;     // of two jobs with four numbers of moves
    command::FirstError error(&context); // of a short model alone
    const int64_t ofForecasts = std::min(units(options) / 2, kPrograms * ranking.unitsOfForecast(jobs.front()));
    return rankJobs({options, input, ranking, effort, ofForecasts, mayDivide}, jobs);
  }

  // Forecasts the jobs with the best estimates, until the next one is estimated to be slower than the best by more than estimates err, or
  // until there are enough, one that fits among them where estimates have one. None is begun that may exceed the effort, but for
  // the first ones where none fits.
  void tryRanked(ArrayRef<RankedJob> ranked) {
    constexpr size_t kEnough = 4;
    constexpr double kError = 1.1;
    double best = std::numeric_limits<double>::infinity();
    std::map<std::string, double> errors; // of estimated bytes, by the job without its schedule
    int64_t dearest = 0;                  // units of a forecast
    const auto limit = static_cast<double>(input.memoryLimit == 0 ? INT64_MAX : input.memoryLimit);
    for (const RankedJob &each : ranked) {
      const auto bytes = static_cast<double>(each.estimate.bytes);
      const bool isFound = best < std::numeric_limits<double>::infinity();
      const bool isEnough = found.candidates.size() >= kEnough && (isFound || bytes > limit);
      if (isEnough || static_cast<double>(each.estimate.stepPs) > best * kError) {
        break;
      }
      double &error = errors.try_emplace(withoutOrder(each.job).SerializeAsString(), 0).first->second;
      if (each.estimate.excess == 0 && bytes * error > limit) {
        continue; // with another schedule it was seen to take more
      }
      LayoutHandover layouts = ranking.layoutsOf(each.job);
      if (const Estimate &estimate = each.estimate; estimate.excess > 0) {
        layouts.guess = [&](uint64_t taken) { return estimate.recomputed * (static_cast<double>(taken) - limit) / estimate.excess; };
      }
      if (dearest > effort.left() && (isFound || found.candidates.size() >= kEnough)) {
        ++found.left;
        continue;
      }
      const int64_t before = effort.getCounted();
      std::optional<Candidate> candidate = tryJob(each.job, std::move(layouts), /*mayExceed=*/true);
      dearest = std::max(dearest, effort.getCounted() - before);
      if (candidate && candidate->row.forecast) {
        error = static_cast<double>(candidate->row.forecast->leastBytes) / bytes;
        best = fits(*candidate) ? std::min(best, static_cast<double>(candidate->row.forecast->stepPs)) : best;
      }
    }
    found.estimated = ranked.size();
  }

  bool fits(const Candidate &candidate) const {
    return input.memoryLimit == 0 || candidate.row.forecast->leastBytes <= static_cast<uint64_t>(input.memoryLimit);
  }

  // Whether jobs of the model have estimates. What is wrong with it is every candidate's refusal.
  bool hasEstimates(const job::Job &job) {
    command::FirstError error(&context);
    return ranking.applies(job);
  }

  // Returns why a step in micro-batches is not the step on the whole batch; "" where it is, or where the job has other faults. `models` has
  // the model, or fewer of its layers.
  std::string whyWhole(job::Job job, JobForecaster &models) {
    job.clear_pipeline();
    command::FirstError error(&context);
    FailureOr<ModuleOp> whole = models.train(job);
    if (failed(whole)) {
      return "";
    }
    for (auto write : nn::findProgram(*whole, nn::ProgramRole::TrainStep).front().getOps<nn::WriteOp>()) {
      if (write->hasAttr(nn::kForwardWriteAttr)) {
        return "batch normalizations, which move \"" + write.getVariable().str() + "\", take the statistics of a micro-batch";
      }
    }
    // Into the fewest micro-batches that divide the batch.
    for (int64_t count = 2; count <= job.global_batch(); ++count) {
      if (job.global_batch() % count == 0) {
        job.set_accumulate(count);
        job::takeExactLoss(job);
        return failed(models.train(job)) ? StringRef(error.text()).split(';').first.str() : ""; // the remedy is another one
      }
    }
    return "";
  }

  // Returns by what candidates are compared: those that fit by time, those that do not by memory, then those that cannot be. Of equal ones
  // the fewer axes are easier to read.
  std::tuple<int, int64_t, int64_t> rank(const Candidate &candidate) const {
    const int64_t axes = llvm::count_if(candidate.job.mesh().axes(), [](const job::Mesh::Axis &axis) { return axis.size() > 1; });
    if (!candidate.row.forecast) {
      return {2, 0, axes};
    }
    const Forecast &forecast = *candidate.row.forecast;
    return fits(candidate) ? std::tuple(0, forecast.stepPs, axes) : std::tuple(1, static_cast<int64_t>(forecast.leastBytes), axes);
  }

  void sort() {
    sortBy(found.candidates, [&](const Candidate &each) { return rank(each); });
  }

  // Forecasts a job that was not tried yet, unless the effort is over and that matters. Returns what it found.
  std::optional<Candidate> tryJob(job::Job job, LayoutHandover layouts = {}, bool mayExceed = false) {
    if (!tried.insert(job.SerializeAsString()).second) {
      return std::nullopt;
    }
    if (!mayExceed && effort.isOver() &&
        llvm::any_of(found.candidates, [](const Candidate &each) { return each.row.forecast.has_value(); })) {
      ++found.left;
      return std::nullopt;
    }
    Candidate candidate{std::move(job), {}};
    candidate.row = makeRow(candidate.job);
    layouts.strategy = keepsLayouts ? &candidate.strategy : nullptr;
    command::FirstError error(&context);
    if (llvm::Error fault = command::checkInput(options, candidate.job, input)) {
      candidate.row.refusal = llvm::toString(std::move(fault));
    } else if (FailureOr<Forecast> forecast = forecaster.forecast(candidate.job, effort, layouts); succeeded(forecast)) {
      candidate.row.forecast = std::move(*forecast);
    } else {
      candidate.row.refusal = error.text();
    }
    found.candidates.push_back(candidate);
    return candidate;
  }

  // Changes one thing of a job at a time, the one that makes it best, while one makes it better.
  void refine(Candidate best) {
    for (bool isBetterNow = best.row.forecast.has_value(); isBetterNow;) {
      isBetterNow = false;
      for (job::Job &job : listChanges(best)) {
        std::optional<Candidate> candidate = tryJob(std::move(job));
        if (candidate && rank(*candidate) < rank(best)) {
          best = std::move(*candidate);
          isBetterNow = true;
        }
      }
    }
  }

  // Returns a job with one change each, of what the user left open.
  std::vector<job::Job> listChanges(const Candidate &candidate) const {
    std::vector<job::Job> changed;
    auto add = [&](auto change) {
      job::Job job = candidate.job;
      change(job);
      changed.push_back(std::move(job));
    };
    if (mayDivide && candidate.job.has_pipeline()) {
      const int32_t count = candidate.job.pipeline().micro_batches(), stages = candidate.job.pipeline().stages();
      for (int32_t other : {2 * count, count / 2}) {
        if (other >= stages && input.job.global_batch() % other == 0) {
          add([&](job::Job &job) { job.mutable_pipeline()->set_micro_batches(other); });
        }
      }
      add([](job::Job &job) {
        job.mutable_pipeline()->set_schedule(job::Pipeline::INTERLEAVED);
        job.mutable_pipeline()->set_chunks(2);
      });
      add([](job::Job &job) {
        job.mutable_pipeline()->set_schedule(job::Pipeline::ZERO_BUBBLE);
        job.mutable_pipeline()->clear_chunks();
      });
    }
    if (input.memoryLimit == 0) {
      return changed;
    }
    if (!input.job.has_recompute()) {
      add([](job::Job &job) { job.set_recompute(job::Recompute::AUTO); });
    }
    if (mayDivide && !candidate.job.has_pipeline() && !fits(candidate) &&
        input.job.global_batch() % (2 * candidate.job.accumulate()) == 0) {
      add([&](job::Job &job) {
        job.set_accumulate(2 * candidate.job.accumulate());
        job::takeExactLoss(job);
      });
    }
    return changed;
  }

  const command::Options &options;
  const command::Input &input;
  JobForecaster &forecaster;
  MLIRContext &context;
  search::Effort effort;
  const bool keepsLayouts;
  JobRanking ranking;
  std::set<std::string> tried; // serialized jobs
  bool mayDivide = false;      // whether the search gives jobs stages and micro-batches
  FoundMeshes found;
};

} // namespace

PlannedMesh makeRow(const job::Job &job) {
  PlannedMesh row;
  for (const job::Mesh::Axis &axis : job.mesh().axes()) {
    row.axes.push_back({axis.name(), axis.size()});
  }
  row.stages = job.has_pipeline() ? job.pipeline().stages() : 1;
  row.devices = job::numDevices(job) * row.stages;
  row.microBatches = job::microBatches(job);
  row.schedule = job.has_pipeline() && !job.pipeline().has_order() ? job::Pipeline::Schedule_Name(job.pipeline().schedule()) : "";
  row.level = job.has_optimizer_parallel() && job::effectiveMode(job) != job::DATA_PARALLEL ? job.optimizer_parallel().level() : 0;
  row.recomputes = job.recompute() == job::Recompute::AUTO;
  return row;
}

llvm::Error refuseAll(ArrayRef<Candidate> candidates) {
  const size_t others = candidates.size() - 1;
  return llvm::createStringError(
      candidates.front().row.refusal +
      (others == 0 ? "" : "; and no other of the " + std::to_string(candidates.size()) + " meshes can be, either"));
}

FoundMeshes searchMeshes(const command::Options &options, const command::Input &input, JobForecaster &forecaster, MLIRContext &context,
                         bool keepsLayouts) {
  return MeshSearch(options, input, forecaster, context, keepsLayouts).run();
}

llvm::Expected<FoundMeshes> chooseMesh(const command::Options &options, command::Input &input) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  command::Options planned = options;
  planned.timeline.clear(); // whether there are stages is not known yet
  planned.saveOrder.clear();
  JobForecaster forecaster(planned, input, context);
  FoundMeshes found = searchMeshes(planned, input, forecaster, context, /*keepsLayouts=*/true);
  if (found.candidates.empty()) {
    return llvm::createStringError("no mesh was found for " + std::to_string(input.job.mesh().devices()) + " devices");
  }
  const Candidate &best = found.candidates.front();
  if (!best.row.forecast) {
    return refuseAll(found.candidates);
  }
  const lower::MemoryUse &memory = best.row.forecast->memory;
  if (const uint64_t least = best.row.forecast->leastBytes; input.memoryLimit != 0 && least > static_cast<uint64_t>(input.memoryLimit)) {
    return llvm::createStringError("a device may hold " + report::comparedBytes(input.memoryLimit, least).first + ", and the smallest of " +
                                   std::to_string(found.candidates.size()) + " meshes (" + meshName(best.row) + ") is predicted to take " +
                                   report::memoryText(memory, input.memoryLimit) + "; give it more devices or a smaller batch");
  }
  input.job = best.job;
  // Only a search can explain itself; that for a mesh is done again then, unless its layouts are those of fewer layers.
  const bool isExplained = options.explain || !options.report.empty();
  if (best.strategy.has_mesh() && (!isExplained || found.estimated > 0)) {
    *input.job.mutable_strategy() = best.strategy;
  }
  if (llvm::Error error = command::checkInput(options, input.job, input)) {
    return std::move(error);
  }
  return std::move(found);
}

report::MeshSearchFact describeMeshes(const FoundMeshes &found, int64_t memoryLimit, double searchSeconds) {
  report::MeshSearchFact fact{{}, found.candidates.size(), found.left, found.estimated, {}};
  if (found.isStopped) {
    fact.stoppedSeconds = searchSeconds;
  }
  for (const Candidate &candidate : found.candidates) {
    if (const std::optional<Forecast> &forecast = candidate.row.forecast;
        forecast && (memoryLimit == 0 || forecast->leastBytes <= static_cast<uint64_t>(memoryLimit))) {
      fact.meshes.push_back({meshName(candidate.row), forecast->stepPs, static_cast<int64_t>(forecast->memory.bytes())});
    }
  }
  return fact;
}

} // namespace ashlar::planning
