// SPDX-License-Identifier: Apache-2.0
//
// Numbers of layers -> stages -> their step, played.

#include "compiler/planning/estimated_step.h"

#include "compiler/job/job.h"
#include "passes/stage/execution.h"
#include "runtime/timeline/staged_step.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

namespace ashlar::planning {
namespace {

using stage::StepPhase;

// A pipeline whose stages have halves of equal layers; the last one has what is in no layer besides.
class LayerStages {
public:
  LayerStages(const job::Pipeline &pipeline, const ModelNumbers &model)
      : cut{pipeline.stages(), pipeline.chunks()}, policy(stage::SchedulePolicy::get(pipelines::scheduleOf(pipeline.schedule()))),
        orders(stage::buildOrders(policy, cut, pipeline.micro_batches())), microBatches(pipeline.micro_batches()), whole(model.whole),
        layer(model.layer) {
    const double ofLayer = microBatchPs(layer), head = microBatchPs(whole) - ofLayer * static_cast<double>(model.layers);
    halves = shareHalves(model.layers, cut.virtualStages(), ofLayer > 0 ? 2 * std::max(head, 0.0) / ofLayer : 0);
    std::vector<int64_t> ofStage(cut.stages, 0);
    for (auto [at, count] : llvm::enumerate(halves)) {
      ofStage[cut.stageOf(static_cast<int64_t>(at))] += count;
    }
    largest = static_cast<double>(*llvm::max_element(ofStage)) * static_cast<double>(cut.stages) / static_cast<double>(2 * model.layers);
  }

  Estimate estimate() const {
    rt::TimedStep step;
    int64_t slots = 1, ends = 0;
    for (int64_t stage = 0; stage < cut.stages; ++stage) {
      addStage(step, stage);
      slots = std::max(slots, stage::slotsOf(orders[stage]));
      ends = std::max(ends, endsOf(stage));
    }
    uint64_t stepPs = 0;
    for (const rt::ActorTimes &times : rt::playStagedStep(step, makeChannels())) {
      stepPs = std::max(stepPs, times.endPs);
    }
    const auto stages = static_cast<double>(cut.stages), inFlight = static_cast<double>(slots);
    // Each stage but the last one sends what its layers send once a step: of two stages one does.
    const double onceReceivePs = whole.onceReceivePs * 2 * (stages - 1) / stages;
    return {static_cast<int64_t>(stepPs) + static_cast<int64_t>(whole.oncePs / stages + onceReceivePs),
            static_cast<uint64_t>((whole.fixedBytes + whole.slotBytes * inFlight) / stages * largest +
                                  whole.messageBytes / 2 * static_cast<double>(ends) * inFlight)};
  }

private:
  // Returns the number of cuts between a virtual stage of a stage and its neighbours.
  int64_t endsOf(int64_t stage) const { return 2 * cut.chunks - (stage == 0 ? 1 : 0) - (stage + 1 == cut.stages ? 1 : 0); }

  static double microBatchPs(const LayerNumbers &numbers) { return numbers.forwardPs + numbers.backwardPs + numbers.weightsPs; }

  // Returns the channels of forward results from each virtual stage but the last to the next one, then of gradients back, in this order.
  std::vector<rt::StageMessages> makeChannels() const {
    std::vector<rt::StageMessages> channels;
    const auto ps = static_cast<uint64_t>(whole.receivePs / 2); // of both ways
    for (bool isForward : {true, false}) {
      for (int64_t at = 0; at + 1 < cut.virtualStages(); ++at) {
        const auto upper = static_cast<uint32_t>(cut.stageOf(at)), lower = static_cast<uint32_t>(cut.stageOf(at + 1));
        channels.push_back({isForward ? upper : lower, isForward ? lower : upper, ps});
      }
    }
    return channels;
  }

  // Adds a stage: its phases, of each all chunks, and its order.
  void addStage(rt::TimedStep &step, int64_t stage) const {
    step.slots.push_back(microBatches); // no stage waits for those of another
    for (StepPhase phase : {StepPhase::Forward, StepPhase::Backward, StepPhase::Weights}) {
      for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) {
        const int64_t at = cut.virtualStage(stage, chunk);
        addEnds(phase, at, rt::addTimedProgram(step, static_cast<uint32_t>(stage), static_cast<uint64_t>(timeOf(phase, at))));
      }
    }
    std::vector<ashlar_rt_run> &runs = step.runs.emplace_back();
    for (const stage::Action &action : orders[stage]) {
      runs.push_back({static_cast<uint32_t>(static_cast<int64_t>(action.phase) * cut.chunks + action.chunk),
                      static_cast<uint32_t>(action.microBatch), /*takes_batch=*/0});
    }
  }

  // Adds the ends of the messages of a program: forward results to the next virtual stage, gradients to the one before.
  void addEnds(StepPhase phase, int64_t at, rt::TimedProgram &program) const {
    if (phase == StepPhase::Weights) {
      return;
    }
    const bool isForward = phase == StepPhase::Forward, hasUpper = at > 0, hasLower = at + 1 < cut.virtualStages();
    const auto first = static_cast<uint32_t>(isForward ? 0 : cut.virtualStages() - 1); // of this way
    const auto above = first + static_cast<uint32_t>(at) - 1, below = first + static_cast<uint32_t>(at);
    if (hasUpper) {
      (isForward ? program.receives : program.sends).push_back({above, 0});
    }
    if (hasLower) {
      (isForward ? program.sends : program.receives).push_back({below, 0});
    }
  }

