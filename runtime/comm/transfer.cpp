// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a channel, in the window and between hosts. Both ends count the messages; counter n says that messages 1 .. n are there,
// or were copied. Each counter has one writer.

#include "runtime/comm/transfer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace ashlar::rt {
namespace {

// What is known of a channel from its two sides.
struct Sides {
  const ashlar_rt_tensor *sent = nullptr;
  const ashlar_rt_tensor *received = nullptr;
};

// The sides of all channels, by {from, to, number}.
using Channels = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Sides>;

Status addSide(const Stages &stages, uint32_t stage, const char *program, const ashlar_rt_transfer &transfer, bool isSend,
               Channels &channels) {
  const ashlar_rt_variant &variant = stages[stage];
  const char *verb = isSend ? "sends" : "receives";
  if (transfer.tensor >= variant.num_tensors || transfer.stage >= stages.size() || transfer.stage == stage) {
    return internal("{} of stage {} {} tensor {} of {}, other side stage {} of {}", program, stage, verb, transfer.tensor,
                    variant.num_tensors, transfer.stage, stages.size());
  }
  const ashlar_rt_tensor &tensor = variant.tensors[transfer.tensor];
  if (tensor.buffer.space != ASHLAR_RT_SLOT) {
    return internal("{} of stage {} {} {}, which does not lie in a slot", program, stage, verb, tensor.name);
  }
  const uint32_t from = isSend ? stage : transfer.stage, to = isSend ? transfer.stage : stage;
  Sides &sides = channels[{from, to, transfer.channel}];
  const ashlar_rt_tensor *&side = isSend ? sides.sent : sides.received;
  if (side != nullptr) {
    return internal("{} of stage {} {} {} on channel {} from stage {} to {}, which has {} already", program, stage, verb, tensor.name,
                    transfer.channel, from, to, side->name);
  }
  side = &tensor;
  return Status();
}

int peerOf(const CollectiveContext &context, const ashlar_rt_transfer &transfer) {
  const Mesh &mesh = *context.mesh;
  return static_cast<int>(transfer.stage) * mesh.processes() + context.place->rank - mesh.firstRank();
}

bool sharesHost(const Place &place, int peer) {
  return place.hostOfProcess[static_cast<size_t>(peer)] == place.hostOfProcess[static_cast<size_t>(place.rank)];
}

// Finds the counters of what `variant`, which `process` of the host runs, sends to `stage`.
WindowChannel &findChannel(const CollectiveContext &context, const ashlar_rt_variant &variant, int process, uint32_t stage,
                           uint32_t channel) {
  const std::vector<std::pair<uint32_t, uint32_t>> sent = sentChannels(variant);
  const auto found = std::lower_bound(sent.begin(), sent.end(), std::pair<uint32_t, uint32_t>(stage, channel));
  return context.window->channel(process, static_cast<int>(found - sent.begin()));
}

class WindowSendingEnd final : public SendingEnd {
public:
  WindowSendingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer)
      : waiter(context.waiter), peer(context.place->indexOnHost(peerOf(context, transfer))),
        channel(findChannel(context, variant, context.place->indexOnHost(context.place->rank), transfer.stage, transfer.channel)),
        last(slotsOf(variant), 0) {}

  Status reclaim(uint64_t slot) override { return waiter.wait(channel.received.count, last[slot], peer); }

  Status offer(uint64_t slot) override {
    last[slot] = ++messages;
    channel.sent.count.store(messages, std::memory_order_release);
    return Status();
  }

private:
  Waiter waiter;
  int peer; // counted on the host
  WindowChannel &channel;
  uint64_t messages = 0;
  std::vector<uint64_t> last; // by slot: the last message that was offered there
};

