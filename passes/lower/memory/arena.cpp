// SPDX-License-Identifier: Apache-2.0
//
// Greedy packing, the local search over its order, and the check by a sweep over time.

#include "passes/lower/memory/arena.h"

#include "runtime/abi/ashlar_rt.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace ashlar::lower {
namespace {

using Order = std::vector<size_t>;

// Births and deaths in time order; at one time the deaths come last, since `last` still counts as alive.
struct Event {
  int64_t time;
  bool death;
  size_t buffer;
};

std::vector<Event> sortedEvents(const std::vector<Lifetime> &buffers) {
  std::vector<Event> events;
  events.reserve(2 * buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    events.push_back({buffers[i].first, false, i});
    events.push_back({buffers[i].last, true, i});
  }
  std::sort(events.begin(), events.end(),
            [](const Event &a, const Event &b) { return std::tie(a.time, a.death, a.buffer) < std::tie(b.time, b.death, b.buffer); });
  return events;
}

// Places buffers one after the other, each into the smallest gap that holds it between the buffers that live at the same time.
class Packer {
public:
  explicit Packer(const std::vector<Lifetime> &buffers) : buffers(buffers) {}

  // Packs in the given order. Stops early, with a plan larger than `limit`, when it cannot stay within `limit`.
  ArenaPlan pack(const Order &order, uint64_t limit) {
    ArenaPlan plan;
    plan.offsets.assign(buffers.size(), 0);
    placed.clear();
    for (size_t i : order) {
      Block block{0, alignedBytes(buffers[i].bytes), buffers[i].first, buffers[i].last};
      block.offset = bestFit(block);
      plan.offsets[i] = block.offset;
      plan.bytes = std::max(plan.bytes, block.offset + block.bytes);
      if (plan.bytes > limit) {
        return plan;
      }
      placed.insert(std::upper_bound(placed.begin(), placed.end(), block.offset,
                                     [](uint64_t offset, const Block &other) { return offset < other.offset; }),
                    block);
    }
    return plan;
  }

private:
  struct Block {
    uint64_t offset, bytes;
    int64_t first, last;
  };

  // Returns the offset of the smallest gap of at least block.bytes; above everything alive when there is none.
  uint64_t bestFit(const Block &block) const {
    uint64_t end = 0; // of the live blocks seen so far, which come in the order of their offsets
    uint64_t best = 0, bestGap = UINT64_MAX;
    for (const Block &other : placed) {
      if (other.first > block.last || other.last < block.first) {
        continue;
      }
      if (other.offset > end && other.offset - end >= block.bytes && other.offset - end < bestGap) {
        best = end;
        bestGap = other.offset - end;
      }
      end = std::max(end, other.offset + other.bytes);
    }
    return bestGap == UINT64_MAX ? end : best;
  }

  const std::vector<Lifetime> &buffers;
  std::vector<Block> placed; // sorted by offset
};

// Returns the orders worth trying: by size, by size x time, by birth, by length of life.
std::vector<Order> greedyOrders(const std::vector<Lifetime> &buffers) {
  Order identity(buffers.size());
  std::iota(identity.begin(), identity.end(), 0);
  auto length = [&](size_t i) { return buffers[i].last - buffers[i].first + 1; };
  auto sorted = [&](auto key) {
    Order order = identity;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    return order;
  };
  return {sorted([&](size_t i) { return std::make_pair(buffers[i].bytes, length(i)); }),
          sorted([&](size_t i) { return static_cast<double>(buffers[i].bytes) * static_cast<double>(length(i)); }),
          sorted([&](size_t i) { return -buffers[i].first; }), sorted([&](size_t i) { return length(i); })};
}

// Moves a buffer that sits on the peak to the front of the order, again and again, and keeps what is smaller. Bounded by work, not time, so
// that the same program always gets the same plan.
void improve(const std::vector<Lifetime> &buffers, Order order, uint64_t lowerBound, ArenaPlan &best) {
  constexpr uint64_t kWork = 20'000'000; // compares of the inner loop: a few hundredths of a second
  constexpr uint64_t kRounds = 400;
  uint64_t rounds = std::min<uint64_t>(kRounds, kWork / (buffers.size() * buffers.size() / 2 + 1));
  Packer packer(buffers);
  for (uint64_t round = 0; round < rounds && best.bytes > lowerBound; ++round) {
    std::vector<size_t> peak;
    for (size_t place = 0; place < order.size(); ++place) {
      size_t i = order[place];
      if (best.offsets[i] + alignedBytes(buffers[i].bytes) == best.bytes) {
        peak.push_back(place);
      }
    }
    Order candidate = order;
    size_t from = peak[round % peak.size()];
    size_t to = from * (round % 7) / 7; // the front, or part of the way
    std::rotate(candidate.begin() + to, candidate.begin() + from, candidate.begin() + from + 1);
    ArenaPlan plan = packer.pack(candidate, best.bytes);
    if (plan.bytes <= best.bytes) {
      best = std::move(plan);
      order = std::move(candidate);
    }
  }
}

} // namespace

