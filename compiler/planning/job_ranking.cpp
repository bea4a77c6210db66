// SPDX-License-Identifier: Apache-2.0
//
// Two short models a mesh -> a line over the layers -> the step of a schedule.

#include "compiler/planning/job_ranking.h"

#include "compiler/job/job.h"
#include "compiler/planning/candidate_jobs.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::planning {
namespace {

constexpr int64_t kSketchStages = 2;

int64_t stagesOf(const job::Job &job) {
  return job.has_pipeline() ? job.pipeline().stages() : 1;
}

// Returns the job of which the sketches of a job are: all that differ from it only in what estimateStep() has.
job::Job sketchOf(const job::Job &job) {
  job::Job made = withoutOrder(job);
  made.clear_recompute();
  if (job.has_pipeline()) {
    made.mutable_pipeline()->set_stages(kSketchStages);
  }
  return made;
}

// Returns the samples of a micro-batch for all devices along the last axis of the mesh; less than one where these share one with others.
double samplesOf(const job::Job &job) {
  const int64_t last = job.mesh().axes().rbegin()->size();
  return static_cast<double>(job.global_batch() * last) / static_cast<double>(job::microBatches(job) * job::numDevices(job));
}

uint64_t parameterBytes(ModuleOp model) {
  uint64_t bytes = 0;
  for (auto variable : model.getOps<nn::VariableOp>()) {
    bytes += byteSize(variable.getTensorType());
  }
  return bytes;
}

} // namespace

bool JobRanking::applies(const job::Job &job) {
  FailureOr<ModuleOp> model = whole.import(job);
  if (failed(model)) {
    return false;
  }
  EqualLayers found = findEqualLayers(*model->getOps<func::FuncOp>().begin());
  count = found.count();
  names.emplace(found);
  return count >= kLeastLayers;
}

// Returns the share that the parameters of the longer one of the short models have of all.
double JobRanking::shareOfParameters(const job::Job &job) {
  FailureOr<ModuleOp> all = whole.import(job), some = more.import(job);
  return failed(all) || failed(some) ? 1 : static_cast<double>(parameterBytes(*some)) / static_cast<double>(parameterBytes(*all));
}

std::optional<Estimate> JobRanking::estimate(const job::Job &job, search::Effort &effort) {
  const job::Job drawn = sketchOf(job);
  auto [found, isNew] = sketches.try_emplace(drawn.SerializeAsString());
  if (isNew || (found->second && found->second->keepsLimit != keepsLimit)) {
    found->second = draw(job, drawn, effort);
  }
  if (!found->second) {
    return std::nullopt;
  }
  const Estimate plain = estimateStep(job, found->second->whole.at(0));
  const bool recomputes = job.recompute() == job::Recompute::AUTO && plain.bytes > static_cast<uint64_t>(memoryLimit);
  return recomputes ? recompute(drawn, job, *found->second, effort) : plain;
}

// Returns the estimate of a job that is too large without rematerialization: with as many moves as it fits with, or with all.
std::optional<Estimate> JobRanking::recompute(const job::Job &drawn, const job::Job &job, Sketch &sketch, search::Effort &effort) {
  auto estimateShares = [&](int64_t shares) -> std::optional<Estimate> {
    return measure(drawn, shares, sketch, effort) ? std::optional(estimateStep(job, sketch.whole.at(shares))) : std::nullopt;
  };
  const auto limit = static_cast<double>(memoryLimit);
  int64_t tooFew = 0, enough = kShares;
  std::optional<Estimate> large = estimateShares(tooFew), small = estimateShares(enough);
  const double excess = static_cast<double>(large->bytes) - limit;
  while (small && tooFew + 1 < enough && static_cast<double>(small->bytes) <= limit) {
    const int64_t middle = (tooFew + enough) / 2;
    std::optional<Estimate> between = estimateShares(middle);
    const bool isEnough = between && static_cast<double>(between->bytes) <= limit;
    (isEnough ? enough : tooFew) = middle;
    (isEnough ? small : large) = between ? between : small;
  }
  if (!small || static_cast<double>(small->bytes) > limit) {
    if (small) {
      small->recomputed = 1;
    }
    return small;
  }
  // Moves are in the order of the bytes that they save per time, and a part of them is one step of all layers.
  const double share = (static_cast<double>(large->bytes) - limit) / static_cast<double>(large->bytes - small->bytes);
  return Estimate{large->stepPs + static_cast<int64_t>(share * static_cast<double>(small->stepPs - large->stepPs)),
                  static_cast<uint64_t>(memoryLimit),
                  (static_cast<double>(tooFew) + share * static_cast<double>(enough - tooFew)) / kShares, excess};
}

// Returns the layouts that a search finds for the longer short model, with so many bytes a device; 0: any number. Null where it fails.
std::shared_ptr<const KnownLayouts> JobRanking::search(const job::Job &drawn, search::Effort &effort, int64_t limit) {
  auto found = std::make_shared<KnownLayouts>();
  return failed(more.sketch(drawn, effort, limit, {nullptr, {}, found.get()})) ? nullptr : found;
}

