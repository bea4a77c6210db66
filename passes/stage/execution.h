// SPDX-License-Identifier: Apache-2.0
//
// That the orders of stages end, and with how many slots. No IR.

#ifndef ASHLAR_PASSES_STAGE_EXECUTION_H
#define ASHLAR_PASSES_STAGE_EXECUTION_H

#include "passes/stage/schedule.h"

#include <tuple>

namespace ashlar::stage {

// A dependence: a program of `stage` takes a result of a program of `from` on the same micro-batch; the stages may be one.
struct Dependence {
  int64_t from;
  Part producer;
  int64_t stage;
  Part part;

  bool operator<(const Dependence &other) const {
    return std::tie(from, producer, stage, part) < std::tie(other.from, other.producer, other.stage, other.part);
  }
};

// Returns how many slots a stage needs: the first action of micro-batch k + slots comes after the last one of k.
int64_t slotsOf(llvm::ArrayRef<Action> order);

// Simulates the orders: an action begins when its inputs have been made, and, as the first one of its slot, when the slot's previous
// micro-batch has been consumed. Returns "" when all end, else the cycle of waiting actions: "stage 0 at backward of micro-batch 0 waits
// for stage 1 at forward of micro-batch 1, which is at ...".
std::string findDeadlock(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, llvm::ArrayRef<int64_t> slots);

// Returns the slots of each stage: as few as it needs, and more where stages would wait for each other's. `deadlock` is the cycle of orders
// that do not end with any number, else "".
std::vector<int64_t> chooseSlots(const StageOrders &orders, llvm::ArrayRef<Dependence> dependences, std::string &deadlock);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_EXECUTION_H