uint64_t alignedBytes(uint64_t bytes) {
  return (bytes + ASHLAR_RT_ALIGNMENT - 1) / ASHLAR_RT_ALIGNMENT * ASHLAR_RT_ALIGNMENT;
}

uint64_t largestLiveSet(const std::vector<Lifetime> &buffers) {
  uint64_t live = 0, largest = 0;
  for (const Event &event : sortedEvents(buffers)) {
    uint64_t bytes = alignedBytes(buffers[event.buffer].bytes);
    live = event.death ? live - bytes : live + bytes;
    largest = std::max(largest, live);
  }
  return largest;
}

ArenaPlan packArena(const std::vector<Lifetime> &buffers) {
  uint64_t lowerBound = largestLiveSet(buffers);
  Packer packer(buffers);
  ArenaPlan best;
  best.bytes = UINT64_MAX;
  Order bestOrder;
  for (Order &order : greedyOrders(buffers)) {
    ArenaPlan plan = packer.pack(order, best.bytes);
    if (plan.bytes < best.bytes) {
      best = std::move(plan);
      bestOrder = std::move(order);
    }
    if (best.bytes == lowerBound) {
      return best;
    }
  }
  improve(buffers, std::move(bestOrder), lowerBound, best);
  return best;
}

ArenaPlan packArena(const std::vector<Lifetime> &buffers, const std::vector<BufferRun> &runs, uint64_t slack) {
  ArenaPlan apart = packArena(buffers);
  std::vector<Lifetime> blocks;
  std::vector<std::pair<size_t, uint64_t>> places(buffers.size()); // of each buffer: the block, and where in it
  std::vector<bool> isInRun(buffers.size(), false);
  for (const BufferRun &run : runs) {
    Lifetime block = buffers[run.front()];
    block.bytes = 0;
    for (size_t i : run) {
      isInRun[i] = true;
      places[i] = {blocks.size(), block.bytes};
      block = {std::min(block.first, buffers[i].first), std::max(block.last, buffers[i].last),
               block.bytes + alignedBytes(buffers[i].bytes)};
    }
    blocks.push_back(block);
  }
  if (blocks.empty()) {
    return apart;
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!isInRun[i]) {
      places[i] = {blocks.size(), 0};
      blocks.push_back(buffers[i]);
    }
  }
  ArenaPlan together = packArena(blocks);
  if (together.bytes > apart.bytes + slack) {
    return apart;
  }
  ArenaPlan plan{std::vector<uint64_t>(buffers.size()), together.bytes};
  for (size_t i = 0; i < buffers.size(); ++i) {
    plan.offsets[i] = together.offsets[places[i].first] + places[i].second;
  }
  return plan;
}

std::optional<std::pair<size_t, size_t>> findOverlap(const std::vector<Lifetime> &buffers, const std::vector<uint64_t> &offsets) {
  std::map<uint64_t, size_t> live; // by offset; disjoint as long as nothing was found
  for (const Event &event : sortedEvents(buffers)) {
    size_t i = event.buffer;
    if (buffers[i].bytes == 0) {
      continue;
    }
    if (event.death) {
      live.erase(offsets[i]);
      continue;
    }
    auto after = live.lower_bound(offsets[i]);
    if (after != live.end() && after->first < offsets[i] + buffers[i].bytes) {
      return std::make_pair(after->second, i);
    }
    if (after != live.begin()) {
      auto before = std::prev(after);
      if (before->first + buffers[before->second].bytes > offsets[i]) {
        return std::make_pair(before->second, i);
      }
    }
    live.emplace(offsets[i], i);
  }
  return std::nullopt;
}

} // namespace ashlar::lower
