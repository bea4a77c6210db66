// SPDX-License-Identifier: Apache-2.0
//
// Relaxation, multipliers of rows, elimination of the rest, then the integer program.

#include "passes/search/solver/solve.h"

#include "passes/search/solver/integer_program.h"
#include "passes/search/solver/relaxation.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>
#include <set>

namespace ashlar::search {

namespace {

class Search {
public:
  Search(const DecisionGraph &graph, const Request &request, Effort &effort)
      : graph(graph), request(request), effort(effort), entries(graph.countEntries()), multipliers(graph.rows.size(), 0) {}

  Found run() {
    std::for_each(request.known.begin(), request.known.end(), [&](const Choices &choices) { consider(choices); });
    Relaxation relaxation(graph);
    relaxation.run(kPasses, effort);
    bound = relaxation.bound();
    Choices rounded = improved(relaxation.round());
    consider(rounded);
    if (!best && !findLeast()) {
      return least ? Found{{*least, graph.cost(*least), bound}, /*fits=*/false, {}}
                   : Found{{rounded, kForbidden, bound}, /*fits=*/false, {}};
    }
    if (limitMatters(rounded)) {
      fitMultipliers(relaxation, rounded);
    }
    finish(relaxation);
    return {{*best, graph.cost(*best), std::min(bound, graph.cost(*best))}, /*fits=*/true, std::move(others)};
  }

private:
  using Kept = std::vector<std::vector<unsigned>>; // by node: some of its choices
  using Margins = std::vector<std::vector<Cost>>;  // by node and choice: by how much more the bound is with it

  static constexpr int kMostParts = 1000;
  static constexpr size_t kPartNodes = 64, kPartStride = 4; // of a part, and from the middle of one to the next one's
  static constexpr int kPasses = 200, kPassesOfStep = 12, kMostSteps = 40;

  bool limitMatters(const Choices &choices) const { return graph.largestAmount(choices) > request.limit; }

  Choices improved(Choices choices) const {
    graph.improve(choices, std::max(request.limit, graph.largestAmount(choices)));
    return choices;
  }

  void consider(const Choices &choices) {
    if (graph.cost(choices) >= kForbidden) {
      return;
    }
    if (!least || graph.largestAmount(choices) < graph.largestAmount(*least)) {
      least = choices;
    }
    if (!limitMatters(choices) && (!best || graph.cost(choices) < graph.cost(*best))) {
      best = choices;
    }
  }

  // Visits node, choice and penalty of each choice that takes from a row with a multiplier.
  template <typename Visit> void visitPenalties(const std::vector<double> &multiplierOf, Visit visit) const {
    for (size_t row = 0; row < graph.rows.size(); ++row) {
      for (const Row::Term &term : graph.rows[row].terms) {
        for (unsigned choice = 0; choice < term.amounts.size() && multiplierOf[row] != 0; ++choice) {
          visit(term.node, choice,
                static_cast<Cost>(std::min(std::floor(multiplierOf[row] * term.amounts[choice]), double(kForbidden / 4))));
        }
      }
    }
  }

  // Returns the graph with the penalties of rows added to costs.
  DecisionGraph penalized() const {
    DecisionGraph copy = graph;
    visitPenalties(multipliers, [&](unsigned node, unsigned choice, Cost cost) { copy.addCost(node, choice, cost); });
    return copy;
  }

  // Returns the bound on choices within the limit that follows from a bound of the penalized graph.
  Cost unpenalized(Cost penalizedBound) const {
    double paid = 0;
    for (size_t row = 0; row < graph.rows.size(); ++row) {
      paid += multipliers[row] == 0 ? 0 : multipliers[row] * (double(request.limit) - graph.rows[row].fixed);
    }
    return penalizedBound - static_cast<Cost>(std::ceil(paid));
  }

