// SPDX-License-Identifier: Apache-2.0
//
// Edmonds and Karp, 1972: as much flow as fits, by shortest paths. Then the nodes that the source still reaches are ahead of one minimum
// cut, and the nodes that still reach the sink are behind another one.

#include "passes/analysis/minimum_cut.h"

#include <algorithm>
#include <cstdint>
#include <deque>

namespace ashlar::analysis {

unsigned MinimumCut::addNode() {
  leave.emplace_back();
  return static_cast<unsigned>(leave.size() - 1);
}

void MinimumCut::addEdge(unsigned from, unsigned to, double cost) {
  leave[from].push_back(static_cast<unsigned>(edges.size()));
  edges.push_back({to, cost});
  leave[to].push_back(static_cast<unsigned>(edges.size()));
  edges.push_back({from, 0});
}

constexpr unsigned kNone = UINT32_MAX;

// Returns the edges by which the source reaches nodes, up to the sink; kNone for the others.
std::vector<unsigned> MinimumCut::findPaths(unsigned source, unsigned sink) const {
  std::vector<unsigned> reachedBy(leave.size(), kNone);
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
  return reachedBy;
}

// Sends as much as one shortest path holds. Returns false when there is none.
bool MinimumCut::augment(unsigned source, unsigned sink) {
  const std::vector<unsigned> reachedBy = findPaths(source, sink);
  if (reachedBy[sink] == kNone) {
    return false;
  }
  double most = kNever;
  for (unsigned node = sink; node != source; node = edges[reachedBy[node] ^ 1].to) {
    most = std::min(most, edges[reachedBy[node]].left);
  }
  for (unsigned node = sink; node != source; node = edges[reachedBy[node] ^ 1].to) {
    edges[reachedBy[node]].left -= most;
    edges[reachedBy[node] ^ 1].left += most;
  }
  return true;
}

std::vector<bool> MinimumCut::ahead(unsigned source, unsigned sink) {
  while (augment(source, sink)) {
  }
  const std::vector<unsigned> reachedBy = findPaths(source, sink);
  std::vector<bool> isAhead(leave.size());
  for (unsigned node = 0; node < isAhead.size(); ++node) {
    isAhead[node] = node == source || reachedBy[node] != kNone;
  }
  return isAhead;
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

} // namespace ashlar::analysis
