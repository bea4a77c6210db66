// SPDX-License-Identifier: Apache-2.0
//
// Collectives between hosts, by messages of bounded size. A group's processes stand in a ring of P; in step s = 1 .. P-1 each sends to the
// process s places after it and receives from the one s places before. A reduction first brings all contributions to a range to the
// process that owns it, which combines them in the same fixed tree as within a host.

#include "runtime/comm/collective.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// Bounds on one message and on the staged contributions of one round.
constexpr size_t kMessageBytes = size_t{4} << 20;
constexpr size_t kStagedBytes = size_t{16} << 20;
constexpr size_t kLeastChunk = size_t{64} << 10;

// Returns the bytes of one message when `shares` of them share the budget and none is longer than `most`: a multiple of 64.
size_t chunkBytes(size_t budget, size_t shares, size_t most) {
  size_t chunk = std::clamp(budget / std::max<size_t>(1, shares) / 64 * 64, kLeastChunk, kMessageBytes);
  return std::min(chunk, (most + 63) / 64 * 64 + 64);
}

// A view somewhere in this process' memory.
struct Piece {
  char *base;
  View view;
};

// One group as seen from this process.
struct Ring {
  std::vector<int> processes;            // ranks in ring order
  std::vector<std::vector<int>> members; // coordinates played by each of them
  size_t self = 0;                       // place of this process in the ring

  size_t size() const { return processes.size(); }
  size_t after(size_t step) const { return (self + step) % size(); }
  size_t before(size_t step) const { return (self + size() - step) % size(); }
};

Ring makeRing(const CollectiveContext &context, const Group &group) {
  Ring ring;
  for (int member = 0; member < static_cast<int>(group.size()); ++member) {
    int process = context.mesh->processOf(group[static_cast<size_t>(member)]);
    auto at = std::find(ring.processes.begin(), ring.processes.end(), process);
    size_t index = static_cast<size_t>(at - ring.processes.begin());
    if (at == ring.processes.end()) {
      ring.processes.push_back(process);
      ring.members.emplace_back();
    }
    ring.members[index].push_back(member);
    if (process == context.place->rank) {
      ring.self = index;
    }
  }
  return ring;
}

// The part that both forms share: lists of messages that are given room at the start and refilled at every step.
class Exchange {
public:
  Exchange(const CollectiveContext &context, size_t messages, size_t stagedBytes)
      : transport(context.transport), waiter(context.waiter), staging(stagedBytes) {
    sends.reserve(messages);
    receives.reserve(messages);
  }

  void begin() {
    sends.clear();
    receives.clear();
    used = 0;
  }

  // Sends the bytes [begin, end) of a piece; strided ones are packed.
  void send(const Piece &piece, size_t begin, size_t end) {
    if (piece.view.dense()) {
      sends.push_back(Part{piece.base + piece.view.offset + begin, end - begin});
      return;
    }
    char *packed = take(end - begin);
    View run{0, piece.view.bytes(), piece.view.bytes(), 1};
    copyView(piece.base, piece.view, packed - begin, run, begin, end);
    sends.push_back(Part{packed, end - begin});
  }

  // Receives into a dense place.
  void receive(char *data, size_t bytes) { receives.push_back(Part{data, bytes}); }

  // Room for a received message that is unpacked later.
  char *take(size_t bytes) {
    char *result = staging.data() + used;
    used += bytes;
    return result;
  }

  Status run(int to, int from) {
    waiter.noteWait(from);
    Status status = transport->exchange(to, sends.data(), sends.size(), from, receives.data(), receives.size());
    waiter.noteWait(-1);
    return status;
  }

private:
  Transport *transport;
  Waiter waiter;
  std::vector<Part> sends;
  std::vector<Part> receives;
  std::vector<char> staging;
  size_t used = 0;
};

// A moving collective of one group. All its movements have the same size.
class MovementRing {
public:
  MovementRing(const CollectiveContext &context, const CollectiveShape &shape, const Group &group, uint64_t inOffset, uint64_t outOffset)
      : ring(makeRing(context, group)), step(chunkBytes(kMessageBytes, messages(context), shape.inBytes())),
        exchange(context, messages(context), 2 * messages(context) * step), outgoing(ring.size()), incoming(ring.size()) {
    unpack.reserve(messages(context));
    int self = context.place->indexOnHost(context.place->rank);
    auto arena = [&](int member) {
      return context.window->arena(self, group[static_cast<size_t>(member)] % context.mesh->devicesPerProcess());
    };
    for (size_t other = 0; other < ring.size(); ++other) {
      for (int mine : ring.members[ring.self]) {
        for (int theirs : ring.members[other]) {
          Movement movement;
          if (shape.movement(mine, theirs, movement)) {
            outgoing[other].push_back(Piece{arena(mine) + inOffset, movement.from});
            bytes = movement.from.bytes();
          }
        }
      }
      for (int theirs : ring.members[other]) {
        for (int mine : ring.members[ring.self]) {
          Movement movement;
          if (shape.movement(theirs, mine, movement)) {
            incoming[other].push_back(Piece{arena(mine) + outOffset, movement.to});
            bytes = movement.from.bytes();
          }
        }
      }
    }
    // The sender lists by (source, target), so must the receiver: within one process both loops run in that order.
    for (int mine : ring.members[ring.self]) {
      if (shape.receivesNothing(mine)) {
        zeros.push_back(Part{arena(mine) + outOffset, shape.outBytes()});
      }
    }
  }

