// SPDX-License-Identifier: Apache-2.0
//
// The order in which the stages of a pipeline run their phases for the micro-batches of a step: how it is built, that it cannot deadlock,
// and how it is written down in a table that does not grow with the number of micro-batches. No IR.

#ifndef ASHLAR_PASSES_STAGE_SCHEDULE_H
#define ASHLAR_PASSES_STAGE_SCHEDULE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::stage {

// What a stage does with a micro-batch, in this order. Weights: the part of the backward pass that no other stage waits for.
enum class StepPhase { Forward, Backward, Weights };

// "forward", "backward", "weights": also what programs are called.
llvm::StringRef nameOf(StepPhase phase);

// One phase for one micro-batch.
struct Action {
  StepPhase phase;
  int64_t microBatch;

  bool operator==(const Action &other) const { return phase == other.phase && microBatch == other.microBatch; }
};

// The order of each stage.
using StageOrders = std::vector<std::vector<Action>>;

// What decides about an order: of the phases that a stage can run, the one that comes first here, of the lowest micro-batch.
struct SchedulePolicy {
  std::vector<StepPhase> preference;
  bool boundsMemory; // on stage s of p no more than p - s micro-batches wait for their gradient; else any number

  // Returns the policy of a schedule by its name in jobs, "GPIPE"; nothing for an unknown one.
  static std::optional<SchedulePolicy> find(llvm::StringRef name);

  // Whether the backward pass is in two phases.
  bool splitsBackward() const { return preference.size() == 3; }
};

// Builds the orders by running the stages on a clock, where forward phases and halves of a backward pass take one unit each. A stage passes
// its forward result to the next stage, its backward result to the one before.
StageOrders buildOrders(const SchedulePolicy &policy, int64_t stages, int64_t microBatches);

// That `phase` of `stage` takes what `producer` of `from` made of the same micro-batch.
struct Dependence {
  int64_t from;
  StepPhase producer;
  int64_t stage;
  StepPhase phase;
};

// Returns how many slots a stage needs: the first action of micro-batch k + slots comes after the last one of k.
int64_t slotsOf(llvm::ArrayRef<Action> order);

// Runs the orders as the program will: an action begins when what it takes has been made, and, as the first one of its slot, when what
// others take of that slot's micro-batch before has been taken. Returns "" when all end, else the cycle of those that wait for each other:
// "stage 0 at backward of micro-batch 0 waits for stage 1 at forward of micro-batch 1, which is at ...".
std::string findDeadlock(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, llvm::ArrayRef<int64_t> slots);

// Returns the slots of each stage: as few as it needs, and more where stages would wait for each other's. `deadlock` is the cycle of orders
// that do not end with any number, else "".
std::vector<int64_t> chooseSlots(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, std::string &deadlock);

// Runs of actions [begin, end) of a list, done `count` times, the micro-batches larger by `stride` each time.
struct Repetition {
  int64_t begin, end, count, stride;

  bool operator==(const Repetition &other) const {
    return begin == other.begin && end == other.end && count == other.count && stride == other.stride;
  }
};

// An order with its repetitions folded: the blocks one after the other.
struct FoldedOrder {
  std::vector<Action> actions;
  std::vector<Repetition> blocks;
};

FoldedOrder fold(llvm::ArrayRef<Action> order);
std::vector<Action> unfold(const FoldedOrder &order);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_SCHEDULE_H
