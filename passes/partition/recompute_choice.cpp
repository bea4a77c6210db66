// SPDX-License-Identifier: Apache-2.0
//
// A minimum cut for each cost of a byte, and the costs between two choices until no choice is left between.

#include "passes/partition/recompute_choice.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace ashlar::partition {
namespace {

// Shortest augmenting paths: the graphs are those of a module, some dozens of nodes.
class MaximumFlow {
public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  explicit MaximumFlow(unsigned nodes) : edgesOf(nodes) {}

  void addEdge(unsigned from, unsigned to, double capacity) {
    edgesOf[from].push_back(edges.size());
    edges.push_back({to, capacity});
    edgesOf[to].push_back(edges.size());
    edges.push_back({from, 0});
  }

  // Returns the nodes on the source's side of a minimum cut.
  std::vector<bool> cut(unsigned source, unsigned sink) {
    std::vector<int64_t> by;
    while (findPath(source, sink, by)) {
      double flow = kUnlimited;
      for (unsigned at = sink; at != source; at = edges[by[at] ^ 1].to) {
        flow = std::min(flow, edges[by[at]].capacity);
      }
      for (unsigned at = sink; at != source; at = edges[by[at] ^ 1].to) {
        edges[by[at]].capacity -= flow;
        edges[by[at] ^ 1].capacity += flow;
      }
    }
    std::vector<bool> side(edgesOf.size());
    for (unsigned node = 0; node < side.size(); ++node) {
      side[node] = node == source || by[node] >= 0;
    }
    return side;
  }

private:
  struct Edge {
    unsigned to;
    double capacity; // that is left; the edge back has the next number
  };

  // Finds the edge by which each node is reached; returns whether the sink is.
  bool findPath(unsigned source, unsigned sink, std::vector<int64_t> &by) const {
    by.assign(edgesOf.size(), -1);
    std::queue<unsigned> pending({source});
    while (!pending.empty() && by[sink] < 0) {
      unsigned at = pending.front();
      pending.pop();
      for (unsigned edge : edgesOf[at]) {
        if (unsigned to = edges[edge].to; edges[edge].capacity > 0 && to != source && by[to] < 0) {
          by[to] = edge;
          pending.push(to);
        }
      }
    }
    return by[sink] >= 0;
  }

  std::vector<std::vector<unsigned>> edgesOf;
  std::vector<Edge> edges;
};

// Two nodes of the graph for each value: on the source's side, the first means that it is needed, the second that it is computed again.
RecomputePoint solve(const std::vector<RecomputeNode> &nodes, double psPerByte) {
  const unsigned count = nodes.size(), source = 2 * count, sink = source + 1;
  MaximumFlow flow(2 * count + 2);
  for (unsigned i = 0; i < count; ++i) {
    const RecomputeNode &node = nodes[i];
    const unsigned needed = 2 * i, repeated = needed + 1;
    if (node.isNeeded) {
      flow.addEdge(source, needed, MaximumFlow::kUnlimited);
    }
    flow.addEdge(needed, repeated, node.isKept ? 0 : psPerByte * static_cast<double>(node.bytes));
    flow.addEdge(repeated, sink, node.mayRepeat ? static_cast<double>(node.timePs) : MaximumFlow::kUnlimited);
    for (unsigned operand : node.operands) {
      flow.addEdge(repeated, 2 * operand, MaximumFlow::kUnlimited);
    }
  }
  std::vector<bool> side = flow.cut(source, sink);
  RecomputePoint point;
  for (unsigned i = 0; i < count; ++i) {
    point.isRecomputed.push_back(side[2 * i + 1]);
    point.timePs += side[2 * i + 1] ? nodes[i].timePs : 0;
    point.keptBytes += side[2 * i] && !side[2 * i + 1] && !nodes[i].isKept ? nodes[i].bytes : 0;
  }
  return point;
}

// Adds the choices between two, the first of which takes less time and keeps more.
void addBetween(const std::vector<RecomputeNode> &nodes, const RecomputePoint &first, const RecomputePoint &last,
                std::vector<RecomputePoint> &points) {
  if (first.keptBytes <= last.keptBytes || first.timePs >= last.timePs) {
    return;
  }
  const double psPerByte = static_cast<double>(last.timePs - first.timePs) / static_cast<double>(first.keptBytes - last.keptBytes);
  RecomputePoint point = solve(nodes, psPerByte);
  auto costOfPoint = [&](const RecomputePoint &each) {
    return static_cast<double>(each.timePs) + psPerByte * static_cast<double>(each.keptBytes);
  };
  const bool isBelow = costOfPoint(point) < costOfPoint(first) * (1 - 1e-9);
  if (!isBelow || point == first || point == last) {
    return;
  }
  addBetween(nodes, first, point, points);
  points.push_back(point);
  addBetween(nodes, point, last, points);
}

} // namespace

std::vector<RecomputePoint> recomputeChoices(const std::vector<RecomputeNode> &nodes) {
  double bytes = 1, time = 1;
  for (const RecomputeNode &node : nodes) {
    bytes += static_cast<double>(node.bytes);
    time += static_cast<double>(node.timePs);
  }
  // All bytes are worth less than a picosecond; a byte is worth more than all time.
  RecomputePoint first = solve(nodes, 1 / bytes), last = solve(nodes, time);
  std::vector<RecomputePoint> points = {first};
  addBetween(nodes, first, last, points);
  if (!(last == first)) {
    points.push_back(last);
  }
  return points;
}

} // namespace ashlar::partition