  Status run() {
    for (size_t begin = 0; begin < bytes; begin += step) {
      size_t end = std::min(bytes, begin + step);
      for (size_t s = 1; s < ring.size(); ++s) {
        ASHLAR_RETURN_IF_ERROR(runStep(s, begin, end));
      }
    }
    for (size_t i = 0; i < outgoing[ring.self].size(); ++i) {
      const Piece &from = outgoing[ring.self][i];
      const Piece &to = incoming[ring.self][i];
      copyView(from.base, from.view, to.base, to.view, 0, bytes);
    }
    for (const Part &part : zeros) {
      std::memset(part.data, 0, part.bytes);
    }
    return Status();
  }

private:
  static size_t messages(const CollectiveContext &context) {
    size_t devices = static_cast<size_t>(context.mesh->devicesPerProcess());
    return devices * devices;
  }

  Status runStep(size_t s, size_t begin, size_t end) {
    size_t to = ring.after(s);
    size_t from = ring.before(s);
    exchange.begin();
    for (const Piece &piece : outgoing[to]) {
      exchange.send(piece, begin, end);
    }
    unpack.clear();
    for (const Piece &piece : incoming[from]) {
      char *place = piece.view.dense() ? piece.base + piece.view.offset + begin : exchange.take(end - begin);
      unpack.push_back(place);
      exchange.receive(place, end - begin);
    }
    ASHLAR_RETURN_IF_ERROR(exchange.run(ring.processes[to], ring.processes[from]));
    for (size_t i = 0; i < incoming[from].size(); ++i) {
      const Piece &piece = incoming[from][i];
      if (!piece.view.dense()) {
        View run{0, piece.view.bytes(), piece.view.bytes(), 1};
        copyView(unpack[i] - begin, run, piece.base, piece.view, begin, end);
      }
    }
    return Status();
  }

  Ring ring;
  size_t step;
  Exchange exchange;
  size_t bytes = 0;
  std::vector<std::vector<Piece>> outgoing; // by place in the ring
  std::vector<std::vector<Piece>> incoming;
  std::vector<char *> unpack;
  std::vector<Part> zeros;
};

// A reducing collective of one group. Work is cut into *targets*, each owned by one process: the members' pieces of a reduce-scatter, or
// one slice a process of an all-reduce, whose owner then hands the result to everybody.
class ReductionRing {
public:
  ReductionRing(const CollectiveContext &context, const Reducer &reducer, const CollectiveShape &shape, const Group &group, bool scatters,
                uint64_t inOffset, uint64_t outOffset)
      : ring(makeRing(context, group)), reducer(reducer), members(group.size()), scatters(scatters),
        owned(scatters ? static_cast<size_t>(context.mesh->devicesPerProcess()) : 1), bytes(shape.reducedView(0).bytes()),
        step(chunkBytes(kStagedBytes, members * owned, bytes)), exchange(context, members * owned, ownMembers() * owned * step),
        contributions(owned * members * step) {
    int self = context.place->indexOnHost(context.place->rank);
    for (int mine : ring.members[ring.self]) {
      char *arena = context.window->arena(self, group[static_cast<size_t>(mine)] % context.mesh->devicesPerProcess());
      inputs.push_back(arena + inOffset);
      outputs.push_back(arena + outOffset);
    }
    for (size_t member = 0; member < members; ++member) {
      views.push_back(shape.reducedView(static_cast<int>(member)));
      pointers.push_back(nullptr);
    }
  }

  Status run() {
    size_t round = scatters ? step : step * ring.size();
    for (size_t begin = 0; begin < bytes; begin += round) {
      size_t end = std::min(bytes, begin + round);
      ASHLAR_RETURN_IF_ERROR(collect(begin, end));
      combine(begin, end);
      if (!scatters) {
        ASHLAR_RETURN_IF_ERROR(distribute(begin, end));
      }
    }
    return Status();
  }

private:
  struct Range {
    size_t begin;
    size_t end;
    size_t size() const { return end - begin; }
  };

  size_t ownMembers() const { return ring.members[ring.self].size(); }

  // Number of targets that a process of the ring owns.
  size_t targetsOf(size_t process) const { return scatters ? ring.members[process].size() : 1; }

  // The view of the inputs that target `index` of a process covers.
  const View &viewOf(size_t process, size_t index) const {
    return scatters ? views[static_cast<size_t>(ring.members[process][index])] : views[0];
  }

  // The bytes of its targets that a process reduces in the round [begin, end).
  Range rangeOf(size_t process, size_t begin, size_t end) const {
    if (scatters) {
      return Range{begin, end};
    }
    size_t lines = (end - begin + 63) / 64;
    auto cut = [&](size_t index) { return std::min(begin + lines * index / ring.size() * 64, end); };
    return Range{cut(process), cut(process + 1)};
  }

