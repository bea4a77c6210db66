// SPDX-License-Identifier: Apache-2.0
//
// Messages between pipeline stages. A channel goes from each rank of one stage to the rank of equal mesh coordinates of another, and
// carries one tensor, which lies in a slot on both sides. On one host the receiver copies from the sender's slot; between hosts the message
// is sent from there. Neither side waits for the other before it must: the receiver for a message, the sender for a slot that it uses
// again.

#ifndef ASHLAR_RUNTIME_COMM_TRANSFER_H
#define ASHLAR_RUNTIME_COMM_TRANSFER_H

#include "runtime/base/stages.h"
#include "runtime/comm/collective.h"

#include <memory>
#include <utility>
#include <vector>

namespace ashlar::rt {

// Checks that every tensor that a stage sends lies in its slots and is received by one program of the other stage, in slots and of as many
// bytes, and that nothing else is received.
Status checkTransfers(const Stages &stages);

// Returns {stage, channel} of all sends of a variant's programs, sorted: the channels of its processes in the window.
std::vector<std::pair<uint32_t, uint32_t>> sentChannels(const ashlar_rt_variant &variant);

// Returns where a buffer in a slot lies in the arena.
uint64_t offsetInArena(const ashlar_rt_variant &variant, const ashlar_rt_buffer &buffer, uint64_t slot);

// The end of a channel that sends.
class SendingEnd {
public:
  virtual ~SendingEnd() = default;

  // Waits until the other side no longer needs the last message from the slot, if there was one.
  virtual Status reclaim(uint64_t slot) = 0;

  // Offers the content of the slot as the next message. Assumes that the slot was reclaimed since it was offered before.
  virtual Status offer(uint64_t slot) = 0;
};

// The end of a channel that receives.
class ReceivingEnd {
public:
  virtual ~ReceivingEnd() = default;

  // Waits for the next message, the one of that micro-batch since the start, and puts it into the micro-batch's slot.
  virtual Status receive(uint64_t microBatch) = 0;
};

// Lay out one end. `variant` is this rank's, and was checked; referenced objects outlive the end.
std::unique_ptr<SendingEnd> createSendingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant,
                                             const ashlar_rt_transfer &transfer);
std::unique_ptr<ReceivingEnd> createReceivingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant,
                                                 const ashlar_rt_transfer &transfer);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TRANSFER_H
