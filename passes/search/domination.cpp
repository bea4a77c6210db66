// SPDX-License-Identifier: Apache-2.0
//
// Dead-end elimination.

#include "passes/search/domination.h"

#include <algorithm>
#include <limits>
#include <set>

namespace ashlar::search {

namespace {

class Domination {
public:
  Domination(const DecisionGraph &graph, const std::vector<std::vector<Cost>> &own, bool keepsAmounts)
      : graph(graph), own(own), alive(graph.numNodes()), amountsOf(graph.numNodes()) {
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      for (unsigned choice = 0; choice < own[node].size(); ++choice) {
        if (own[node][choice] < kForbidden) {
          alive[node].push_back(choice);
        }
      }
      if (alive[node].empty()) {
        alive[node].push_back(0); // forbidden, whatever is chosen
      }
    }
    for (const Row &row : graph.rows) {
      for (const Row::Term &term : row.terms) {
        if (keepsAmounts) {
          amountsOf[term.node].push_back(&term.amounts);
        }
      }
    }
  }

  std::vector<std::vector<unsigned>> run() {
    std::set<unsigned> pending;
    for (unsigned node = 0; node < alive.size(); ++node) {
      pending.insert(node);
    }
    while (!pending.empty()) {
      const unsigned node = *pending.begin();
      pending.erase(pending.begin());
      if (leaveOut(node)) {
        for (unsigned edge : graph.edgesOf(node)) {
          pending.insert(graph.otherEnd(edge, node));
        }
      }
    }
    return std::move(alive);
  }

private:
  // Returns whether a choice of the node was left out.
  bool leaveOut(unsigned node) {
    std::vector<unsigned> &choices = alive[node];
    bool changed = false;
    for (size_t r = 0; r < choices.size() && choices.size() > 1;) {
      bool isDominated = false;
      for (size_t s = 0; s < choices.size() && !isDominated; ++s) {
        isDominated = s != r && isNeverBetter(node, choices[r], choices[s]);
      }
      if (isDominated) {
        choices.erase(choices.begin() + r);
        changed = true;
      } else {
        ++r;
      }
    }
    return changed;
  }

  bool isNeverBetter(unsigned node, unsigned r, unsigned s) const {
    for (const std::vector<int64_t> *amounts : amountsOf[node]) {
      if ((*amounts)[s] > (*amounts)[r]) {
        return false;
      }
    }
    Cost margin = own[node][r] - own[node][s]; // by which r costs more, at least
    for (unsigned edge : graph.edgesOf(node)) {
      Cost least = std::numeric_limits<Cost>::max();
      for (unsigned other : alive[graph.otherEnd(edge, node)]) {
        const Cost with = graph.edgeCost(edge, node, r, other), instead = graph.edgeCost(edge, node, s, other);
        if (with >= kForbidden) {
          continue; // r cannot stand beside it
        }
        if (instead >= kForbidden) {
          return false;
        }
        least = std::min(least, with - instead);
      }
      if (least == std::numeric_limits<Cost>::max()) {
        return true; // r stands beside nothing
      }
      margin += least;
    }
    return margin >= 0;
  }

  const DecisionGraph &graph;
  const std::vector<std::vector<Cost>> &own;
  std::vector<std::vector<unsigned>> alive;
  std::vector<std::vector<const std::vector<int64_t> *>> amountsOf; // by node
};

} // namespace

std::vector<std::vector<unsigned>> findWorthwhile(const DecisionGraph &graph, const std::vector<std::vector<Cost>> &own,
                                                  bool keepsAmounts) {
  return Domination(graph, own, keepsAmounts).run();
}

} // namespace ashlar::search
