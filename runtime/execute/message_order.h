// SPDX-License-Identifier: Apache-2.0
//
// The order in which the stages of a pipeline put runs and messages on their devices, where a message occupies both sides until it is done:
// NCCL's sends and receives, unlike the counters of a window. Every rank computes the same order of all runs and messages of a step, from
// the tables of all stages, and puts its own part on its device in that order. Pure arithmetic: no device, no library.
//
// The constraints: the runs of a stage are in its order; a run comes before its sends, and after its receives; earlier runs on the target
// bytes of a message come before the message; a message comes before its sender's next run on its slot. A linear order exists whenever the
// stages would end without a bound on time: the one in which the compiler saw them end (passes/stage/schedule.h) is one.

#ifndef ASHLAR_RUNTIME_EXECUTE_MESSAGE_ORDER_H
#define ASHLAR_RUNTIME_EXECUTE_MESSAGE_ORDER_H

#include "runtime/base/stages.h"

#include <vector>

namespace ashlar::rt {

// One end of a message.
struct MessageEnd {
  uint32_t program; // index into the variant's programs
  bool isSend;
  uint32_t transfer;   // index into the program's sends, or its receives
  uint32_t microBatch; // of the step: the one of the run that it belongs to
  // Of a receive: the bytes in the slot are free no sooner than the run is due, so that the message would never go beside computation. It
  // is put aside, and copied to its slot when the run begins. The same for all messages of a channel.
  bool isAside = false;
  uint64_t number = 0; // the place of the message among all runs and messages of the step, the same on both sides
};

// A run of a step, and the ends that a rank puts on its device before it; for the last run, also after it.
struct IssuedRun {
  uint32_t program, microBatch;
  std::vector<MessageEnd> before, after;
};

// Whether a program reads or writes bytes of a tensor that lies in a slot.
bool touches(const ashlar_rt_program &program, const ashlar_rt_tensor &tensor);

// Returns the programs whose runs on a slot come before a message into the slot: the one that receives it, and those that read or write
// its bytes. Ascending indices into the variant's programs.
std::vector<uint32_t> usersOfReceived(const ashlar_rt_variant &variant, uint32_t receiver, const ashlar_rt_transfer &receive);

// Returns the step of one stage: runs[s] are the runs of stage s in it, in its order, where it counts micro-batches from 0 on. Assumes
// checkTransfers(). Fails when the sides of a channel run another number of times, or the stages would wait for each other. Linear in the
// number of runs and messages of all stages, up to a logarithm.
Status orderMessages(const Stages &stages, const std::vector<std::vector<ashlar_rt_run>> &runs, uint32_t stage,
                     std::vector<IssuedRun> &order);

// Returns the runs of each stage in a training step of so many micro-batches; nothing where a variant has no order.
Status runsOfStep(const Stages &stages, uint64_t microBatches, std::vector<std::vector<ashlar_rt_run>> &runs);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_MESSAGE_ORDER_H
