// SPDX-License-Identifier: Apache-2.0
//
// Events in the order of their times. An actor, a rank that stands for its class, goes on until it has to wait, or until it would act on
// others later than now: then it has itself woken at that time. So whatever actors do to each other happens in the order of time.

#include "runtime/simulate/simulator.h"

#include "runtime/comm/mesh.h"
#include "runtime/simulate/actors.h"
#include "runtime/simulate/link_loads.h"
#include "runtime/simulate/link_uses.h"
#include "runtime/simulate/meetings.h"

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
  uint64_t atPs, order;
  uint32_t number; // actor, or transfer
  bool isTransfer;
  bool operator<(const Event &other) const { return atPs != other.atPs ? atPs > other.atPs : order > other.order; }
};

class Simulator : ActorBook {
public:
  Simulator(const StepTables &tables, const SimulatedMachine &machine, const SimulationOptions &options, Simulation &result)
      : ActorBook(tables, result), machine(machine), options(options), links(machine, tables, result.ranks), loads(links.count()),
        meetings(tables, result.ranks, links) {
    for (const std::vector<uint32_t> &axes : tables.axisSets) {
      setLinks.push_back(machine.groupLink(axes));
    }
    makeActors();
  }

  Status run() {
    for (uint32_t i = 0; i < actors.size(); ++i) {
      const bool isLost = options.faults.lostRank && result.ranks.ofRank[*options.faults.lostRank] == i;
      if (!isLost) {
        wakeAt(i, 0);
      }
    }
    while (!events.empty()) {
      const Event event = events.top();
      events.pop();
      clock = event.atPs;
      if (!event.isTransfer) {
        resume(event.number);
      } else if (underWay[event.number].target != kNone && loads.endOf(event.number) == clock) {
        endTransfer(event.number);
      }
      for (uint32_t transfer : loads.changed()) {
        push(loads.endOf(transfer), transfer, /*isTransfer=*/true);
      }
      loads.clearChanged();
    }
    return finish();
  }

private:
  void makeActors() {
    result.classes.resize(result.ranks.classes.size());
    for (const RankClasses::Class &each : result.ranks.classes) {
      Actor &actor = actors.emplace_back();
      actor.stage = each.stage;
      actor.device = static_cast<uint32_t>(Mesh(tables.stages[each.stage]).firstDeviceOf(static_cast<int>(each.first)));
      const auto slow = options.faults.slowRanks.find(each.first);
      actor.factor = slow == options.faults.slowRanks.end() ? 1 : slow->second;
    }
    for (uint32_t rank : options.tracedRanks) {
      actors[result.ranks.ofRank[rank]].isTraced = true;
    }
  }

  void push(uint64_t atPs, uint32_t number, bool isTransfer) { events.push({atPs, ++order, number, isTransfer}); }
  void wakeAt(uint32_t actor, uint64_t atPs) { push(atPs, actor, /*isTransfer=*/false); }

  // Has the device wait for another one; a later wakeAt() ends that. Returns false, for the caller to return.
  bool block(Actor &actor, Wait wait, uint32_t blocker) {
    actor.wait = wait;
    actor.sincePs = actor.now;
    actor.blocker = blocker;
    return false;
  }

  // Ends the wait of a device, at the present.
  void release(uint32_t number) {
    account(actors[number], result.classes[number], clock, lastStartPs);
    actors[number].wait = Wait::kNone;
    wakeAt(number, clock);
  }

  // Whether the device is at the present; else it is woken when it is.
  bool isPresent(uint32_t number) {
    Actor &actor = actors[number];
    if (actor.now <= clock) {
      return true;
    }
    wakeAt(number, actor.now);
    return block(actor, Wait::kTime, kNone);
  }

