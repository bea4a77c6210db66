// SPDX-License-Identifier: Apache-2.0
//
// Two short models a mesh -> a line over the layers -> closed forms.

#include "compiler/planning/job_ranking.h"

#include "compiler/job/job.h"
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

// Returns the job of which the sketches of a job are: all that differ from it only in what closed forms have.
job::Job sketchOf(const job::Job &job) {
  job::Job made = job;
  made.clear_recompute();
  if (job.has_pipeline()) {
    made.mutable_pipeline()->set_stages(kSketchStages);
    made.mutable_pipeline()->clear_schedule();
    made.mutable_pipeline()->clear_chunks();
  }
  return made;
}

LayerNumbers numbersOf(const Forecast &forecast) {
  LayerNumbers sum;
  if (forecast.stages.empty()) {
    sum.oncePs = static_cast<double>(forecast.stepPs);
    sum.fixedBytes = static_cast<double>(forecast.leastBytes);
  }
  for (const StageForecast &stage : forecast.stages) {
    sum.microBatchPs += static_cast<double>(stage.microBatchPs);
    sum.oncePs += static_cast<double>(stage.oncePs);
    sum.receivePs += static_cast<double>(stage.receivePs);
    sum.slotBytes += static_cast<double>(stage.slotBytes);
    sum.fixedBytes += static_cast<double>(stage.fixedBytes);
  }
  return sum;
}

// Returns the micro-batches whose values the first stage holds at once: as passes/stage makes slots.
int64_t slotsOf(const job::Pipeline &pipeline) {
  const int64_t stages = pipeline.stages(), count = pipeline.micro_batches();
  switch (pipeline.schedule()) {
  case job::Pipeline::GPIPE:
    return count;
  case job::Pipeline::INTERLEAVED: // a group of micro-batches goes through the chunks while the one before comes back
    return std::min(count, 2 * stages);
  default:
    return std::min(count, stages);
  }
}

// Returns how many micro-batches' time a stage waits in a step.
double waitsOf(const job::Pipeline &pipeline) {
  const double others = pipeline.stages() - 1;
  constexpr double kOfZeroBubble = 3; // of the wait of ONE_F_ONE_B
  return pipeline.schedule() == job::Pipeline::INTERLEAVED   ? others / pipeline.chunks()
         : pipeline.schedule() == job::Pipeline::ZERO_BUBBLE ? others / kOfZeroBubble
                                                             : others;
}

uint64_t parameterBytes(ModuleOp model) {
  uint64_t bytes = 0;
  for (auto variable : model.getOps<nn::VariableOp>()) {
    bytes += byteSize(variable.getTensorType());
  }
  return bytes;
}

} // namespace

LayerNumbers extrapolate(const LayerNumbers &ofFew, int64_t few, const LayerNumbers &ofMore, int64_t more, int64_t layers) {
  auto line = [&](double LayerNumbers::*number) {
    const double ofLayer = std::max((ofMore.*number - ofFew.*number) / static_cast<double>(more - few), 0.0);
    return ofMore.*number + ofLayer * static_cast<double>(layers - more);
  };
  LayerNumbers numbers{line(&LayerNumbers::microBatchPs), line(&LayerNumbers::oncePs), ofMore.receivePs, line(&LayerNumbers::slotBytes),
                       line(&LayerNumbers::fixedBytes)};
  return numbers;
}

Estimate estimateStep(const job::Job &job, const LayerNumbers &whole, int64_t layers) {
  if (!job.has_pipeline()) {
    return {static_cast<int64_t>(whole.oncePs), static_cast<uint64_t>(whole.fixedBytes)};
  }
  const job::Pipeline &pipeline = job.pipeline();
  const double stages = pipeline.stages();
  const int64_t parts = int64_t(pipeline.stages()) * pipeline.chunks(), halves = 2 * layers;
  const double largest = static_cast<double>(llvm::divideCeil(halves, parts) * parts) / static_cast<double>(halves);
  const double ofMicroBatch = whole.microBatchPs / stages * largest + whole.receivePs * pipeline.chunks();
  const double steps = pipeline.micro_batches() + waitsOf(pipeline);
  return {static_cast<int64_t>(steps * ofMicroBatch + whole.oncePs / stages),
          static_cast<uint64_t>((whole.fixedBytes + whole.slotBytes * static_cast<double>(slotsOf(pipeline))) / stages * largest)};
}

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
  return found->second ? std::optional(estimateStep(job, found->second->whole, count)) : std::nullopt;
}

// Returns the layouts that a search finds for the longer short model, with so many bytes a device; 0: any number. Null where it fails.
std::shared_ptr<const KnownLayouts> JobRanking::search(const job::Job &drawn, search::Effort &effort, int64_t limit) {
  auto found = std::make_shared<KnownLayouts>();
  return failed(more.sketch(drawn, effort, limit, {nullptr, {}, found.get()})) ? nullptr : found;
}

// Draws the sketch of a job, with the layouts of the first job whose mesh has the same last axis; where these are too large and the memory
// limit is kept, with smaller ones of its own.
std::optional<JobRanking::Sketch> JobRanking::draw(const job::Job &job, const job::Job &drawn, search::Effort &effort) {
  constexpr int kMostSearches = 3;
  std::shared_ptr<const KnownLayouts> &shared = layouts[drawn.mesh().axes().rbegin()->size()];
  shared = shared ? shared : search(drawn, effort, /*limit=*/0);
  std::optional<Sketch> best = shared ? measure(drawn, shared, effort) : std::nullopt;
  // The short model gets as much less memory as it has fewer parameters, and its stages as much more as they are fewer.
  const double share = shareOfParameters(drawn) * static_cast<double>(stagesOf(job)) / static_cast<double>(stagesOf(drawn));
  const auto limit = static_cast<double>(memoryLimit);
  double searched = limit * share;
  auto excessOf = [&](const Sketch &sketch) { return static_cast<double>(estimateStep(job, sketch.whole, count).bytes) - limit; };
  for (int searches = 0; keepsLimit && memoryLimit > 0 && searches < kMostSearches && searched >= 1; ++searches) {
    if (best && excessOf(*best) <= 0) {
      break;
    }
    std::shared_ptr<const KnownLayouts> found = search(drawn, effort, static_cast<int64_t>(searched));
    std::optional<Sketch> next = found ? measure(drawn, found, effort) : std::nullopt;
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

// Forecasts both short models of a sketch with layouts of the longer one.
std::optional<JobRanking::Sketch> JobRanking::measure(const job::Job &drawn, std::shared_ptr<const KnownLayouts> known,
                                                      search::Effort &effort) {
  auto sketch = [&](JobForecaster &forecaster, int64_t layers) {
    return forecaster.sketch(drawn, effort, /*memoryLimit=*/0,
                             {known.get(), [&, layers](StringRef name) { return names->counterpart(name, layers, kMore); }, nullptr});
  };
  FailureOr<Forecast> ofMore = sketch(more, kMore), ofFew = sketch(few, kFew);
  if (failed(ofMore) || failed(ofFew)) {
    return std::nullopt;
  }
  return Sketch{std::move(known), keepsLimit, extrapolate(numbersOf(*ofFew), kFew, numbersOf(*ofMore), kMore, count)};
}

LayoutHandover JobRanking::layoutsOf(const job::Job &job) const {
  auto found = sketches.find(sketchOf(job).SerializeAsString());
  assert(found != sketches.end() && found->second && "of an estimated job");
  return {found->second->layouts.get(), [this](StringRef name) { return names->counterpart(name, count, kMore); }, nullptr};
}

} // namespace ashlar::planning
