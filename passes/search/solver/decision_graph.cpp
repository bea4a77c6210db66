// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a search problem.

#include "passes/search/solver/decision_graph.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace ashlar::search {

unsigned DecisionGraph::addNode(std::vector<Cost> costs) {
  assert(!costs.empty() && "a node needs a choice");
  nodes.push_back(std::move(costs));
  edgeNumbers.emplace_back();
  return nodes.size() - 1;
}

void DecisionGraph::addEdge(unsigned a, unsigned b, const std::vector<Cost> &costs) {
  assert(costs.size() == nodes[a].size() * nodes[b].size() && "one cost a pair");
  if (a == b) {
    for (unsigned choice = 0; choice < nodes[a].size(); ++choice) {
      addCost(a, choice, costs[choice * nodes[a].size() + choice]);
    }
    return;
  }
  auto sameNodes = [&](unsigned edge) { return edges[edge].a == a ? edges[edge].b == b : edges[edge].a == b && edges[edge].b == a; };
  auto found = std::find_if(edgeNumbers[a].begin(), edgeNumbers[a].end(), sameNodes);
  if (found == edgeNumbers[a].end()) {
    edgeNumbers[a].push_back(edges.size());
    edgeNumbers[b].push_back(edges.size());
    edges.push_back({a, b, costs});
    return;
  }
  Edge &edge = edges[*found];
  const size_t columns = nodes[b].size();
  for (size_t row = 0; row < nodes[a].size(); ++row) {
    for (size_t column = 0; column < columns; ++column) {
      Cost &total = edge.a == a ? edge.costs[row * columns + column] : edge.costs[column * nodes[a].size() + row];
      total = addCosts(total, costs[row * columns + column]);
    }
  }
}

int64_t DecisionGraph::countEntries() const {
  auto sizeOf = [](int64_t sum, const auto &costs) { return sum + static_cast<int64_t>(costs.size()); };
  const int64_t entries = std::accumulate(nodes.begin(), nodes.end(), int64_t(0), sizeOf);
  return std::accumulate(edges.begin(), edges.end(), entries, [&](int64_t sum, const Edge &edge) { return sizeOf(sum, edge.costs); });
}

Cost DecisionGraph::cost(const Choices &choices) const {
  Cost total = 0;
  for (size_t node = 0; node < nodes.size(); ++node) {
    total = addCosts(total, nodes[node][choices[node]]);
  }
  for (const Edge &edge : edges) {
    total = addCosts(total, edge.costs[choices[edge.a] * nodes[edge.b].size() + choices[edge.b]]);
  }
  return total;
}

int64_t DecisionGraph::amount(const Row &row, const Choices &choices) {
  int64_t total = row.fixed;
  for (const Row::Term &term : row.terms) {
    total += term.amounts[choices[term.node]];
  }
  return total;
}

int64_t DecisionGraph::largestAmount(const Choices &choices) const {
  int64_t largest = 0;
  for (const Row &row : rows) {
    largest = std::max(largest, amount(row, choices));
  }
  return largest;
}

void DecisionGraph::improve(Choices &choices, int64_t limit, size_t pinned) const {
  std::vector<int64_t> amounts;
  std::vector<std::vector<std::pair<size_t, const Row::Term *>>> termsOf(nodes.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    amounts.push_back(amount(rows[row], choices));
    for (const Row::Term &term : rows[row].terms) {
      termsOf[term.node].push_back({row, &term});
    }
  }
  for (bool improved = true; improved;) {
    improved = false;
    for (unsigned node = 0; node < nodes.size(); ++node) {
      if (node == pinned) {
        continue;
      }
      auto costAt = [&](unsigned choice) {
        Cost sum = nodes[node][choice];
        for (unsigned edge : edgeNumbers[node]) {
          sum = addCosts(sum, edgeCost(edge, node, choice, choices[otherEnd(edge, node)]));
        }
        return sum;
      };
      auto keepsLimit = [&](unsigned choice) {
        return std::all_of(termsOf[node].begin(), termsOf[node].end(), [&](const auto &item) {
          const auto &[row, term] = item;
          const int64_t more = term->amounts[choice] - term->amounts[choices[node]];
          return more <= 0 || amounts[row] + more <= limit;
        });
      };
      Cost least = costAt(choices[node]);
      for (unsigned choice = 0; choice < nodes[node].size(); ++choice) {
        if (choice != choices[node] && costAt(choice) < least && keepsLimit(choice)) {
          least = costAt(choice);
          for (const auto &[row, term] : termsOf[node]) {
            amounts[row] += term->amounts[choice] - term->amounts[choices[node]];
          }
          choices[node] = choice;
          improved = true;
        }
      }
    }
  }
}

DecisionGraph DecisionGraph::restrict(const std::vector<std::vector<unsigned>> &kept) const {
  DecisionGraph smaller;
  for (unsigned node = 0; node < nodes.size(); ++node) {
    std::vector<Cost> costs;
    for (unsigned choice : kept[node]) {
      costs.push_back(nodes[node][choice]);
    }
    smaller.addNode(std::move(costs));
  }
  for (unsigned number = 0; number < edges.size(); ++number) {
    std::vector<Cost> costs;
    for (unsigned a : kept[edges[number].a]) {
      for (unsigned b : kept[edges[number].b]) {
        costs.push_back(edgeCost(number, edges[number].a, a, b));
      }
    }
    smaller.addEdge(edges[number].a, edges[number].b, costs);
  }
  for (const Row &row : rows) {
    Row &made = smaller.rows.emplace_back();
    made.fixed = row.fixed;
    for (const Row::Term &term : row.terms) {
      made.terms.push_back({term.node, {}});
      for (unsigned choice : kept[term.node]) {
        made.terms.back().amounts.push_back(term.amounts[choice]);
      }
    }
  }
  return smaller;
}

} // namespace ashlar::search