  char *contribution(size_t target, size_t member) { return contributions.data() + (target * members + member) * step; }

  // Brings the contributions of all members to this process' targets into staging.
  Status collect(size_t begin, size_t end) {
    Range mine = rangeOf(ring.self, begin, end);
    for (size_t s = 1; s < ring.size(); ++s) {
      size_t to = ring.after(s);
      size_t from = ring.before(s);
      Range theirs = rangeOf(to, begin, end);
      exchange.begin();
      for (size_t target = 0; target < targetsOf(to); ++target) {
        for (char *input : inputs) {
          exchange.send(Piece{input, viewOf(to, target)}, theirs.begin, theirs.end);
        }
      }
      for (size_t target = 0; target < targetsOf(ring.self); ++target) {
        for (int member : ring.members[from]) {
          exchange.receive(contribution(target, static_cast<size_t>(member)), mine.size());
        }
      }
      ASHLAR_RETURN_IF_ERROR(exchange.run(ring.processes[to], ring.processes[from]));
    }
    for (size_t target = 0; target < targetsOf(ring.self); ++target) {
      const View &view = viewOf(ring.self, target);
      View run{0, view.bytes(), view.bytes(), 1};
      for (size_t i = 0; i < inputs.size(); ++i) {
        char *place = contribution(target, static_cast<size_t>(ring.members[ring.self][i]));
        copyView(inputs[i], view, place - mine.begin, run, mine.begin, mine.end);
      }
    }
    return Status();
  }

  // Reduces this process' targets into its own outputs.
  void combine(size_t begin, size_t end) {
    Range mine = rangeOf(ring.self, begin, end);
    for (size_t target = 0; target < targetsOf(ring.self); ++target) {
      for (size_t member = 0; member < members; ++member) {
        pointers[member] = contribution(target, member);
      }
      char **first = outputs.data() + (scatters ? target : 0);
      reducer.run(pointers.data(), members, 0, first, scatters ? 1 : outputs.size(), mine.begin, mine.size());
    }
  }

  // Hands the reduced slice of every process to all the others.
  Status distribute(size_t begin, size_t end) {
    Range mine = rangeOf(ring.self, begin, end);
    for (size_t s = 1; s < ring.size(); ++s) {
      size_t to = ring.after(s);
      size_t from = ring.before(s);
      Range theirs = rangeOf(from, begin, end);
      exchange.begin();
      exchange.send(Piece{outputs[0], View{0, bytes, bytes, 1}}, mine.begin, mine.end);
      exchange.receive(outputs[0] + theirs.begin, theirs.size());
      ASHLAR_RETURN_IF_ERROR(exchange.run(ring.processes[to], ring.processes[from]));
      for (size_t i = 1; i < outputs.size(); ++i) {
        std::memcpy(outputs[i] + theirs.begin, outputs[0] + theirs.begin, theirs.size());
      }
    }
    return Status();
  }

  Ring ring;
  Reducer reducer;
  size_t members;
  bool scatters;
  size_t owned; // most targets of any process
  size_t bytes;
  size_t step;
  Exchange exchange;
  std::vector<char> contributions;
  std::vector<char *> inputs; // of this process' members
  std::vector<char *> outputs;
  std::vector<View> views; // by member
  std::vector<const char *> pointers;
};

// All groups that this process is in, one after the other. Groups are ordered alike everywhere, so no two processes wait crosswise.
template <typename OneRing> class HostsCollective final : public Collective {
public:
  Status run() override {
    for (auto &ring : rings) {
      ASHLAR_RETURN_IF_ERROR(ring->run());
    }
    return Status();
  }

  std::vector<std::unique_ptr<OneRing>> rings;
};

} // namespace

Status createHostsCollective(const CollectiveContext &context, const ashlar_rt_collective_desc &desc, const CollectiveShape &shape,
                             const std::vector<Group> &groups, uint64_t inOffset, uint64_t outOffset,
                             std::unique_ptr<Collective> &collective) {
  auto isHere = [&](const Group &group) {
    return std::any_of(group.begin(), group.end(), [&](int d) { return context.mesh->processOf(d) == context.place->rank; });
  };
  if (!shape.reduces()) {
    auto result = std::make_unique<HostsCollective<MovementRing>>();
    for (const Group &group : groups) {
      if (isHere(group)) {
        result->rings.push_back(std::make_unique<MovementRing>(context, shape, group, inOffset, outOffset));
      }
    }
    collective = std::move(result);
    return Status();
  }
  Reducer reducer;
  ASHLAR_RETURN_IF_ERROR(Reducer::create(desc.dtype, desc.reduction, reducer));
  auto result = std::make_unique<HostsCollective<ReductionRing>>();
  bool scatters = desc.kind == ASHLAR_RT_REDUCE_SCATTER;
  for (const Group &group : groups) {
    if (isHere(group)) {
      result->rings.push_back(std::make_unique<ReductionRing>(context, reducer, shape, group, scatters, inOffset, outOffset));
    }
  }
  collective = std::move(result);
  return Status();
}

} // namespace ashlar::rt
