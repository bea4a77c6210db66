// SPDX-License-Identifier: Apache-2.0
//
// The list scheduler. State: the time of the device, that of the channel, and sets of ops by what keeps them: nothing (`runnable`), a
// collective that is under way (`arriving`), or ops that have not run.

#include "passes/analysis/schedule/overlap_schedule.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

namespace ashlar::analysis {
namespace {

// What may be under way however small the collectives are: their latency is to be hidden, too.
constexpr uint64_t kLeastBytesUnderWay = uint64_t{1} << 20;

// A collective may take longer than its estimate, by this part of it: as long as it has other ops, the device does not turn to what a
// collective brings before that time is over, too.
constexpr int64_t kLatePart = 2;

class Scheduler {
public:
  explicit Scheduler(llvm::ArrayRef<CostedOp> ops)
      : ops(ops), users(ops.size()), missing(ops.size(), 0), arrival(ops.size(), 0), path(ops.size(), 0), phases(ops.size(), kUntouched) {
    schedule.hiddenPs.assign(ops.size(), 0);
    for (auto [number, op] : llvm::enumerate(ops)) {
      missing[number] = op.needs.size();
      llvm::for_each(op.needs, [&, number = number](unsigned need) { users[need].push_back(number); });
      if (op.runsBeside) {
        Queue &queue = queueOf(number);
        queue.mostBytes = std::max(queue.mostBytes, op.holdsOperand ? 2 * op.bytes : op.bytes);
      }
    }
    for (size_t op = ops.size(); op-- > 0;) {
      for (unsigned user : users[op]) {
        path[op] = std::max(path[op], path[user]);
      }
      path[op] += ops[op].timePs;
    }
  }

  OverlapSchedule run() {
    for (unsigned op = 0; op < ops.size(); ++op) {
      if (missing[op] == 0) {
        becomeReady(op);
      }
    }
    while (true) {
      startCollectives();
      if (std::set<unsigned> &first = urgent.empty() ? runnable : urgent; !first.empty()) {
        unsigned op = *first.begin();
        first.erase(first.begin());
        runOp(op);
      } else if (!arriving.empty()) {
        unsigned op = arriving.begin()->second;
        arriving.erase(arriving.begin());
        advance(arrival[op]);
        becomeRunnable(op);
      } else if (gathers.first() != kNone) { // without room
        start(gathers.first());              // the device has nothing to do until it is done, whatever it takes
      } else {
        break;
      }
    }
    while (!underWay.empty()) { // nobody uses these
      wait(*underWay.begin());
    }
    schedule.timePs = std::max(now, channel);
    for (auto [collective, op] : llvm::enumerate(ops)) {
      if (op.runsBeside) {
        schedule.hiddenPs[collective] = busyBefore(arrival[collective]) - busyBefore(arrival[collective] - op.timePs);
      }
    }
    return std::move(schedule);
  }

private:
  static constexpr unsigned kNone = ~0u;

  enum Phase : uint8_t { kUntouched, kStarted, kDone };

  // Orders collectives by the time of what depends on them, longest first.
  struct LongerPath {
    const std::vector<int64_t> &path;
    bool operator()(unsigned a, unsigned b) const { return path[a] != path[b] ? path[a] > path[b] : a < b; }
  };

  // Collectives that can start, and how much of their kind is under way.
  struct Queue {
    explicit Queue(const std::vector<int64_t> &path) : startable(LongerPath{path}) {}

    unsigned first() const { return startable.empty() ? kNone : *startable.begin(); }

    std::set<unsigned, LongerPath> startable;
    uint64_t bytes = 0, mostBytes = kLeastBytesUnderWay;
  };

  // Returns how long the device has run ops up to `time`.
  int64_t busyBefore(int64_t time) const {
    size_t next = llvm::upper_bound(ends, time) - ends.begin(); // the first op that ends later
    int64_t before = next == 0 ? 0 : busy[next - 1];
    int64_t duration = next == ends.size() ? 0 : busy[next] - before;
    return before + (next == ends.size() ? 0 : std::max<int64_t>(0, time - (ends[next] - duration)));
  }

  // Everything that the op needs has run or is under way.
  void becomeReady(unsigned op) {
    int64_t late = 0; // when it has arrived even if what brings it takes longer
    for (unsigned need : ops[op].needs) {
      if (phases[need] == kStarted) {
        arrival[op] = std::max(arrival[op], arrival[need]);
        late = std::max(late, arrival[need] + (ops[op].runsBeside ? 0 : ops[need].timePs / kLatePart));
      }
    }
    if (late > now) {
      arriving.insert({late, op});
    } else {
      becomeRunnable(op);
    }
  }