  // Looks for choices that keep the limit, whatever they cost: the rows that take most are made more expensive, step by step. Returns
  // whether there are any.
  bool findLeast() {
    const DecisionGraph free = withoutCosts();
    std::vector<double> weights(graph.rows.size(), 0);
    Choices choices = improved(Relaxation(free).round());
    consider(choices);
    for (int step = 0; step < kMostSteps && !best && !effort.isOver(); ++step) {
      effort.count(entries); // of the copy
      weights[largestRow(choices)] += 1;
      DecisionGraph copy = free;
      std::vector<double> shares;
      for (double weight : weights) {
        shares.push_back(weight / (step + 1));
      }
      visitPenalties(shares, [&](unsigned node, unsigned choice, Cost cost) { copy.addCost(node, choice, cost); });
      Relaxation relaxation(copy);
      relaxation.run(kPassesOfStep, effort);
      choices = relaxation.round();
      copy.improve(choices);
      consider(choices);
    }
    if (best) {
      consider(improved(*best));
    }
    return best.has_value();
  }

  // Returns the graph in which all allowed choices cost nothing.
  DecisionGraph withoutCosts() const {
    auto onlyForbidden = [](std::vector<Cost> costs) {
      std::transform(costs.begin(), costs.end(), costs.begin(), [](Cost cost) { return cost >= kForbidden ? kForbidden : 0; });
      return costs;
    };
    DecisionGraph free;
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      free.addNode(onlyForbidden(graph.costs(node)));
    }
    for (const Edge &edge : graph.getEdges()) {
      free.addEdge(edge.a, edge.b, onlyForbidden(edge.costs));
    }
    free.rows = graph.rows;
    return free;
  }

  size_t largestRow(const Choices &choices) const {
    auto amount = [&](const Row &row) { return DecisionGraph::amount(row, choices); };
    return std::max_element(graph.rows.begin(), graph.rows.end(), [&](const Row &a, const Row &b) { return amount(a) < amount(b); }) -
           graph.rows.begin();
  }

  // Finds multipliers of the rows by steps along the excess of the choices over the limit (Polyak's length).
  void fitMultipliers(Relaxation &relaxation, Choices choices) {
    for (int step = 0; step < kMostSteps && bound < graph.cost(*best) && !effort.isOver(); ++step) {
      effort.count(entries);      // of the penalized copy
      std::vector<double> excess; // in shares of the limit
      double squares = 0, value = graph.cost(choices);
      for (size_t row = 0; row < graph.rows.size(); ++row) {
        const double share = double(DecisionGraph::amount(graph.rows[row], choices)) / request.limit - 1;
        excess.push_back(multipliers[row] == 0 && share < 0 ? 0 : share);
        squares += excess.back() * excess.back();
        value += multipliers[row] * share * request.limit;
      }
      const double length = squares == 0 ? 0 : (graph.cost(*best) - value) / squares;
      if (length <= 0) {
        break;
      }
      std::vector<double> next;
      for (size_t row = 0; row < graph.rows.size(); ++row) {
        next.push_back(std::max(0.0, multipliers[row] + length * excess[row] / request.limit));
      }
      // In whole numbers, as the bound is: the old penalties come off exactly.
      visitPenalties(multipliers, [&](unsigned node, unsigned choice, Cost cost) { relaxation.addCost(node, choice, -cost); });
      visitPenalties(next, [&](unsigned node, unsigned choice, Cost cost) { relaxation.addCost(node, choice, cost); });
      multipliers = std::move(next);
      relaxation.run(kPassesOfStep, effort);
      bound = std::max(bound, unpenalized(relaxation.bound()));
      choices = relaxation.round();
      penalized().improve(choices);
      consider(choices);
      consider(improved(choices));
    }
  }

