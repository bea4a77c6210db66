// SPDX-License-Identifier: Apache-2.0
//
// Events in the order of their times. An actor goes on until it has to wait, or until it would act on others later than now: then it has
// itself woken at that time. So whatever actors do to each other happens in the order of time.

#include "runtime/timeline/step_player.h"

#include <algorithm>
#include <queue>

namespace ashlar::rt {
namespace {

// A transfer under way: of a group, or the next message of a queue.
struct UnderWay {
  bool isMessage;
  uint32_t target;
};

struct Event {
  enum What : uint8_t { kWake, kEndOfMessage, kEndOfCollective, kEndOnLinks };

  uint64_t atPs, order;
  uint32_t number; // actor, queue, group, or transfer of the links
  What what;
  bool operator<(const Event &other) const { return atPs != other.atPs ? atPs > other.atPs : order > other.order; }
};

class Player : ActorBook {
public:
  Player(const TimedStep &step, const std::vector<Role> &roles, Meetings &meetings, const PlayOptions &options,
         std::vector<ActorTimes> &times)
      : ActorBook(step, times), options(options), loads(options.links), actors(roles.begin(), roles.end()), meetings(meetings) {
    for (MessageQueue &queue : meetings.queues) {
      queue.lastOfSlot.assign(step.slots[roles[queue.sender].stage], 0);
    }
    for (uint32_t i = 0; i < actors.size(); ++i) {
      times[i].runs.reserve(options.steps * runsOf(actors[i]).size());
    }
  }

  void play() {
    for (uint32_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].role.isLost) {
        wakeAt(i, 0);
      }
    }
    for (Event event; takeNext(event);) {
      clock = event.atPs;
      happen(event);
      for (uint32_t transfer : loads.changed()) {
        push(loads.endOf(transfer), transfer, Event::kEndOnLinks);
      }
      loads.clearChanged();
    }
    for (uint32_t i = 0; i < actors.size(); ++i) {
      times[i].isDone = actors[i].phase == Phase::kDone;
      if (!times[i].isDone) {
        noteWait(i);
      }
    }
  }

private:
  // Takes the first event, of equal times the one that was pushed first. Events of the present are pushed at the present, or before.
  bool takeNext(Event &event) {
    if (firstPresent == present.size()) {
      present.clear();
      firstPresent = 0;
    }
    const bool isLater = later.empty() || later.top().atPs > clock;
    if (isLater && firstPresent < present.size()) {
      event = present[firstPresent++];
      return true;
    }
    if (later.empty()) {
      return false;
    }
    event = later.top();
    later.pop();
    return true;
  }

  void happen(const Event &event) {
    switch (event.what) {
    case Event::kWake:
      return resume(event.number);
    case Event::kEndOfMessage:
      return endMessage(meetings.queues[event.number]);
    case Event::kEndOfCollective:
      return endCollective(meetings.groups[event.number]);
    case Event::kEndOnLinks:
      if (underWay[event.number].target != kNone && loads.endOf(event.number) == clock) { // else its end has moved
        endOnLinks(event.number);
      }
    }
  }

  void push(uint64_t atPs, uint32_t number, Event::What what) {
    if (atPs == clock) {
      present.push_back({atPs, 0, number, what});
    } else {
      later.push({atPs, ++order, number, what});
    }
  }
  void wakeAt(uint32_t actor, uint64_t atPs) { push(atPs, actor, Event::kWake); }

  // Has the device wait for another one; a later wakeAt() ends that. Returns false, for the caller to return.
  bool block(Actor &actor, Wait wait, uint32_t blocker) {
    actor.wait = wait;
    actor.sincePs = actor.now;
    actor.blocker = blocker;
    return false;
  }

  // Ends the wait of a device, at the present.
  void release(uint32_t number) {
    account(actors[number], times[number], clock, lastStartPs);
    actors[number].wait = Wait::kNone;
    wakeAt(number, clock);
  }

  // Whether the device is at the present, where nothing happens before it is; else it is woken then.
  bool isPresent(uint32_t number) {
    Actor &actor = actors[number];
    if (firstPresent == present.size() && loads.changed().empty() && (later.empty() || later.top().atPs > actor.now)) {
      clock = std::max(clock, actor.now);
    }
    if (actor.now <= clock) {
      return true;
    }
    wakeAt(number, actor.now);
    return block(actor, Wait::kTime, kNone);
  }