  void resume(uint32_t number) {
    Actor &actor = actors[number];
    account(actor, result.classes[number], clock, lastStartPs);
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
    if (actor.run == options.steps * runsOf(actor).size()) {
      actor.phase = Phase::kDone;
      result.classes[number].endPs = actor.now;
      return false;
    }
    if (!isPresent(number)) {
      return false;
    }
    actor.stepPs = actor.run % runsOf(actor).size() == 0 ? actor.now : actor.stepPs;
    for (const ChannelUse &use : programOf(actor).sends) {
      MessageQueue &queue = meetings.queues[meetings.queueOf[use.channel][number]];
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
    const uint32_t channel = receives[actor.index].channel, queueNumber = meetings.queueOf[channel][number];
    MessageQueue &queue = meetings.queues[queueNumber];
    if (queue.taken == queue.sent) {
      return block(actor, Wait::kMessage, receives[actor.index].index);
    }
    const StageChannel &ends = tables.channels[channel];
    const uint64_t ps = machine.stages.empty() ? 0
                                               : scaledTime(timeOver(machine.stages[ends.to][ends.from], ASHLAR_RT_PERMUTE, 1, ends.bytes),
                                                            options.faults.slowMessages);
    block(actor, Wait::kReceiving, receives[actor.index].index);
    begin(ps, queue.uses, {/*isMessage=*/true, queueNumber});
    return false;
  }

  void begin(uint64_t ps, const std::vector<LinkUse> &uses, UnderWay what) {
    const uint32_t transfer = loads.begin(clock, ps, uses);
    underWay.resize(std::max<size_t>(underWay.size(), transfer + 1), {false, kNone});
    underWay[transfer] = what;
  }

  void endTransfer(uint32_t transfer) {
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
    if (item.owner != 0 && item.owner != actor.device + 1) {
      return;
    }
    const uint64_t ps = scaledTime(item.ps, actor.factor);
    if (actor.isTraced) {
      recordCompute(actor, result.classes[number], item);
    }
    actor.now += ps;
    result.classes[number].computePs += ps;
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
    return !actor.channel.empty() && (setLinks[item.axisSet].moves_beside != 0 ||
                                      std::any_of(actor.channel.begin(), actor.channel.end(), [&](const Started &started) {
                                        return programOf(actor).items[started.item].axisSet == item.axisSet;
                                      }));
  }

  // Comes to a collective, or starts it beside the computation.
  bool meet(uint32_t number, const TimedItem &item) {
    Actor &actor = actors[number];
    if (item.token == 0 && waitsForChannel(actor, item)) {
      return block(actor, Wait::kChannel, actor.index);
    }
    ++result.classes[number].exposed[{runOf(actor).program, item.begin}].times;
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
    GroupState &group = meetings.groups[meetings.groupOf[item.axisSet][number]];
    group.arrivals.push_back({number, isBeside, clock});
    if (group.arrivals.size() < group.members.size()) {
      return;
    }
    group.startPs = clock;
    const Actor &actor = actors[number];
    const ashlar_rt_collective_desc &desc = collectiveOf(tableOf(actor).instrs[item.begin]);
    uint64_t ps = timeOver(setLinks[item.axisSet], desc.kind, desc.messages, desc.bytes_sent);
    for (uint32_t i = 0; i < desc.num_axes && !options.faults.slowAxes.empty(); ++i) {
      const double factor = options.faults.slowAxes[desc.axes[i]];
      if (factor != 1) {
        ps = scaledTime(ps, factor); // a group has the worst of its links
        break;
      }
    }
    begin(ps + (item.token != 0 ? machine.handOverPs : 0), group.uses, {/*isMessage=*/false, meetings.groupOf[item.axisSet][number]});
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
    actor.channel.pop_front();
    const TimedProgram &program = tables.programs[actor.stage][done.program];
    record(actor, result.classes[number], SpanKind::kBeside, program.items[done.item].begin, startPs, clock);
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
      const uint64_t ps = scaledTime(tableOf(actor).other_ps, actor.factor);
      actor.now += ps;
      result.classes[number].computePs += ps;
      actor.index = kNone;
    }
    if (!isPresent(number)) {
      return false;
    }
    send(number);
    const ashlar_rt_run run = runOf(actor);
    result.classes[number].runs.push_back({actor.beginPs, actor.now, run.program, static_cast<uint32_t>(stepOf(actor)), run.micro_batch});
    record(actor, result.classes[number], SpanKind::kProgram, 0, actor.beginPs, actor.now);
    if ((actor.run + 1) % runsOf(actor).size() == 0) {
      record(actor, result.classes[number], SpanKind::kStep, 0, actor.stepPs, actor.now);
    }
    ++actor.run;
    actor.phase = Phase::kSlots;
    return true;
  }

