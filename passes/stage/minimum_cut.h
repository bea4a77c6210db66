// SPDX-License-Identifier: Apache-2.0
//
// The cheapest way to part two nodes of a directed graph.

#ifndef ASHLAR_PASSES_STAGE_MINIMUM_CUT_H
#define ASHLAR_PASSES_STAGE_MINIMUM_CUT_H

#include <cstdint>
#include <vector>

namespace ashlar::stage {

class MinimumCut {
public:
  static constexpr int64_t kNever = INT64_MAX / 4; // of an edge that no cut has

  unsigned addNode();

  // Adds an edge that costs `cost` to cut, >= 0.
  void addEdge(unsigned from, unsigned to, int64_t cost);

  // Returns for each node whether it is behind the cut that costs least of all that part `source` from `sink`, and among equal ones lies
  // nearest to the sink. Assumes that some cut costs less than kNever. Takes a walk over the graph for each edge of the cut, about.
  std::vector<bool> behind(unsigned source, unsigned sink);

private:
  struct Edge {
    unsigned to;
    int64_t left; // what still fits
  };

  bool augment(unsigned source, unsigned sink);

  std::vector<Edge> edges;                  // each with its reverse behind it
  std::vector<std::vector<unsigned>> leave; // by node
};

} // namespace ashlar::stage

#endif // ASHLAR_PASSES_STAGE_MINIMUM_CUT_H
