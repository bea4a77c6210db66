// SPDX-License-Identifier: Apache-2.0
//
// An order as a table that does not grow with the number of micro-batches. No IR.

#ifndef ASHLAR_PASSES_STAGE_FOLDED_ORDER_H
#define ASHLAR_PASSES_STAGE_FOLDED_ORDER_H

#include "passes/stage/schedule.h"

namespace ashlar::stage {

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

#endif // ASHLAR_PASSES_STAGE_FOLDED_ORDER_H
