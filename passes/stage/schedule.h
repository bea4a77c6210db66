// SPDX-License-Identifier: Apache-2.0
//
// The order in which the stages of a pipeline run their phases for the micro-batches of a step, and how it is built. No IR.

#ifndef ASHLAR_PASSES_STAGE_SCHEDULE_H
#define ASHLAR_PASSES_STAGE_SCHEDULE_H

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/stage/stage_enums.h.inc"

namespace ashlar::stage {

// The phases of a micro-batch on a stage, in this order. Weights: the part of the backward pass that no other stage waits for.
enum class StepPhase { Forward, Backward, Weights };

// "forward", "backward", "weights".
llvm::StringRef nameOf(StepPhase phase);

// The number of parts of a model, one after the other: virtual stages. Number chunk * stages + s is a chunk of stage s, so the computation
// goes through all stages as often as there are chunks.
struct Cut {
  int64_t stages = 1;
  int64_t chunks = 1; // of each stage

  int64_t virtualStages() const { return stages * chunks; }
  int64_t stageOf(int64_t virtualStage) const { return virtualStage % stages; }
  int64_t chunkOf(int64_t virtualStage) const { return virtualStage / stages; }
  int64_t virtualStage(int64_t stage, int64_t chunk) const { return chunk * stages + stage; }

  // Returns the text for a chunk of a phase: `phase`, or `phase`_1 for chunk 1 of several.
  std::string programName(llvm::StringRef phase, int64_t chunk) const;
};

// The part of a program of a stage.
struct Part {
  StepPhase phase;
  int64_t chunk = 0;

  bool operator==(const Part &other) const { return phase == other.phase && chunk == other.chunk; }
  bool operator<(const Part &other) const { return std::pair(phase, chunk) < std::pair(other.phase, other.chunk); }
};

// One phase of one chunk for one micro-batch.
struct Action {
  StepPhase phase;
  int64_t microBatch;
  int64_t chunk = 0;

  Part part() const { return {phase, chunk}; }
  bool operator==(const Action &other) const { return part() == other.part() && microBatch == other.microBatch; }
};

// The order of each stage.
using StageOrders = std::vector<std::vector<Action>>;

// The rule of an order: of the phases whose next action a stage can run, the one that comes first here. The actions of a phase come in
// turn: groups of as many micro-batches as there are stages go through one chunk after the other, backward from the last chunk on. Where
// the backward pass is in two phases, stage s leaves the weights of s micro-batches for the end of the step: p micro-batches have values.
struct SchedulePolicy {
  // The bound on micro-batches of all chunks that wait for their gradient on stage s of p: any number, p - s, or the number that p stages
  // need so that each chunk of v follows the one before without a wait, 2 (p - s - 1) + (v - 1) p + 1.
  enum class InFlight { Any, OneWay, RoundTrips };

  std::vector<StepPhase> preference;
  InFlight inFlight;

  // Returns the policy of a schedule.
  static SchedulePolicy get(Schedule schedule);

  // Whether the backward pass is in two phases.
  bool splitsBackward() const { return preference.size() == 3; }
};

// Builds the orders by running the stages on a clock, where forward phases and halves of a backward pass take one unit each. A virtual
// stage passes its forward result to the next one, its backward result to the one before.
StageOrders buildOrders(const SchedulePolicy &policy, const Cut &cut, int64_t microBatches);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_SCHEDULE_H