class WindowReceivingEnd final : public ReceivingEnd {
public:
  WindowReceivingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer)
      : waiter(context.waiter), pool(context.pool), peer(context.place->indexOnHost(peerOf(context, transfer))),
        channel(findChannel(context, Stages(variant)[transfer.stage], peer, variant.stage, transfer.channel)) {
    const ashlar_rt_variant &other = Stages(variant)[transfer.stage];
    const ashlar_rt_buffer &target = variant.tensors[transfer.tensor].buffer;
    bytes = target.bytes;
    for (uint64_t slot = 0; slot < slotsOf(variant); ++slot) {
      targets.push_back(context.window->arena(context.place->indexOnHost(context.place->rank), /*device=*/0) +
                        offsetInArena(variant, target, slot));
    }
    for (uint64_t slot = 0; slot < slotsOf(other); ++slot) {
      sources.push_back(context.window->arena(peer, /*device=*/0) + offsetInArena(other, findSource(other, variant, transfer), slot));
    }
  }

  Status receive(uint64_t microBatch) override {
    ASHLAR_RETURN_IF_ERROR(waiter.wait(channel.sent.count, ++messages, peer));
    Copy copy{sources[microBatch % sources.size()], targets[microBatch % targets.size()], bytes};
    if (pool != nullptr) {
      pool->parallelFor(static_cast<int64_t>((bytes + 63) / 64), ThreadPool::kCopyBytes / 64, copyLines, &copy);
    } else {
      copyLines(&copy, /*begin=*/0, static_cast<int64_t>((bytes + 63) / 64));
    }
    channel.received.count.store(messages, std::memory_order_release);
    return Status();
  }

private:
  struct Copy {
    const char *source;
    char *target;
    uint64_t bytes;
  };

  static void copyLines(void *context, int64_t begin, int64_t end) {
    const Copy &copy = *static_cast<const Copy *>(context);
    const uint64_t from = static_cast<uint64_t>(begin) * 64, until = std::min(static_cast<uint64_t>(end) * 64, copy.bytes);
    std::memcpy(copy.target + from, copy.source + from, until - from);
  }

  // The buffer of `other` that is sent on the channel.
  static const ashlar_rt_buffer &findSource(const ashlar_rt_variant &other, const ashlar_rt_variant &variant,
                                            const ashlar_rt_transfer &transfer) {
    uint32_t tensor = 0;
    for (uint32_t p = 0; p < other.num_programs; ++p) {
      for (uint32_t i = 0; i < other.programs[p].num_sends; ++i) {
        const ashlar_rt_transfer &sent = other.programs[p].sends[i];
        tensor = sent.stage == variant.stage && sent.channel == transfer.channel ? sent.tensor : tensor;
      }
    }
    return other.tensors[tensor].buffer;
  }

  Waiter waiter;
  ThreadPool *pool;
  int peer; // counted on the host
  WindowChannel &channel;
  uint64_t bytes = 0;
  std::vector<char *> targets;       // by slot of this side
  std::vector<const char *> sources; // by slot of the other side
  uint64_t messages = 0;
};

// What both ends between hosts have: a stream, and a place a slot.
class HostsEnd {
public:
  HostsEnd(const CollectiveContext &context, const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer)
      : waiter(context.waiter), transport(*context.transport), peer(peerOf(context, transfer)),
        stream(transport.stream(peer, kFirstChannel + static_cast<int>(transfer.channel))) {
    const ashlar_rt_buffer &buffer = variant.tensors[transfer.tensor].buffer;
    char *arena = context.window->arena(context.place->indexOnHost(context.place->rank), /*device=*/0);
    for (uint64_t slot = 0; slot < slotsOf(variant); ++slot) {
      slots.push_back(Part{arena + offsetInArena(variant, buffer, slot), buffer.bytes});
    }
  }

  // Waits for what `wait` waits for, and lets the others know for whom.
  template <typename Wait> Status waitFor(Wait &&wait) {
    waiter.noteWait(peer);
    Status status = wait();
    waiter.noteWaitEnd(status);
    return status;
  }

  Waiter waiter;
  Transport &transport;
  int peer; // rank
  size_t stream;
  std::vector<Part> slots;
};

class HostsSendingEnd final : public SendingEnd {
public:
  HostsSendingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer)
      : end(context, variant, transfer), last(end.slots.size(), 0) {}

  Status reclaim(uint64_t slot) override {
    return end.waitFor([&] { return end.transport.waitSent(end.stream, last[slot]); });
  }
  Status offer(uint64_t slot) override {
    last[slot] = end.transport.send(end.stream, end.slots[slot]);
    return Status();
  }

