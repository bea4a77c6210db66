// SPDX-License-Identifier: Apache-2.0
//
// The cuts of a list of ops into stages, from costs alone. No IR.

#ifndef ASHLAR_PASSES_STAGE_STAGE_BALANCE_H
#define ASHLAR_PASSES_STAGE_STAGE_BALANCE_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace ashlar::stage {

// The list to cut: ops in an order in which none comes before its operands. A place is before the op of its number.
struct CutProblem {
  std::vector<int64_t> timePs;     // by op
  std::vector<int64_t> crossingPs; // by place: transfer time of the values that cross a cut there
  std::vector<bool> isForbidden;   // by place: no cut may stand there
  int64_t stages = 1;
  std::vector<int64_t> least, most; // by cut, of stages - 1: the places that it may stand at; both rise
};

// Returns the places of the cuts, stages - 1 rising ones, with no stage empty; none when there are no such places. They minimize the sum of
// two costs: of each stage the square of its time, in units of an even share, which is least where all are equal; and the transfer time.
// O(stages * places^2).
//
//   ops of 1, 1, 4, 2 ps in 2 stages: the cut stands at 2, or elsewhere when much crosses there
std::vector<int64_t> balanceStages(const CutProblem &problem);

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_STAGE_BALANCE_H
