// SPDX-License-Identifier: Apache-2.0
//
// Collectives between hosts, by messages of bounded size. A group's processes stand in a ring of P; in step s = 1 .. P-1 each sends to the
// process s places after it and receives from the one s places before. A reduction first brings all contributions to a range to the
// process that owns it, which combines them in the same fixed tree as within a host. The tensors of a collective are one run of bytes here,
// so that there is one message a partner, however many they are.

#include "runtime/abi/memory_sizes.h"
#include "runtime/comm/collective.h"
#include "runtime/comm/pieces.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

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
  Exchange(const CollectiveContext &context, const Ring &ring, size_t messages)
      : transport(context.transport), waiter(context.waiter), staging(context.staging), streams(ring.size()) {
    for (size_t i = 0; i < ring.size(); ++i) {
      streams[i] = i == ring.self ? 0 : transport->stream(ring.processes[i], waiter.naps() ? kBeside : kCollectives);
    }
    sends.reserve(messages);
    receives.reserve(messages);
    unpacks.reserve(messages);
  }

  void begin() {
    sends.clear();
    receives.clear();
    unpacks.clear();
    used = 0;
  }

  // Sends the bytes [begin, end) of a run; those in several places are packed.
  void send(const Pieces &pieces, size_t begin, size_t end) {
    char *place = pieces.place(begin, end);
    if (place == nullptr) {
      place = take(end - begin);
      pieces.pack(begin, end, place);
    }
    sends.push_back(Part{place, end - begin});
  }

  // Receives the bytes [begin, end) of a run, which outlives run(); those in several places are unpacked there.
  void receive(const Pieces &pieces, size_t begin, size_t end) {
    char *place = pieces.place(begin, end);
    if (place == nullptr) {
      place = take(end - begin);
      unpacks.push_back(Unpack{&pieces, begin, end, place});
    }
    receive(place, end - begin);
  }

  // Receives into a dense place.
  void receive(char *data, size_t bytes) { receives.push_back(Part{data, bytes}); }

  // Exchanges with the processes at these places of the ring.
  Status run(const Ring &ring, size_t to, size_t from) {
    uint64_t received = 0, sent = 0;
    for (const Part &part : receives) {
      received = transport->receive(streams[from], part);
    }
    for (const Part &part : sends) {
      sent = transport->send(streams[to], part);
    }
    waiter.noteWait(ring.processes[from]);
    Status status = transport->waitReceived(streams[from], received, waiter.naps());
    if (status.ok()) {
      waiter.noteWait(ring.processes[to]);
      status = transport->waitSent(streams[to], sent, waiter.naps());
    }
    waiter.noteWait(-1);
    ASHLAR_RETURN_IF_ERROR(status);
    for (const Unpack &unpack : unpacks) {
      unpack.pieces->unpack(unpack.begin, unpack.end, unpack.data);
    }
    return Status();
  }

private:
  // A message that is unpacked once it is here.
  struct Unpack {
    const Pieces *pieces;
    size_t begin;
    size_t end;
    const char *data;
  };

  char *take(size_t bytes) {
    char *result = staging->data() + used;
    used += bytes;
    return result;
  }

  Transport *transport;
  Waiter waiter;
  std::vector<Part> sends;
  std::vector<Part> receives;
  std::vector<Unpack> unpacks;
  Staging *staging;            // its beginning
  std::vector<size_t> streams; // by place in the ring
  size_t used = 0;
};