  void resume(uint32_t number) {
    Actor &actor = actors[number];
    account(actor, times[number], clock, lastStartPs);
    actor.now = std::max(actor.now, clock);
    actor.wait = Wait::kNone;
    while (advance(number)) {
    }
  }

  // Does one thing; false where it waits, or is done.
  bool advance(uint32_t number) {
    Actor &actor = actors[number];
    switch (actor.phase) {
    case Phase::kSlots:
      return beginRun(number);
    case Phase::kBatch:
      return takeBatch(number);
    case Phase::kReceives:
      return receive(number);
    case Phase::kItems:
      return runItem(number);
    case Phase::kEnd:
      return endRun(number);
    case Phase::kDone:
      return false;
    }
    return false;
  }

  uint64_t &lastOfSlot(const Actor &actor, MessageQueue &queue) { return queue.lastOfSlot[microBatchOf(actor) % queue.lastOfSlot.size()]; }

  // Waits until all messages were taken that went out of the slot.
  bool beginRun(uint32_t number) {
    Actor &actor = actors[number];
    if (actor.step == options.steps || runsOf(actor).empty()) {
      actor.phase = Phase::kDone;
      times[number].endPs = actor.now;
      return false;
    }
    if (!isPresent(number)) {
      return false;
    }
    actor.stepPs = actor.run == 0 ? actor.now : actor.stepPs;
    actor.receivePs = 0;
    for (const ChannelUse &use : programOf(actor).sends) {
      MessageQueue &queue = meetings.queues[meetings.queue(use.channel, number)];
      if (lastOfSlot(actor, queue) > queue.taken) {
        return block(actor, Wait::kSlot, use.index);
      }
    }
    actor.phase = Phase::kBatch;
    return true;
  }

  bool takeBatch(uint32_t number) {
    Actor &actor = actors[number];
    const uint64_t there = runOf(actor).takes_batch != 0 ? microBatchOf(actor) * options.batchPs : 0;
    actor.phase = Phase::kReceives;
    actor.index = 0;
    if (there > actor.now) {
      wakeAt(number, there);
      return block(actor, Wait::kBatch, kNone);
    }
    return true;
  }

  // Takes the next message, once it was sent.
  bool receive(uint32_t number) {
    Actor &actor = actors[number];
    const std::vector<ChannelUse> &receives = programOf(actor).receives;
    if (actor.index == receives.size()) {
      actor.phase = Phase::kItems;
      actor.index = 0;
      actor.beginPs = actor.now;
      return true;
    }
    const uint32_t queueNumber = meetings.queue(receives[actor.index].channel, number);
    const MessageQueue &queue = meetings.queues[queueNumber];
    if (queue.taken == queue.sent) {
      return block(actor, Wait::kMessage, receives[actor.index].index);
    }
    block(actor, Wait::kReceiving, receives[actor.index].index);
    begin(queue.ps, queue.uses, {/*isMessage=*/true, queueNumber});
    return false;
  }

  void begin(uint64_t ps, const std::vector<LinkUse> &uses, UnderWay what) {
    if (uses.empty()) {
      return push(clock + ps, what.target, what.isMessage ? Event::kEndOfMessage : Event::kEndOfCollective);
    }
    const uint32_t transfer = loads.begin(clock, ps, uses);
    underWay.resize(std::max<size_t>(underWay.size(), transfer + 1), {false, kNone});
    underWay[transfer] = what;
  }

  void endOnLinks(uint32_t transfer) {
    const UnderWay ended = underWay[transfer];
    underWay[transfer].target = kNone;
    loads.end(clock, transfer);
    if (ended.isMessage) {
      endMessage(meetings.queues[ended.target]);
    } else {
      endCollective(meetings.groups[ended.target]);
    }
  }

  void endMessage(MessageQueue &queue) {
    ++queue.taken;
    release(queue.receiver);
    ++actors[queue.receiver].index;
    if (actors[queue.sender].wait == Wait::kSlot) {
      release(queue.sender); // it looks at all of its slots again
    }
  }

