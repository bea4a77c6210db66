// SPDX-License-Identifier: Apache-2.0
//
// Dead-end elimination.

#include "passes/search/solver/domination.h"

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
  // An edge of a node, as one looks from there.
  struct Side {
    const Cost *costs; // of the first choices
    size_t step;       // from one of the node's choices to the next
    size_t otherStep;
    const std::vector<unsigned> *others; // choices at the other end
  };

  std::vector<Side> sidesOf(unsigned node) const {
    std::vector<Side> sides;
    for (unsigned number : graph.edgesOf(node)) {
      const Edge &edge = graph.getEdges()[number];
      const size_t columns = graph.numChoices(edge.b);
      const bool isA = edge.a == node;
      sides.push_back({edge.costs.data(), isA ? columns : 1, isA ? 1 : columns, &alive[graph.otherEnd(number, node)]});
    }
    return sides;
  }

  // Returns whether a choice of the node was left out.
  bool leaveOut(unsigned node) {
    std::vector<unsigned> &choices = alive[node];
    const std::vector<Side> sides = sidesOf(node);
    bool changed = false;
    for (size_t r = 0; r < choices.size() && choices.size() > 1;) {
      const std::vector<size_t> partners = partnersOf(sides, choices[r]);
      bool isDominated = false;
      for (size_t s = 0; s < choices.size() && !isDominated; ++s) {
        isDominated =
            s != r && !isBetterBeside(node, sides, partners, choices[r], choices[s]) && isNeverBetter(node, sides, choices[r], choices[s]);
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

  // Returns, for each edge, where in its table the choice at the other end stands that costs least beside a choice.
  static std::vector<size_t> partnersOf(const std::vector<Side> &sides, unsigned choice) {
    std::vector<size_t> partners;
    for (const Side &side : sides) {
      const Cost *costs = side.costs + choice * side.step;
      partners.push_back(*std::min_element(side.others->begin(), side.others->end(), [&](unsigned a, unsigned b) {
        return costs[a * side.otherStep] < costs[b * side.otherStep];
      }) * side.otherStep);
    }
    return partners;
  }

  // Whether r costs less than s beside those neighbours that suit it best: then isNeverBetter() does not hold, at much less work.
  bool isBetterBeside(unsigned node, const std::vector<Side> &sides, const std::vector<size_t> &partners, unsigned r, unsigned s) const {
    Cost margin = own[node][r] - own[node][s];
    for (size_t edge = 0; edge < sides.size(); ++edge) {
      const Cost *costs = sides[edge].costs + partners[edge];
      const Cost with = costs[r * sides[edge].step];
      if (with >= kForbidden) {
        return false;
      }
      margin += with - costs[s * sides[edge].step];
    }
    return margin < 0;
  }

  bool isNeverBetter(unsigned node, const std::vector<Side> &sides, unsigned r, unsigned s) const {
    for (const std::vector<int64_t> *amounts : amountsOf[node]) {
      if ((*amounts)[s] > (*amounts)[r]) {
        return false;
      }
    }
    Cost margin = own[node][r] - own[node][s]; // by which r costs more, at least
    for (const Side &side : sides) {
      const Cost *ofR = side.costs + r * side.step, *ofS = side.costs + s * side.step;
      Cost least = std::numeric_limits<Cost>::max();
      for (unsigned other : *side.others) {
        const Cost with = ofR[other * side.otherStep], instead = ofS[other * side.otherStep];
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