  // Returns the time of a phase. No stage waits for the gradients of the first one: where weights are apart, they are all that it computes.
  int64_t timeOf(StepPhase phase, int64_t at) const {
    const bool isFirst = at == 0 && policy.splitsBackward(), isLast = at + 1 == cut.virtualStages();
    auto timeOf = [&](double LayerNumbers::*number) {
      const double ofLayers = layer.*number * static_cast<double>(halves[at]) / 2;
      return isLast ? whole.*number - layer.*number * static_cast<double>(llvm::sum_of(halves) - halves[at]) / 2 : ofLayers;
    };
    const double weights = timeOf(&LayerNumbers::weightsPs), backward = timeOf(&LayerNumbers::backwardPs);
    const double time = phase == StepPhase::Forward    ? timeOf(&LayerNumbers::forwardPs)
                        : phase == StepPhase::Backward ? (isFirst ? 0 : backward)
                                                       : weights + (isFirst ? backward : 0);
    return static_cast<int64_t>(time);
  }

  const stage::Cut cut;
  const stage::SchedulePolicy policy;
  const stage::StageOrders orders;
  const int64_t microBatches;
  const LayerNumbers &whole, &layer;
  std::vector<int64_t> halves; // of layers, by virtual stage
  double largest = 1;          // stage, in average ones
};

} // namespace

LayerNumbers numbersOf(const Forecast &forecast) {
  LayerNumbers sum;
  if (forecast.stages.empty()) {
    sum.oncePs = static_cast<double>(forecast.stepPs);
    sum.fixedBytes = static_cast<double>(forecast.leastBytes);
    return sum;
  }
  for (const StageForecast &stage : forecast.stages) {
    sum.forwardPs += static_cast<double>(stage.forwardPs);
    sum.backwardPs += static_cast<double>(stage.backwardPs);
    sum.weightsPs += static_cast<double>(stage.weightsPs);
    sum.oncePs += static_cast<double>(stage.oncePs);
    sum.slotBytes += static_cast<double>(stage.slotBytes - stage.messageBytes);
    sum.fixedBytes += static_cast<double>(stage.fixedBytes);
    sum.receivePs += static_cast<double>(stage.receivePs);
    sum.messageBytes += static_cast<double>(stage.messageBytes);
    sum.onceReceivePs += static_cast<double>(stage.onceReceivePs);
  }
  // The first stage has its backward pass in one program: all others are as the last one.
  if (const StageForecast &last = forecast.stages.back(); last.weightsPs > 0) {
    const double both = sum.backwardPs + sum.weightsPs;
    sum.weightsPs = both * static_cast<double>(last.weightsPs) / static_cast<double>(last.backwardPs + last.weightsPs);
    sum.backwardPs = both - sum.weightsPs;
    sum.slotBytes = static_cast<double>(last.slotBytes - last.messageBytes) * static_cast<double>(forecast.stages.size());
  }
  return sum;
}

ModelNumbers extrapolate(const LayerNumbers &ofFew, int64_t few, const LayerNumbers &ofMore, int64_t more, int64_t layers) {
  ModelNumbers model{ofMore, {}, layers};
  for (double LayerNumbers::*number : {&LayerNumbers::forwardPs, &LayerNumbers::backwardPs, &LayerNumbers::weightsPs, &LayerNumbers::oncePs,
                                       &LayerNumbers::slotBytes, &LayerNumbers::fixedBytes, &LayerNumbers::onceReceivePs}) {
    model.layer.*number = std::max((ofMore.*number - ofFew.*number) / static_cast<double>(more - few), 0.0);
    model.whole.*number += model.layer.*number * static_cast<double>(layers - more);
  }
  return model;
}

std::vector<int64_t> shareHalves(int64_t layers, int64_t parts, double head) {
  std::vector<int64_t> halves(parts, 2 * layers / parts);
  if (parts == 1) {
    return halves;
  }
  double best = std::numeric_limits<double>::infinity();
  int64_t ofLast = 0;
  for (int64_t last = llvm::divideCeil(2 * layers, parts); last >= 0; --last) {
    const auto others = static_cast<double>(llvm::divideCeil(2 * layers - last, parts - 1));
    if (const double longest = std::max(others, static_cast<double>(last) + head); longest < best) {
      best = longest;
      ofLast = last;
    }
  }
  const int64_t rest = 2 * layers - ofLast;
  for (int64_t part = 0; part + 1 < parts; ++part) {
    halves[part] = rest / (parts - 1) + (part < rest % (parts - 1) ? 1 : 0);
  }
  halves.back() = ofLast;
  return halves;
}

Estimate estimateStep(const job::Job &job, const ModelNumbers &model) {
  return job.has_pipeline() ? LayerStages(job.pipeline(), model).estimate()
                            : Estimate{static_cast<int64_t>(model.whole.oncePs), static_cast<uint64_t>(model.whole.fixedBytes)};
}

} // namespace ashlar::planning
