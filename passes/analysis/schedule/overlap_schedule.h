// SPDX-License-Identifier: Apache-2.0
//
// The order of a program with collectives that overlap computation, from costs alone: no IR. A device computes one op after the other; an
// asynchronous channel carries one collective after the other, in the order in which they are started.

#ifndef ASHLAR_PASSES_ANALYSIS_SCHEDULE_OVERLAP_SCHEDULE_H
#define ASHLAR_PASSES_ANALYSIS_SCHEDULE_OVERLAP_SCHEDULE_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace ashlar::analysis {

// An op of a program, in its order.
struct CostedOp {
  int64_t timePs = 0;
  bool runsBeside = false;           // a collective that the channel carries; else the device is busy with it
  bool holdsOperand = false;         // of a collective: its operands are temporaries, which stay alive until it is done
  uint64_t bytes = 0;                // of a collective: temporaries that are alive while it is under way
  llvm::SmallVector<unsigned> needs; // earlier ops that must be done first, in rising order
};

// The next action of the device: runs an op, starts a collective, or waits for one.
struct ScheduledEvent {
  enum Kind { Run, Start, Wait } kind;
  unsigned op;

  bool operator==(const ScheduledEvent &other) const { return kind == other.kind && op == other.op; }
};

struct OverlapSchedule {
  std::vector<ScheduledEvent> events; // each op once; a collective beside others is started and waited for, in this order
  std::vector<int64_t> hiddenPs;      // by op: of the time that the channel carries a collective, how long the device runs ops
  int64_t timePs = 0;                 // of the whole program
};

// Returns the order with the earliest end that a list scheduler finds: at any time the device runs the first op of the program that can
// run, ahead of others one that a longer collective waits for, and waits when there is none. The ready collective with the longest path
// behind it goes first. Collectives in flight, started and not awaited, are bounded: collectives whose operands exist anyway (gathers of
// parameters) by the largest of them, so that one group is gathered early; collectives that keep their operands alive (sums of gradients)
// by twice the largest, one in transfer and one ready. One of these without room holds the device back, so that values do not pile up. O(n
// log n + needs).
//
//   product 0, collective 1 of it, update 2 with the sum, product 3  ->  run 0, start 1, run 3, wait 1, run 2
OverlapSchedule scheduleOverlap(llvm::ArrayRef<CostedOp> ops);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_SCHEDULE_OVERLAP_SCHEDULE_H
