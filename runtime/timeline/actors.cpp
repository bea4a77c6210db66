// SPDX-License-Identifier: Apache-2.0
//
// Waits -> sums and spans.

#include "runtime/timeline/actors.h"

#include <algorithm>
#include <cmath>

namespace ashlar::rt {
namespace {

constexpr uint64_t kPsPerNs = 1000;

} // namespace

uint64_t ActorTimes::exposedPs() const {
  uint64_t sum = 0;
  for (const auto &[collective, time] : exposed) {
    sum += time.ps;
  }
  return sum;
}

uint64_t scaledTime(uint64_t ps, double factor) {
  return factor == 1 ? ps : static_cast<uint64_t>(std::llround(static_cast<double>(ps) * factor));
}

void ActorBook::account(Actor &actor, ActorTimes &sums, uint64_t clock, uint64_t startPs) const {
  const uint64_t waited = clock > actor.sincePs ? clock - actor.sincePs : 0;
  switch (actor.wait) {
  case Wait::kNone:
  case Wait::kTime:
    return;
  case Wait::kSlot:
    sums.slotPs += waited;
    return record(actor, sums, SpanKind::kReclaim, actor.blocker, actor.sincePs, clock);
  case Wait::kBatch:
    sums.batchPs += waited;
    return record(actor, sums, SpanKind::kBatch, 0, actor.sincePs, clock);
  case Wait::kMessage:
    sums.messagePs += waited;
    return;
  case Wait::kReceiving:
    sums.receivePs += waited;
    actor.receivePs += waited;
    return record(actor, sums, SpanKind::kReceive, actor.blocker, actor.sincePs, clock);
  case Wait::kMembers:
  case Wait::kToken:
  case Wait::kChannel:
    return expose(actor, sums, clock, startPs);
  }
}

// Adds the time that the device has waited to a collective.
void ActorBook::expose(const Actor &actor, ActorTimes &sums, uint64_t clock, uint64_t startPs) const {
  const std::vector<TimedItem> &items = programOf(actor).items;
  const uint64_t waited = clock > actor.sincePs ? clock - actor.sincePs : 0;
  ExposedTime &time = sums.exposed[{runOf(actor).program, items[actor.blocker].begin}];
  time.ps += waited;
  if (actor.wait != Wait::kChannel && startPs > actor.sincePs) {
    time.membersPs += std::min(startPs - actor.sincePs, waited);
  }
  if (actor.index < items.size()) {
    record(actor, sums, SpanKind::kInstruction, items[actor.index].begin, actor.sincePs, clock);
  }
}

void ActorBook::record(const Actor &actor, ActorTimes &sums, SpanKind kind, uint32_t index, uint64_t beginPs, uint64_t endPs) const {
  if (!actor.role.isTraced) {
    return;
  }
  const ashlar_rt_run &run = runOf(actor);
  sums.spans.push_back({static_cast<int64_t>(beginPs / kPsPerNs), static_cast<int64_t>(endPs / kPsPerNs), static_cast<uint16_t>(kind),
                        static_cast<uint16_t>(run.program), index, static_cast<uint32_t>(actor.step), run.micro_batch});
}

void ActorBook::recordCompute(const Actor &actor, ActorTimes &sums, const TimedItem &item) const {
  const ashlar_rt_instr *instrs = programOf(actor).instrs;
  uint64_t at = actor.now;
  for (uint32_t i = item.begin; instrs != nullptr && i < item.end && instrs[i].kind != ASHLAR_RT_REPEAT; ++i) {
    const uint64_t ps = scaledTime(instrs[i].predicted_ps, actor.role.factor);
    if (ps != 0) {
      record(actor, sums, SpanKind::kInstruction, i, at, at + ps);
    }
    at += ps;
  }
}

} // namespace ashlar::rt
