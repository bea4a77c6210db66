// SPDX-License-Identifier: Apache-2.0
//
// Message passing in whole numbers, so that a bound is one.

#include "passes/search/solver/relaxation.h"

#include "passes/search/solver/least_of_table.h"

#include <algorithm>

namespace ashlar::search {

namespace {

// What may not be stays so, whatever is moved.
bool isForbidden(Cost cost) {
  return cost >= kForbidden / 2;
}

// Sums of what may not be stop there.
Cost stopped(Cost cost) {
  return isForbidden(cost) ? kForbidden : cost;
}

constexpr int64_t kLooksOfPass = 3; // at each entry: for rows, columns, and rows again

Cost leastIn(const std::vector<Cost> &costs) {
  return *std::min_element(costs.begin(), costs.end());
}

} // namespace

Relaxation::Relaxation(const DecisionGraph &graph) : graph(graph) {
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    unary.push_back(graph.costs(node));
  }
  for (const Edge &edge : graph.getEdges()) {
    moved.push_back({std::vector<Cost>(graph.numChoices(edge.a), 0), std::vector<Cost>(graph.numChoices(edge.b), 0)});
  }
}

void Relaxation::visit(unsigned number) {
  const Edge &edge = graph.getEdges()[number];
  std::vector<Cost> &a = unary[edge.a], &b = unary[edge.b], &ofRows = moved[number].ofRows, &ofColumns = moved[number].ofColumns;
  const size_t rows = a.size(), columns = b.size();
  // All costs go to the edge.
  for (size_t row = 0; row < rows; ++row) {
    ofRows[row] = isForbidden(a[row]) ? kForbidden : ofRows[row] + a[row];
  }
  for (size_t column = 0; column < columns; ++column) {
    ofColumns[column] = isForbidden(b[column]) ? kForbidden : ofColumns[column] + b[column];
  }
  // Half of what a row must pay goes to a.
  least.resize(std::max(rows, columns));
  findLeastOfRows(edge.costs.data(), ofColumns.data(), rows, columns, least.data());
  for (size_t row = 0; row < rows; ++row) {
    const Cost all = least[row] + ofRows[row];
    a[row] = isForbidden(all) ? kForbidden : all >> 1;
    ofRows[row] = isForbidden(all) ? kForbidden : ofRows[row] - a[row];
  }
  // What columns must pay goes to b.
  findLeastOfColumns(edge.costs.data(), ofRows.data(), rows, columns, least.data());
  for (size_t column = 0; column < columns; ++column) {
    const Cost all = least[column] + ofColumns[column];
    b[column] = isForbidden(all) ? kForbidden : all;
    ofColumns[column] = isForbidden(all) ? kForbidden : ofColumns[column] - all;
  }
  // The rest of the rows goes to a.
  findLeastOfRows(edge.costs.data(), ofColumns.data(), rows, columns, least.data());
  for (size_t row = 0; row < rows; ++row) {
    const Cost rest = isForbidden(a[row]) ? 0 : least[row] + ofRows[row];
    a[row] += rest;
    ofRows[row] -= rest;
  }
}

void Relaxation::run(int passes, Effort &effort) {
  const int64_t entries = graph.countEntries();
  Cost before = bound();
  for (int pass = 0; pass < passes && !effort.isOver(); ++pass) {
    effort.count(kLooksOfPass * entries);
    for (unsigned number = 0; number < moved.size(); ++number) {
      visit(pass % 2 == 0 ? number : moved.size() - 1 - number);
    }
    if (pass % 8 == 7) {
      Cost now = bound();
      if (now - before <= before >> 20) {
        return;
      }
      before = now;
    }
  }
}

Cost Relaxation::bound() const {
  Cost total = 0;
  for (const std::vector<Cost> &costs : unary) {
    total = addCosts(total, leastIn(costs));
  }
  for (unsigned number = 0; number < moved.size(); ++number) {
    total = addCosts(total, leastIn(leastOf(number, graph.getEdges()[number].a)));
  }
  return total;
}

std::vector<Cost> Relaxation::leastOf(unsigned number, unsigned node) const {
  const Edge &edge = graph.getEdges()[number];
  const auto &[ofRows, ofColumns] = moved[number];
  std::vector<Cost> least(graph.numChoices(node));
  if (node == edge.a) {
    findLeastOfRows(edge.costs.data(), ofColumns.data(), ofRows.size(), ofColumns.size(), least.data());
  } else {
    findLeastOfColumns(edge.costs.data(), ofRows.data(), ofRows.size(), ofColumns.size(), least.data());
  }
  for (size_t choice = 0; choice < least.size(); ++choice) {
    least[choice] = stopped(least[choice] + (node == edge.a ? ofRows : ofColumns)[choice]);
  }
  return least;
}

Cost Relaxation::left(unsigned number, unsigned node, unsigned choice, unsigned other) const {
  const bool isA = graph.getEdges()[number].a == node;
  const Cost cost = graph.edgeCost(number, node, choice, other) + moved[number].ofRows[isA ? choice : other] +
                    moved[number].ofColumns[isA ? other : choice];
  return stopped(cost);
}

std::vector<std::vector<Cost>> Relaxation::margins() const {
  std::vector<std::vector<Cost>> margins;
  auto add = [&](unsigned node, const std::vector<Cost> &costs) {
    const Cost least = leastIn(costs);
    for (size_t choice = 0; choice < costs.size(); ++choice) {
      Cost &margin = margins[node][choice];
      margin = isForbidden(costs[choice]) ? kForbidden : addCosts(margin, costs[choice] - least);
    }
  };
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    margins.emplace_back(graph.numChoices(node), 0);
    add(node, unary[node]);
  }
  for (unsigned number = 0; number < moved.size(); ++number) {
    for (unsigned node : {graph.getEdges()[number].a, graph.getEdges()[number].b}) {
      add(node, leastOf(number, node));
    }
  }
  return margins;
}

Relaxation::Excess Relaxation::excessOf(const Choices &choices) const {
  Excess excess;
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    excess.ofNodes.push_back(unary[node][choices[node]] - leastIn(unary[node]));
  }
  for (unsigned number = 0; number < moved.size(); ++number) {
    const Edge &edge = graph.getEdges()[number];
    excess.ofEdges.push_back(left(number, edge.a, choices[edge.a], choices[edge.b]) - leastIn(leastOf(number, edge.a)));
  }
  return excess;
}

Choices Relaxation::round() const {
  Choices choices(graph.numNodes(), 0);
  std::vector<bool> isChosen(graph.numNodes(), false);
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    std::vector<Cost> costs = unary[node];
    for (unsigned number : graph.edgesOf(node)) {
      const unsigned other = graph.otherEnd(number, node);
      const std::vector<Cost> least = isChosen[other] ? std::vector<Cost>() : leastOf(number, node);
      for (unsigned choice = 0; choice < costs.size(); ++choice) {
        costs[choice] = addCosts(costs[choice], isChosen[other] ? left(number, node, choice, choices[other]) : least[choice]);
      }
    }
    choices[node] = std::min_element(costs.begin(), costs.end()) - costs.begin();
    isChosen[node] = true;
  }
  return choices;
}

} // namespace ashlar::search