  bool runItem(uint32_t number) {
    Actor &actor = actors[number];
    const std::vector<TimedItem> &items = programOf(actor).items;
    if (actor.index == items.size()) {
      actor.phase = Phase::kEnd;
      return true;
    }
    const TimedItem &item = items[actor.index];
    switch (item.kind) {
    case TimedItem::kRepeat:
      actor.loops.push_back({actor.index + 1, actor.index + 1 + item.items, item.count - 1});
      ++actor.index;
      return true;
    case TimedItem::kCompute:
      compute(number, item);
      next(actor);
      return true;
    case TimedItem::kWait:
      return isPresent(number) && await(number, item);
    case TimedItem::kCollective:
      return isPresent(number) && meet(number, item);
    }
    return false;
  }

  // Goes to the next item, around the loops that end here.
  static void next(Actor &actor) {
    ++actor.index;
    while (!actor.loops.empty() && actor.index == actor.loops.back().end) {
      if (actor.loops.back().left-- > 0) {
        actor.index = actor.loops.back().begin;
        return;
      }
      actor.loops.pop_back();
    }
  }

  void compute(uint32_t number, const TimedItem &item) {
    Actor &actor = actors[number];
    if (item.owner != 0 && item.owner != actor.role.device + 1) {
      return;
    }
    const uint64_t ps = scaledTime(item.ps, actor.role.factor);
    if (actor.role.isTraced) {
      recordCompute(actor, times[number], item);
    }
    actor.now += ps;
    times[number].computePs += ps;
  }

  bool await(uint32_t number, const TimedItem &item) {
    Actor &actor = actors[number];
    for (const Started &started : actor.channel) {
      if (programOf(actor).items[started.item].token == item.token) {
        return block(actor, Wait::kToken, started.item);
      }
    }
    next(actor);
    return true;
  }

  // Whether a collective follows those that were started: on links that carry one after the other, and in one group.
  bool waitsForChannel(const Actor &actor, const TimedItem &item) const {
    return !actor.channel.empty() &&
           (item.movesBeside || std::any_of(actor.channel.begin(), actor.channel.end(), [&](const Started &started) {
              return programOf(actor).items[started.item].axisSet == item.axisSet;
            }));
  }

  // Comes to a collective, or starts it beside the computation.
  bool meet(uint32_t number, const TimedItem &item) {
    Actor &actor = actors[number];
    if (item.token == 0 && waitsForChannel(actor, item)) {
      return block(actor, Wait::kChannel, actor.index);
    }
    ++times[number].exposed[{runOf(actor).program, item.begin}].times;
    if (item.token != 0) {
      actor.channel.push_back({actor.index, runOf(actor).program});
      next(actor);
      if (actor.channel.size() == 1) {
        arrive(number, item, /*isBeside=*/true);
      }
      return true;
    }
    block(actor, Wait::kMembers, actor.index);
    arrive(number, item, /*isBeside=*/false);
    return false;
  }

  void arrive(uint32_t number, const TimedItem &item, bool isBeside) {
    const uint32_t groupNumber = meetings.group(item.axisSet, number);
    GroupState &group = meetings.groups[groupNumber];
    group.arrivals.push_back({number, isBeside, clock});
    if (group.arrivals.size() < group.members.size()) {
      return;
    }
    group.startPs = clock;
    begin(item.ps + (item.token != 0 ? options.handOverPs : 0), group.uses, {/*isMessage=*/false, groupNumber});
  }

  void endCollective(GroupState &group) {
    const std::vector<GroupState::Arrival> arrivals = std::move(group.arrivals);
    group.arrivals.clear();
    lastStartPs = group.startPs;
    for (const GroupState::Arrival &arrival : arrivals) {
      if (!arrival.isBeside) {
        release(arrival.actor);
        next(actors[arrival.actor]);
      } else {
        endBeside(arrival.actor, group.startPs);
      }
    }
  }

  // The channel of an actor is free: it goes on with the next collective, and so does a device that waits for this one.
  void endBeside(uint32_t number, uint64_t startPs) {
    Actor &actor = actors[number];
    const Started done = actor.channel.front();
    actor.channel.erase(actor.channel.begin());
    const TimedProgram &program = step.programs[actor.role.stage][done.program];
    record(actor, times[number], SpanKind::kBeside, program.items[done.item].begin, startPs, clock);
    const bool isAwaited =
        (actor.wait == Wait::kToken && actor.blocker == done.item) || (actor.wait == Wait::kChannel && actor.channel.empty());
    if (isAwaited) {
      release(number);
    }
    if (!actor.channel.empty()) {
      arrive(number, program.items[actor.channel.front().item], /*isBeside=*/true);
    }
  }