// Returns the layouts of all jobs with the same last axis, after a search for the first one with its samples: a search finds the best ones
// for most numbers of samples, but not for all.
SmallVector<std::shared_ptr<const KnownLayouts>> JobRanking::fastLayouts(const job::Job &drawn, search::Effort &effort) {
  auto &known = layouts[drawn.mesh().axes().rbegin()->size()];
  if (auto [own, isNew] = known.try_emplace(samplesOf(drawn)); isNew) {
    own->second = search(drawn, effort, /*limit=*/0);
  }
  return llvm::to_vector(llvm::make_second_range(known));
}

// Draws a sketch with these layouts. Nothing where there are none, or with them no program.
std::optional<JobRanking::Sketch> JobRanking::measured(const job::Job &drawn, std::shared_ptr<const KnownLayouts> known,
                                                       search::Effort &effort) {
  Sketch sketch{std::move(known), keepsLimit, 0, 0, {}};
  return sketch.layouts && measure(drawn, 0, sketch, effort) ? std::optional(std::move(sketch)) : std::nullopt;
}

// Draws the sketch of a job with the layouts that make it fastest, which are those of the same job on another level.
std::optional<JobRanking::Sketch> JobRanking::drawFastest(const job::Job &job, const job::Job &drawn, search::Effort &effort) {
  job::Job anyLevel = drawn;
  anyLevel.clear_optimizer_parallel();
  std::shared_ptr<const KnownLayouts> &known = fastest[anyLevel.SerializeAsString()];
  if (known) {
    return measured(drawn, known, effort);
  }
  auto stepOf = [&](const Sketch &sketch) { return estimateStep(job, sketch.whole.at(0)).stepPs; };
  std::optional<Sketch> best;
  for (std::shared_ptr<const KnownLayouts> &fast : fastLayouts(drawn, effort)) {
    std::optional<Sketch> next = measured(drawn, std::move(fast), effort);
    if (next && (!best || stepOf(*next) < stepOf(*best))) {
      best = std::move(next);
    }
  }
  known = best ? best->layouts : nullptr;
  return best;
}

// Draws the sketch of a job, with its fastest layouts; where these are too large and the memory limit is kept, with smaller ones of its
// own.
std::optional<JobRanking::Sketch> JobRanking::draw(const job::Job &job, const job::Job &drawn, search::Effort &effort) {
  constexpr int kMostSearches = 3;
  std::optional<Sketch> best = drawFastest(job, drawn, effort);
  // The short model gets as much less memory as it has fewer parameters, and its stages as much more as they are fewer.
  const double share = shareOfParameters(drawn) * static_cast<double>(stagesOf(job)) / static_cast<double>(stagesOf(drawn));
  const auto limit = static_cast<double>(memoryLimit);
  double searched = limit * share;
  auto excessOf = [&](const Sketch &sketch) { return static_cast<double>(estimateStep(job, sketch.whole.at(0)).bytes) - limit; };
  for (int searches = 0; keepsLimit && memoryLimit > 0 && searches < kMostSearches && searched >= 1; ++searches) {
    if (best && excessOf(*best) <= 0) {
      break;
    }
    std::optional<Sketch> next = measured(drawn, search(drawn, effort, static_cast<int64_t>(searched)), effort);
    if (!next) {
      break;
    }
    searched -= excessOf(*next) * share;
    if (!best || excessOf(*next) < excessOf(*best)) {
      best = std::move(next);
    }
  }
  return best;
}

// Forecasts both short models of a sketch with so many parts of all moves of rematerialization, unless that is known. Returns whether both
// can be compiled.
bool JobRanking::measure(const job::Job &drawn, int64_t shares, Sketch &sketch, search::Effort &effort) {
  if (sketch.whole.count(shares) > 0) {
    return true;
  }
  auto forecast = [&](JobForecaster &forecaster, int64_t layers, int64_t &moves) {
    FailureOr<Forecast> found =
        forecaster.sketch(drawn, effort, /*memoryLimit=*/0,
                          {sketch.layouts.get(), [&, layers](StringRef name) { return names->counterpart(name, layers, kMore); }, nullptr},
                          moves * shares / kShares);
    moves = failed(found) ? 0 : found->recomputeMoves;
    return found;
  };
  FailureOr<Forecast> ofMore = forecast(more, kMore, sketch.movesOfMore), ofFew = forecast(few, kFew, sketch.movesOfFew);
  if (failed(ofMore) || failed(ofFew)) {
    return false;
  }
  sketch.whole.emplace(shares, extrapolate(numbersOf(*ofFew), kFew, numbersOf(*ofMore), kMore, count));
  return true;
}

LayoutHandover JobRanking::layoutsOf(const job::Job &job) const {
  auto found = sketches.find(sketchOf(job).SerializeAsString());
  assert(found != sketches.end() && found->second && "of an estimated job");
  return {found->second->layouts.get(), [this](StringRef name) { return names->counterpart(name, count, kMore); }, nullptr};
}

} // namespace ashlar::planning