  void send(uint32_t number) {
    Actor &actor = actors[number];
    for (const ChannelUse &use : programOf(actor).sends) {
      MessageQueue &queue = meetings.queues[meetings.queueOf[use.channel][number]];
      lastOfSlot(actor, queue) = ++queue.sent;
      record(actor, result.classes[number], SpanKind::kSend, use.index, clock, clock);
      const Actor &receiver = actors[queue.receiver];
      if (receiver.wait == Wait::kMessage && programOf(receiver).receives[receiver.index].channel == use.channel) {
        release(queue.receiver);
      }
    }
  }

  // Checks that all actors are done; with a lost rank, notes the things that the others wait for.
  Status finish() {
    for (uint32_t i = 0; i < actors.size(); ++i) {
      const Actor &actor = actors[i];
      result.endPs = std::max(result.endPs, actor.now);
      if (actor.phase == Phase::kDone) {
        continue;
      }
      if (!options.faults.lostRank) {
        return internal("the order of stage {} stands still at run {} of {}", actor.stage, actor.run, options.steps * runsOf(actor).size());
      }
      noteWait(i);
    }
    return Status();
  }

  void noteWait(uint32_t number) {
    const Actor &actor = actors[number];
    SimulatedClass &found = result.classes[number];
    const ashlar_rt_program &program = tableOf(actor);
    if (actor.wait == Wait::kMessage || actor.wait == Wait::kSlot) {
      const bool isMessage = actor.wait == Wait::kMessage;
      const ashlar_rt_transfer &transfer = isMessage ? program.receives[actor.blocker] : program.sends[actor.blocker];
      const auto &uses = isMessage ? programOf(actor).receives : programOf(actor).sends;
      const MessageQueue &queue = meetings.queues[meetings.queueOf[uses[actor.blocker].channel][number]];
      found.awaits = {isMessage ? queue.sender : queue.receiver};
      found.standsStill =
          fmt::format("{} {} {} stage {}", isMessage ? "message" : "slot of", tables.stages[actor.stage].tensors[transfer.tensor].name,
                      isMessage ? "from" : "until it is read by", transfer.stage);
    } else if (actor.wait != Wait::kNone) {
      const uint32_t item = actor.wait == Wait::kMembers ? actor.blocker : actor.channel.front().item;
      const TimedItem &collective = programOf(actor).items[item];
      const GroupState &group = meetings.groups[meetings.groupOf[collective.axisSet][number]];
      found.awaits = group.members;
      for (const GroupState::Arrival &arrival : group.arrivals) {
        found.awaits.erase(std::find(found.awaits.begin(), found.awaits.end(), arrival.actor));
      }
      found.standsStill = program.instrs[collective.begin].name;
    }
  }

  const SimulatedMachine &machine;
  const SimulationOptions &options;
  const LinkUses links;
  LinkLoads loads;
  std::vector<ashlar_rt_link> setLinks; // by axis set
  std::vector<Actor> actors;            // by class
  Meetings meetings;
  std::vector<UnderWay> underWay; // by transfer
  std::priority_queue<Event> events;
  uint64_t clock = 0, order = 0;
  uint64_t lastStartPs = 0; // of the collective that ended last
};

} // namespace

uint64_t SimulatedClass::exposedPs() const {
  uint64_t sum = 0;
  for (const auto &[collective, time] : exposed) {
    sum += time.ps;
  }
  return sum;
}

Status simulateSteps(const StepTables &tables, const SimulatedMachine &machine, const SimulationOptions &options, Simulation &result) {
  const uint32_t perStage = static_cast<uint32_t>(Mesh(tables.stages[0]).processes()), ranks = perStage * tables.stages.size();
  std::vector<uint32_t> alone;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (!options.usesSymmetry || options.faults.slowRanks.count(rank) != 0 || options.faults.lostRank == rank) {
      alone.push_back(rank);
    }
  }
  result = Simulation();
  result.ranks = classifyRanks(tables, ranks, machine.ranksPerHost, alone);
  return Simulator(tables, machine, options, result).run();
}

} // namespace ashlar::rt