  // Explores the choices closest to the best, then more, as long as tables stay small or something better is found; at last all that may be
  // better than the best.
  void finish(const Relaxation &relaxation) {
    const DecisionGraph costs = penalized();
    const Cost penalizedBound = relaxation.bound();
    const Margins margins = relaxation.margins();
    auto gap = [&] { return graph.cost(*best) - unpenalized(penalizedBound); };
    bool isExact = false;
    for (int halvings = kMostHalvings; halvings >= 0 && gap() > 0 && !effort.isOver(); --halvings) {
      Kept kept = keepBelow(margins, std::max<Cost>(gap() >> halvings, 1));
      const Cost before = graph.cost(*best);
      Solution found = eliminate(costs.restrict(kept), effort, halvings > 0 ? kMostTableEntries / 4 : kMostTableEntries);
      Choices choices = whole(kept, found.choices);
      consider(choices);
      consider(improved(choices));
      isExact = found.bound == found.cost;
      if (halvings == 0) {
        bound = std::max(bound, std::min(unpenalized(found.bound), graph.cost(*best)));
      }
      if (!isExact && graph.cost(*best) == before) {
        break;
      }
    }
    if (bound < graph.cost(*best)) {
      const Choices before = *best;
      improveParts(costs, relaxation, margins);
      if (*best != before) {
        others.push_back(before);
      }
    }
    if (request.usesIntegerProgram && bound < graph.cost(*best) && !effort.isOver()) {
      finishByInteger(keepBelow(margins, gap()));
    }
  }

  // Decides parts of the graph exactly while all else stays as it is, as long as something gets better: changes of several nodes together,
  // such as all ops of a block, are out of reach for changes of one node. The excess of the best choices over the bound elsewhere remains,
  // so no choice is explored whose loss exceeds their loss in the part.
  void improveParts(const DecisionGraph &costs, const Relaxation &relaxation, const Margins &margins) {
    const Cost penalizedBound = relaxation.bound();
    Relaxation::Excess excess;
    Cost spared = 0; // penalty of the part of the limit that the best leaves unused
    auto look = [&] {
      effort.count(entries);
      excess = relaxation.excessOf(*best);
      spared = graph.cost(*best) - unpenalized(penalizedBound) - std::accumulate(excess.ofNodes.begin(), excess.ofNodes.end(), Cost(0)) -
               std::accumulate(excess.ofEdges.begin(), excess.ofEdges.end(), Cost(0));
    };
    look();
    int parts = 0;
    std::vector<int> changed(graph.numNodes(), 0), decided(graph.numNodes(), -1); // when, by node and by center: a number of parts
    for (Cost before = kForbidden; graph.cost(*best) < before;) {
      before = graph.cost(*best);
      for (unsigned center = 0; center < graph.numNodes(); center += kPartStride) {
        const std::vector<unsigned> part = nodesAround(center, kPartNodes);
        const Cost lost = spared + excessIn(part, excess);
        auto isNew = [&](unsigned node) { return changed[node] >= decided[center]; };
        if (lost <= 0 || std::none_of(part.begin(), part.end(), [&](unsigned node) { return isNew(node) || anyNeighbour(node, isNew); })) {
          continue; // nothing is better, or it would be decided as it was
        }
        if (effort.isOver() || ++parts > kMostParts) {
          return;
        }
        effort.count(static_cast<int64_t>(graph.numNodes())); // to find the part
        const Choices last = *best;
        decided[center] = improvePart(costs, margins, lost, part) ? parts : -1;
        for (unsigned node : part) {
          changed[node] = last[node] == (*best)[node] ? changed[node] : parts;
        }
        if (*best != last) {
          look();
        }
      }
    }
  }

  // Returns the excess cost of choices over the least on some nodes and their edges.
  Cost excessIn(const std::vector<unsigned> &part, const Relaxation::Excess &excess) const {
    Cost sum = 0;
    std::set<unsigned> edges;
    for (unsigned node : part) {
      sum += excess.ofNodes[node];
      edges.insert(graph.edgesOf(node).begin(), graph.edgesOf(node).end());
    }
    return std::accumulate(edges.begin(), edges.end(), sum, [&](Cost total, unsigned edge) { return total + excess.ofEdges[edge]; });
  }

  template <typename Holds> bool anyNeighbour(unsigned node, Holds holds) const {
    const std::vector<unsigned> &edges = graph.edgesOf(node);
    return std::any_of(edges.begin(), edges.end(), [&](unsigned edge) { return holds(graph.otherEnd(edge, node)); });
  }

