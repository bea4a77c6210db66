// SPDX-License-Identifier: Apache-2.0
//
// A minimum cut for each cost of a byte, and the costs between two choices until no choice is left between.

#include "passes/partition/recompute_choice.h"

#include "passes/analysis/minimum_cut.h"

#include <algorithm>

namespace ashlar::partition {
namespace {

// Two nodes of the graph for each value: on the source's side, the first means that it is needed, the second that it is computed again.
RecomputePoint solve(const std::vector<RecomputeNode> &nodes, double psPerByte) {
  const unsigned count = nodes.size(), source = 2 * count, sink = source + 1;
  analysis::MinimumCut graph;
  for (unsigned node = 0; node < 2 * count + 2; ++node) {
    graph.addNode();
  }
  for (unsigned i = 0; i < count; ++i) {
    const RecomputeNode &node = nodes[i];
    const unsigned needed = 2 * i, rematerialized = needed + 1;
    if (node.isNeeded) {
      graph.addEdge(source, needed, analysis::MinimumCut::kNever);
    }
    graph.addEdge(needed, rematerialized, node.isKept ? 0 : psPerByte * static_cast<double>(node.bytes));
    graph.addEdge(rematerialized, sink, node.mayRematerialize ? static_cast<double>(node.timePs) : analysis::MinimumCut::kNever);
    for (unsigned operand : node.operands) {
      graph.addEdge(rematerialized, 2 * operand, analysis::MinimumCut::kNever);
    }
    for (unsigned other : node.together) {
      graph.addEdge(rematerialized, 2 * other + 1, analysis::MinimumCut::kNever);
    }
  }
  std::vector<bool> side = graph.ahead(source, sink);
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