  void becomeRunnable(unsigned op) {
    if (ops[op].runsBeside) {
      queueOf(op).startable.insert(op);
    } else {
      (isUrgent(op) ? urgent : runnable).insert(op);
    }
  }

  // Whether a collective only waits for this op, which takes no longer and is made of what was computed just now: the padding of a
  // gradient.
  bool isUrgent(unsigned op) const {
    return !ops[op].needs.empty() && llvm::any_of(users[op], [&](unsigned user) {
      return ops[user].runsBeside && missing[user] == 1 && ops[op].timePs <= ops[user].timePs;
    });
  }

  void advance(int64_t time) {
    now = std::max(now, time);
    while (!arriving.empty() && arriving.begin()->first <= now) {
      becomeRunnable(arriving.begin()->second);
      arriving.erase(arriving.begin());
    }
  }

  void announce(unsigned op) {
    for (unsigned user : users[op]) {
      if (--missing[user] == 0) {
        becomeReady(user);
      }
    }
  }

  // Waits for what the op needs and is under way.
  void waitForNeeds(unsigned op) {
    for (unsigned need : ops[op].needs) {
      if (phases[need] == kStarted) {
        wait(need);
      }
    }
  }

  void wait(unsigned collective) {
    schedule.events.push_back({ScheduledEvent::Wait, collective});
    phases[collective] = kDone;
    underWay.erase(llvm::find(underWay, collective));
    queueOf(collective).bytes -= ops[collective].bytes;
    advance(arrival[collective]);
  }

  void runOp(unsigned op) {
    waitForNeeds(op);
    startCollectives(); // for which there is room now
    schedule.events.push_back({ScheduledEvent::Run, op});
    phases[op] = kDone;
    ends.push_back(now + ops[op].timePs);
    busy.push_back((busy.empty() ? 0 : busy.back()) + ops[op].timePs);
    advance(ends.back());
    announce(op);
  }

  void start(unsigned collective) {
    queueOf(collective).startable.erase(collective);
    waitForNeeds(collective);
    schedule.events.push_back({ScheduledEvent::Start, collective});
    phases[collective] = kStarted;
    underWay.push_back(collective);
    queueOf(collective).bytes += ops[collective].bytes;
    channel = std::max(channel, now) + ops[collective].timePs;
    arrival[collective] = channel;
    announce(collective);
  }

  Queue &queueOf(unsigned collective) { return ops[collective].holdsOperand ? holders : gathers; }

  bool hasRoom(unsigned collective) {
    const Queue &queue = queueOf(collective);
    return queue.bytes == 0 || queue.bytes + ops[collective].bytes <= queue.mostBytes;
  }

  // Starts what can start and has room, the longest path first.
  void startCollectives() {
    while (true) {
      unsigned gather = gathers.first(), holder = holders.first();
      bool hasGather = gather != kNone && hasRoom(gather);
      if (hasGather && (holder == kNone || isLonger(gather, holder))) {
        start(gather);
      } else if (holder != kNone) {
        makeRoom(holder);
        start(holder);
      } else {
        return;
      }
    }
  }

  bool isLonger(unsigned a, unsigned b) const { return LongerPath{path}(a, b); }

  // Waits for collectives that hold their operands, the first ones first, until another one has room.
  void makeRoom(unsigned collective) {
    while (!hasRoom(collective)) {
      wait(*llvm::find_if(underWay, [&](unsigned other) { return ops[other].holdsOperand && ops[other].bytes != 0; }));
    }
  }

  llvm::ArrayRef<CostedOp> ops;
  std::vector<llvm::SmallVector<unsigned>> users;
  std::vector<size_t> missing;  // needs that have neither run nor started
  std::vector<int64_t> arrival; // of a collective: when it is done; of another op: when all that it needs is
  std::vector<int64_t> path;    // time of the longest chain of ops that begins with this one
  std::vector<Phase> phases;
  std::set<unsigned> runnable, urgent;             // on the device, in program order
  std::set<std::pair<int64_t, unsigned>> arriving; // by when they become runnable
  Queue gathers{path}, holders{path};              // by whether they hold their operands: neither keeps the other from starting
  std::vector<unsigned> underWay;                  // in the order in which they were started
  int64_t now = 0;
  int64_t channel = 0;             // the end of the last collective
  std::vector<int64_t> ends, busy; // of the ops that the device ran, in order: when each ended, and the time of all up to it
  OverlapSchedule schedule;
};

} // namespace

OverlapSchedule scheduleOverlap(llvm::ArrayRef<CostedOp> ops) {
  return Scheduler(ops).run();
}

} // namespace ashlar::analysis