  // `lost`: only choices with a smaller margin are explored. Returns whether the result keeps the limit.
  bool improvePart(const DecisionGraph &costs, const Margins &margins, Cost lost, const std::vector<unsigned> &part) {
    constexpr unsigned kOutside = UINT_MAX;
    std::vector<unsigned> places(graph.numNodes(), kOutside);
    Kept kept;
    for (unsigned place = 0; place < part.size(); ++place) {
      places[part[place]] = place;
      kept.push_back(keepBelow(margins, part[place], lost));
    }
    DecisionGraph problem;
    for (unsigned place = 0; place < part.size(); ++place) {
      const unsigned node = part[place];
      std::vector<Cost> sums;
      for (unsigned choice : kept[place]) {
        Cost sum = costs.costs(node)[choice];
        for (unsigned edge : costs.edgesOf(node)) {
          if (const unsigned other = costs.otherEnd(edge, node); places[other] == kOutside) {
            sum = addCosts(sum, costs.edgeCost(edge, node, choice, (*best)[other]));
          }
        }
        sums.push_back(sum);
      }
      problem.addNode(std::move(sums));
    }
    for (unsigned place = 0; place < part.size(); ++place) {
      for (unsigned edge : costs.edgesOf(part[place])) {
        const unsigned other = places[costs.otherEnd(edge, part[place])];
        if (other == kOutside || other < place) {
          continue;
        }
        std::vector<Cost> table;
        for (unsigned choice : kept[place]) {
          for (unsigned otherChoice : kept[other]) {
            table.push_back(costs.edgeCost(edge, part[place], choice, otherChoice));
          }
        }
        problem.addEdge(place, other, table);
      }
    }
    Choices choices = *best;
    const Choices found = eliminate(problem, effort, kMostTableEntries / 16).choices;
    for (unsigned place = 0; place < part.size(); ++place) {
      choices[part[place]] = kept[place][found[place]];
    }
    consider(choices);
    return !limitMatters(choices);
  }

  // Returns so many nodes, those nearest to one.
  std::vector<unsigned> nodesAround(unsigned center, size_t count) const {
    std::vector<unsigned> nodes = {center};
    std::vector<bool> seen(graph.numNodes(), false);
    seen[center] = true;
    for (size_t next = 0; next < nodes.size() && nodes.size() < count; ++next) {
      for (unsigned edge : graph.edgesOf(nodes[next])) {
        if (const unsigned other = graph.otherEnd(edge, nodes[next]); !seen[other]) {
          seen[other] = true;
          nodes.push_back(other);
        }
      }
    }
    return nodes;
  }

  // Returns the choices whose margin is below a gap, and the best ones.
  Kept keepBelow(const Margins &margins, Cost gap) const {
    Kept kept;
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      kept.push_back(keepBelow(margins, node, gap));
    }
    return kept;
  }

  std::vector<unsigned> keepBelow(const Margins &margins, unsigned node, Cost gap) const {
    std::vector<unsigned> kept;
    for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
      if (choice == (*best)[node] || margins[node][choice] < gap) {
        kept.push_back(choice);
      }
    }
    return kept;
  }

  static Choices whole(const Kept &kept, Choices places) {
    for (unsigned node = 0; node < places.size(); ++node) {
      places[node] = kept[node][places[node]];
    }
    return places;
  }

  void finishByInteger(const Kept &kept) {
    Choices known;
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      known.push_back(std::find(kept[node].begin(), kept[node].end(), (*best)[node]) - kept[node].begin());
    }
    std::optional<Solution> exact = solveIntegerProgram(graph.restrict(kept), effort, request.limit, known);
    if (exact) {
      consider(whole(kept, exact->choices));
      bound = std::max(bound, std::min(exact->bound, graph.cost(*best)));
    }
  }

  static constexpr int kMostHalvings = 6;

  const DecisionGraph &graph;
  const Request &request;
  Effort &effort;
  const int64_t entries;           // of the graph
  std::vector<double> multipliers; // of rows
  Cost bound = 0;
  std::vector<Choices> others;
  std::optional<Choices> best, least; // that keep the limit and cost least; that take least
};

} // namespace

Found solve(const DecisionGraph &graph, const Request &request, Effort &effort) {
  return Search(graph, request, effort).run();
}

} // namespace ashlar::search
