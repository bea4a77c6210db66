// SPDX-License-Identifier: Apache-2.0
//
// Edmonds and Karp, 1972: as much flow as fits, by shortest paths; what the sink cannot be reached from any more is ahead of the cut.

#include "passes/stage/minimum_cut.h"

#include <algorithm>
#include <deque>

namespace ashlar::stage {

unsigned MinimumCut::addNode() {
  leave.emplace_back();
  return static_cast<unsigned>(leave.size() - 1);
}

void MinimumCut::addEdge(unsigned from, unsigned to, int64_t cost) {
  leave[from].push_back(static_cast<unsigned>(edges.size()));
  edges.push_back({to, cost});
  leave[to].push_back(static_cast<unsigned>(edges.size()));
  edges.push_back({from, 0});
}

// Sends as much as one shortest path holds. Returns false when there is none.
bool MinimumCut::augment(unsigned source, unsigned sink) {
  constexpr unsigned kNone = UINT32_MAX;
  std::vector<unsigned> reachedBy(leave.size(), kNone); // edges
  std::deque<unsigned> pending = {source};
  while (!pending.empty() && reachedBy[sink] == kNone) {
    const unsigned node = pending.front();
    pending.pop_front();
    for (const unsigned edge : leave[node]) {
      const unsigned to = edges[edge].to;
      if (edges[edge].left > 0 && to != source && reachedBy[to] == kNone) {
        reachedBy[to] = edge;
        pending.push_back(to);
      }
    }
  }
  if (reachedBy[sink] == kNone) {
    return false;
  }
  int64_t most = kNever;
  for (unsigned node = sink; node != source; node = edges[reachedBy[node] ^ 1].to) {
    most = std::min(most, edges[reachedBy[node]].left);
  }
  for (unsigned node = sink; node != source; node = edges[reachedBy[node] ^ 1].to) {
    edges[reachedBy[node]].left -= most;
    edges[reachedBy[node] ^ 1].left += most;
  }
  return true;
}

std::vector<bool> MinimumCut::behind(unsigned source, unsigned sink) {
  while (augment(source, sink)) {
  }
  std::vector<bool> isBehind(leave.size(), false);
  isBehind[sink] = true;
  std::deque<unsigned> pending = {sink};
  while (!pending.empty()) {
    const unsigned node = pending.front();
    pending.pop_front();
    for (const unsigned edge : leave[node]) { // its reverse leads here
      const unsigned from = edges[edge].to;
      if (edges[edge ^ 1].left > 0 && !isBehind[from]) {
        isBehind[from] = true;
        pending.push_back(from);
      }
    }
  }
  return isBehind;
}

} // namespace ashlar::stage
