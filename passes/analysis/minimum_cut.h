// SPDX-License-Identifier: Apache-2.0
//
// The cheapest way to part two nodes of a directed graph.

#ifndef ASHLAR_PASSES_ANALYSIS_MINIMUM_CUT_H
#define ASHLAR_PASSES_ANALYSIS_MINIMUM_CUT_H

#include <limits>
#include <vector>

namespace ashlar::analysis {

class MinimumCut {
public:
  static constexpr double kNever = std::numeric_limits<double>::infinity(); // of an edge that no cut has

  unsigned addNode();

  // Adds an edge that costs `cost` to cut, >= 0.
  void addEdge(unsigned from, unsigned to, double cost);

  // Return for each node whether it is ahead of, or behind, the cut with the least cost of all that part `source` from `sink`: among equal
  // ones the nearest to the source, or to the sink. Assume that some cut has a finite cost. About a walk over the graph for each edge of
  // the cut. Once for a graph.
  std::vector<bool> ahead(unsigned source, unsigned sink);
  std::vector<bool> behind(unsigned source, unsigned sink);

private:
  struct Edge {
    unsigned to;
    double left; // capacity that no flow uses
  };

  bool augment(unsigned source, unsigned sink);
  std::vector<unsigned> findPaths(unsigned source, unsigned sink) const;

  std::vector<Edge> edges;                  // each with its reverse behind it
  std::vector<std::vector<unsigned>> leave; // by node
};

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_MINIMUM_CUT_H