private:
  HostsEnd end;
  std::vector<uint64_t> last; // by slot: the number of the last message that was sent from there
};

class HostsReceivingEnd final : public ReceivingEnd {
public:
  HostsReceivingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer)
      : end(context, variant, transfer) {}

  Status receive(uint64_t microBatch) override {
    const uint64_t number = end.transport.receive(end.stream, end.slots[microBatch % end.slots.size()]);
    return end.waitFor([&] { return end.transport.waitReceived(end.stream, number); });
  }

private:
  HostsEnd end;
};

} // namespace

Status checkTransfers(const Stages &stages) {
  Channels channels;
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    std::map<uint32_t, uint32_t> programOf; // by tensor: a program reclaims what it sends itself, no more
    for (uint32_t p = 0; p < stages[stage].num_programs; ++p) {
      const ashlar_rt_program &program = stages[stage].programs[p];
      for (uint32_t i = 0; i < program.num_receives + program.num_sends; ++i) {
        const bool isSend = i >= program.num_receives;
        const ashlar_rt_transfer &transfer = isSend ? program.sends[i - program.num_receives] : program.receives[i];
        ASHLAR_RETURN_IF_ERROR(addSide(stages, stage, program.name, transfer, isSend, channels));
        if (const uint32_t first = programOf.emplace(transfer.tensor, p).first->second; first != p) {
          return internal("{} of stage {} is sent or received by two programs, {} and {}", stages[stage].tensors[transfer.tensor].name,
                          stage, stages[stage].programs[first].name, program.name);
        }
      }
    }
  }
  for (const auto &[key, sides] : channels) {
    const auto [from, to, number] = key;
    if (sides.sent == nullptr || sides.received == nullptr) {
      return internal("channel {} from stage {} to {}: {} is {}", number, from, to, (sides.sent ? sides.sent : sides.received)->name,
                      sides.sent == nullptr ? "received but not sent" : "sent but not received");
    }
    if (sides.sent->buffer.bytes != sides.received->buffer.bytes) {
      return internal("channel {} from stage {} to {}: {} has {} bytes where it is sent and {} where it is received", number, from, to,
                      sides.sent->name, sides.sent->buffer.bytes, sides.received->buffer.bytes);
    }
  }
  return Status();
}

std::vector<std::pair<uint32_t, uint32_t>> sentChannels(const ashlar_rt_variant &variant) {
  std::vector<std::pair<uint32_t, uint32_t>> sent;
  for (uint32_t p = 0; p < variant.num_programs; ++p) {
    for (uint32_t i = 0; i < variant.programs[p].num_sends; ++i) {
      sent.emplace_back(variant.programs[p].sends[i].stage, variant.programs[p].sends[i].channel);
    }
  }
  std::sort(sent.begin(), sent.end());
  return sent;
}

uint64_t offsetInArena(const ashlar_rt_variant &variant, const ashlar_rt_buffer &buffer, uint64_t slot) {
  return buffer.offset + (buffer.space == ASHLAR_RT_SLOT ? variant.slots_offset + slot * variant.slot_bytes : 0);
}

std::unique_ptr<SendingEnd> createSendingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant,
                                             const ashlar_rt_transfer &transfer) {
  if (sharesHost(*context.place, peerOf(context, transfer))) {
    return std::make_unique<WindowSendingEnd>(context, variant, transfer);
  }
  return std::make_unique<HostsSendingEnd>(context, variant, transfer);
}

std::unique_ptr<ReceivingEnd> createReceivingEnd(const CollectiveContext &context, const ashlar_rt_variant &variant,
                                                 const ashlar_rt_transfer &transfer) {
  if (sharesHost(*context.place, peerOf(context, transfer))) {
    return std::make_unique<WindowReceivingEnd>(context, variant, transfer);
  }
  return std::make_unique<HostsReceivingEnd>(context, variant, transfer);
}

} // namespace ashlar::rt