// A moving collective of one group. Movements of a halo have different sizes, all others are of one size.
class MovementRing {
public:
  MovementRing(const CollectiveContext &context, const std::vector<PlacedTensor> &tensors, const Group &group)
      : ring(makeRing(context, group)), staging(movementStaging(devices(context), inputBytes(tensors))), step(staging.step),
        exchange(context, ring, devices(context) * devices(context)), outgoing(ring.size()), incoming(ring.size()) {
    context.staging->reserve(staging.bytes());
    int self = context.place->indexOnHost(context.place->rank);
    auto arena = [&](int member) {
      return context.window->arena(self, group[static_cast<size_t>(member)] % context.mesh->devicesPerProcess());
    };
    // The sender lists by (source, target), so must the receiver: within one process both loops run in that order.
    for (size_t other = 0; other < ring.size(); ++other) {
      for (int mine : ring.members[ring.self]) {
        for (int theirs : ring.members[other]) {
          addPieces(outgoing[other], tensors, mine, theirs, arena(mine), /*isSource=*/true);
        }
      }
      for (int theirs : ring.members[other]) {
        for (int mine : ring.members[ring.self]) {
          addPieces(incoming[other], tensors, theirs, mine, arena(mine), /*isSource=*/false);
        }
      }
    }
    for (int mine : ring.members[ring.self]) {
      for (const PlacedTensor &tensor : tensors) {
        for (const View &view : tensor.shape.zeroed(mine)) {
          zeros.emplace_back(arena(mine) + tensor.out.offset, view);
        }
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
      const std::vector<Pieces::Piece> &from = outgoing[ring.self][i].list;
      const std::vector<Pieces::Piece> &to = incoming[ring.self][i].list;
      for (size_t tensor = 0; tensor < from.size(); ++tensor) {
        copyView(from[tensor].base, from[tensor].view, to[tensor].base, to[tensor].view, 0, from[tensor].view.bytes());
      }
    }
    for (const auto &[data, view] : zeros) {
      zeroView(data, view, 0, view.bytes());
    }
    return Status();
  }

private:
  static size_t devices(const CollectiveContext &context) { return static_cast<size_t>(context.mesh->devicesPerProcess()); }

  // Adds what goes from `source` to `target`, if anything does, on the side whose arena is given.
  void addPieces(std::vector<Pieces> &list, const std::vector<PlacedTensor> &tensors, int source, int target, char *arena, bool isSource) {
    Pieces pieces;
    for (const PlacedTensor &tensor : tensors) {
      Movement movement;
      if (!tensor.shape.movement(source, target, movement)) {
        return;
      }
      pieces.add(arena + (isSource ? tensor.in.offset : tensor.out.offset), isSource ? movement.from : movement.to);
    }
    bytes = std::max(bytes, pieces.bytes);
    list.push_back(std::move(pieces));
  }

  Status runStep(size_t s, size_t begin, size_t end) {
    size_t to = ring.after(s);
    size_t from = ring.before(s);
    exchange.begin();
    for (const Pieces &pieces : outgoing[to]) {
      if (begin < pieces.bytes) {
        exchange.send(pieces, begin, std::min(end, pieces.bytes));
      }
    }
    for (const Pieces &pieces : incoming[from]) {
      if (begin < pieces.bytes) {
        exchange.receive(pieces, begin, std::min(end, pieces.bytes));
      }
    }
    return exchange.run(ring, to, from);
  }

  Ring ring;
  MessageStaging staging;
  size_t step;
  Exchange exchange;
  size_t bytes = 0;                          // of the longest movement
  std::vector<std::vector<Pieces>> outgoing; // by place in the ring
  std::vector<std::vector<Pieces>> incoming;
  std::vector<std::pair<char *, View>> zeros;
};

// A reducing collective of one group. Work is cut into *targets*, each owned by one process: the members' pieces of a reduce-scatter, or
// one slice a process of an all-reduce, whose owner then hands the result to everybody.
class ReductionRing {
public:
  ReductionRing(const CollectiveContext &context, const Reducer &reducer, const std::vector<PlacedTensor> &tensors, const Group &group,
                bool scatters)
      : ring(makeRing(context, group)), reducer(reducer), members(group.size()), scatters(scatters), bytes(reducedBytes(tensors)),
        staging(reductionStaging(devices(context), members, ownMembers(), bytes, scatters)), step(staging.step),
        exchange(context, ring, members * (scatters ? devices(context) : 1)), memory(context.staging) {
    memory->reserve(staging.bytes());
    int self = context.place->indexOnHost(context.place->rank);
    for (int mine : ring.members[ring.self]) {
      char *arena = context.window->arena(self, group[static_cast<size_t>(mine)] % context.mesh->devicesPerProcess());
      inputs.emplace_back(members);
      outputs.emplace_back();
      for (const PlacedTensor &tensor : tensors) {
        for (size_t member = 0; member < members; ++member) {
          inputs.back()[member].add(arena + tensor.in.offset, tensor.shape.reducedView(static_cast<int>(member)));
        }
        outputs.back().add(arena + tensor.out.offset, View{0, tensor.shape.outBytes(), tensor.shape.outBytes(), 1});
      }
    }
    contributors.resize(members);
    receivers.resize(outputs.size());
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

  static size_t devices(const CollectiveContext &context) { return static_cast<size_t>(context.mesh->devicesPerProcess()); }

  static size_t reducedBytes(const std::vector<PlacedTensor> &tensors) {
    size_t sum = 0;
    for (const PlacedTensor &tensor : tensors) {
      sum += tensor.shape.outBytes();
    }
    return sum;
  }

  size_t ownMembers() const { return ring.members[ring.self].size(); }

  // Number of targets that a process of the ring owns.
  size_t targetsOf(size_t process) const { return scatters ? ring.members[process].size() : 1; }

  // What target `index` of a process covers of an own member's input.
  const Pieces &inputFor(size_t own, size_t process, size_t index) const {
    return inputs[own][scatters ? static_cast<size_t>(ring.members[process][index]) : 0];
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

  char *contribution(size_t target, size_t member) { return memory->data() + staging.exchanged + (target * members + member) * step; }

  // Brings the contributions of all members to this process' targets into staging.
  Status collect(size_t begin, size_t end) {
    Range mine = rangeOf(ring.self, begin, end);
    for (size_t s = 1; s < ring.size(); ++s) {
      size_t to = ring.after(s);
      size_t from = ring.before(s);
      Range theirs = rangeOf(to, begin, end);
      exchange.begin();
      for (size_t target = 0; target < targetsOf(to); ++target) {
        for (size_t own = 0; own < inputs.size(); ++own) {
          exchange.send(inputFor(own, to, target), theirs.begin, theirs.end);
        }
      }
      for (size_t target = 0; target < targetsOf(ring.self); ++target) {
        for (int member : ring.members[from]) {
          exchange.receive(contribution(target, static_cast<size_t>(member)), mine.size());
        }
      }
      ASHLAR_RETURN_IF_ERROR(exchange.run(ring, to, from));
    }
    for (size_t target = 0; target < targetsOf(ring.self); ++target) {
      for (size_t own = 0; own < inputs.size(); ++own) {
        char *place = contribution(target, static_cast<size_t>(ring.members[ring.self][own]));
        inputFor(own, ring.self, target).pack(mine.begin, mine.end, place);
      }
    }
    return Status();
  }

  // Reduces this process' targets into its own outputs, tensor by tensor.
  void combine(size_t begin, size_t end) {
    Range mine = rangeOf(ring.self, begin, end);
    for (size_t target = 0; target < targetsOf(ring.self); ++target) {
      for (size_t member = 0; member < members; ++member) {
        contributors[member] = contribution(target, member);
      }
      size_t first = scatters ? target : 0, count = scatters ? 1 : outputs.size();
      outputs[first].forEach(mine.begin, mine.end, [&](const Pieces::Piece &piece, size_t from, size_t until) {
        size_t tensor = static_cast<size_t>(&piece - outputs[first].list.data());
        for (size_t i = 0; i < count; ++i) {
          receivers[i] = outputs[first + i].list[tensor].base;
        }
        reducer.run(contributors.data(), members, piece.first + from - mine.begin, receivers.data(), count, from, until - from);
      });
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
      exchange.send(outputs[0], mine.begin, mine.end);
      exchange.receive(outputs[0], theirs.begin, theirs.end);
      ASHLAR_RETURN_IF_ERROR(exchange.run(ring, to, from));
      outputs[0].forEach(theirs.begin, theirs.end, [&](const Pieces::Piece &piece, size_t from, size_t until) {
        size_t tensor = static_cast<size_t>(&piece - outputs[0].list.data());
        for (size_t i = 1; i < outputs.size(); ++i) {
          std::memcpy(outputs[i].list[tensor].base + from, piece.base + from, until - from);
        }
      });
    }
    return Status();
  }

  Ring ring;
  Reducer reducer;
  size_t members;
  bool scatters;
  size_t bytes;
  MessageStaging staging;
  size_t step;
  Exchange exchange;
  Staging *memory;                         // messages, and behind them the contributions
  std::vector<std::vector<Pieces>> inputs; // by own member, then by member whose target they cover
  std::vector<Pieces> outputs;             // by own member: one dense piece a tensor
  std::vector<const char *> contributors;
  std::vector<char *> receivers;
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

  const void *channel() const override { return transport; }

  const Transport *transport = nullptr;

  std::vector<std::unique_ptr<OneRing>> rings;
};

} // namespace

Status createHostsCollective(const CollectiveContext &context, const ashlar_rt_collective_desc &desc,
                             const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                             std::unique_ptr<Collective> &collective) {
  auto isHere = [&](const Group &group) {
    return std::any_of(group.begin(), group.end(), [&](int d) { return context.mesh->processOf(d) == context.place->rank; });
  };
  if (!tensors[0].shape.reduces()) {
    auto result = std::make_unique<HostsCollective<MovementRing>>();
    result->transport = context.transport;
    for (const Group &group : groups) {
      if (isHere(group)) {
        result->rings.push_back(std::make_unique<MovementRing>(context, tensors, group));
      }
    }
    collective = std::move(result);
    return Status();
  }
  Reducer reducer;
  ASHLAR_RETURN_IF_ERROR(Reducer::create(desc.dtype, desc.reduction, reducer));
  auto result = std::make_unique<HostsCollective<ReductionRing>>();
  result->transport = context.transport;
  bool scatters = desc.kind == ASHLAR_RT_REDUCE_SCATTER;
  for (const Group &group : groups) {
    if (isHere(group)) {
      result->rings.push_back(std::make_unique<ReductionRing>(context, reducer, tensors, group, scatters));
    }
  }
  collective = std::move(result);
  return Status();
}

} // namespace ashlar::rt
