// SPDX-License-Identifier: Apache-2.0
//
// Message passing in whole numbers, so that a bound is one.

#include "passes/search/relaxation.h"

#include <algorithm>

namespace ashlar::search {

namespace {

// What may not be stays so, whatever is moved.
bool isForbidden(Cost cost) {
  return cost >= kForbidden / 2;
}

Cost subtract(Cost cost, Cost moved) {
  return isForbidden(cost) ? kForbidden : cost - moved;
}

Cost leastOf(const std::vector<Cost> &costs) {
  return *std::min_element(costs.begin(), costs.end());
}

} // namespace

Relaxation::Relaxation(const DecisionGraph &graph) : graph(graph) {
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    unary.push_back(graph.costs(node));
  }
  for (const Edge &edge : graph.getEdges()) {
    pairs.push_back(edge.costs);
  }
}

void Relaxation::visit(unsigned number) {
  const Edge &edge = graph.getEdges()[number];
  std::vector<Cost> &a = unary[edge.a], &b = unary[edge.b], &pair = pairs[number];
  const size_t rows = a.size(), columns = b.size();
  // All costs go to the edge; then half of what a row must pay goes to a, what columns must pay to b, and the rest of the rows to a.
  std::vector<Cost> ofRows(rows, kForbidden), ofColumns(columns, kForbidden);
  for (size_t row = 0; row < rows; ++row) {
    Cost least = kForbidden;
    for (size_t column = 0; column < columns; ++column) {
      Cost &cost = pair[row * columns + column];
      cost = isForbidden(cost) || isForbidden(a[row]) || isForbidden(b[column]) ? kForbidden : cost + a[row] + b[column];
      least = std::min(least, cost);
    }
    ofRows[row] = isForbidden(least) ? kForbidden : least >> 1;
  }
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      Cost &cost = pair[row * columns + column];
      cost = subtract(cost, ofRows[row]);
      ofColumns[column] = std::min(ofColumns[column], cost);
    }
  }
  for (size_t row = 0; row < rows; ++row) {
    Cost least = kForbidden;
    for (size_t column = 0; column < columns; ++column) {
      Cost &cost = pair[row * columns + column];
      cost = subtract(cost, ofColumns[column]);
      least = std::min(least, cost);
    }
    if (isForbidden(least)) {
      a[row] = kForbidden;
      continue;
    }
    for (size_t column = 0; column < columns; ++column) {
      pair[row * columns + column] = subtract(pair[row * columns + column], least);
    }
    a[row] = ofRows[row] + least;
  }
  b = ofColumns;
}

void Relaxation::run(int passes) {
  Cost before = bound();
  for (int pass = 0; pass < passes; ++pass) {
    for (unsigned number = 0; number < pairs.size(); ++number) {
      visit(pass % 2 == 0 ? number : pairs.size() - 1 - number);
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
    total = addCosts(total, leastOf(costs));
  }
  for (const std::vector<Cost> &costs : pairs) {
    total = addCosts(total, leastOf(costs));
  }
  return total;
}

Cost Relaxation::margin(unsigned node, unsigned choice) const {
  if (isForbidden(unary[node][choice])) {
    return kForbidden;
  }
  Cost margin = unary[node][choice] - leastOf(unary[node]);
  for (unsigned number : graph.edgesOf(node)) {
    const Edge &edge = graph.getEdges()[number];
    const size_t columns = graph.numChoices(edge.b);
    Cost least = kForbidden;
    for (size_t other = 0; other < graph.numChoices(graph.otherEnd(number, node)); ++other) {
      least = std::min(least, pairs[number][edge.a == node ? choice * columns + other : other * columns + choice]);
    }
    if (isForbidden(least)) {
      return kForbidden;
    }
    margin = addCosts(margin, least - leastOf(pairs[number]));
  }
  return margin;
}

Choices Relaxation::round() const {
  Choices choices(graph.numNodes(), 0);
  std::vector<bool> isChosen(graph.numNodes(), false);
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    Cost least = INT64_MAX;
    for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
      Cost cost = unary[node][choice];
      for (unsigned number : graph.edgesOf(node)) {
        const unsigned other = graph.otherEnd(number, node);
        const Edge &edge = graph.getEdges()[number];
        const size_t columns = graph.numChoices(edge.b);
        Cost pair = kForbidden;
        if (isChosen[other]) {
          pair = pairs[number][edge.a == node ? choice * columns + choices[other] : choices[other] * columns + choice];
        } else {
          for (size_t next = 0; next < graph.numChoices(other); ++next) {
            pair = std::min(pair, pairs[number][edge.a == node ? choice * columns + next : next * columns + choice]);
          }
        }
        cost = addCosts(cost, pair);
      }
      if (cost < least) {
        least = cost;
        choices[node] = choice;
      }
    }
    isChosen[node] = true;
  }
  return choices;
}

} // namespace ashlar::search