  // Ends a run once nothing of it is under way: what no instruction has comes last.
  bool endRun(uint32_t number) {
    Actor &actor = actors[number];
    if (actor.index != kNone) {
      if (!isPresent(number)) {
        return false;
      }
      if (!actor.channel.empty()) {
        return block(actor, Wait::kChannel, actor.channel.back().item);
      }
      const uint64_t ps = scaledTime(programOf(actor).otherPs, actor.role.factor);
      actor.now += ps;
      times[number].computePs += ps;
      actor.index = kNone;
    }
    if (!isPresent(number)) {
      return false;
    }
    send(number);
    const ashlar_rt_run &run = runOf(actor);
    times[number].runs.push_back(
        {actor.beginPs, actor.now, run.program, static_cast<uint32_t>(actor.step), run.micro_batch, actor.receivePs});
    record(actor, times[number], SpanKind::kProgram, 0, actor.beginPs, actor.now);
    if (++actor.run == runsOf(actor).size()) {
      --actor.run; // the span is of this step
      record(actor, times[number], SpanKind::kStep, 0, actor.stepPs, actor.now);
      actor.run = 0;
      ++actor.step;
    }
    actor.phase = Phase::kSlots;
    return true;
  }

  void send(uint32_t number) {
    Actor &actor = actors[number];
    for (const ChannelUse &use : programOf(actor).sends) {
      MessageQueue &queue = meetings.queues[meetings.queue(use.channel, number)];
      lastOfSlot(actor, queue) = ++queue.sent;
      record(actor, times[number], SpanKind::kSend, use.index, clock, clock);
      const Actor &receiver = actors[queue.receiver];
      if (receiver.wait == Wait::kMessage && programOf(receiver).receives[receiver.index].channel == use.channel) {
        release(queue.receiver);
      }
    }
  }

  // Notes the thing that an actor waits for without end.
  void noteWait(uint32_t number) {
    const Actor &actor = actors[number];
    Standstill &found = times[number].standstill;
    if (actor.wait == Wait::kNone) {
      return; // it is lost
    }
    found.program = runOf(actor).program;
    if (actor.wait == Wait::kMessage || actor.wait == Wait::kSlot) {
      const bool isMessage = actor.wait == Wait::kMessage;
      const std::vector<ChannelUse> &uses = isMessage ? programOf(actor).receives : programOf(actor).sends;
      const MessageQueue &queue = meetings.queues[meetings.queue(uses[actor.blocker].channel, number)];
      found.kind = isMessage ? Standstill::kMessage : Standstill::kSlot;
      found.index = actor.blocker;
      found.awaits = {isMessage ? queue.sender : queue.receiver};
    } else {
      const uint32_t item = actor.wait == Wait::kMembers ? actor.blocker : actor.channel.front().item;
      const TimedItem &collective = programOf(actor).items[item];
      const GroupState &group = meetings.groups[meetings.group(collective.axisSet, number)];
      found.kind = Standstill::kCollective;
      found.index = collective.begin;
      found.awaits = group.members;
      for (const GroupState::Arrival &arrival : group.arrivals) {
        found.awaits.erase(std::find(found.awaits.begin(), found.awaits.end(), arrival.actor));
      }
    }
  }

  const PlayOptions &options;
  LinkLoads loads;
  std::vector<Actor> actors;
  Meetings &meetings;
  std::vector<UnderWay> underWay; // by transfer of the links
  std::priority_queue<Event> later;
  std::vector<Event> present; // from firstPresent on, in their order
  size_t firstPresent = 0;
  uint64_t clock = 0, order = 0;
  uint64_t lastStartPs = 0; // of the collective that ended last
};

} // namespace

std::vector<ActorTimes> playSteps(const TimedStep &step, const std::vector<Role> &roles, Meetings meetings, const PlayOptions &options) {
  std::vector<ActorTimes> times(roles.size());
  Player(step, roles, meetings, options, times).play();
  return times;
}

} // namespace ashlar::rt
