// SPDX-License-Identifier: Apache-2.0
//
// Bucket elimination, narrowest node first, of the choices that may be worth something.

#include "passes/search/elimination.h"

#include "passes/search/domination.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace ashlar::search {

namespace {

// A function of some nodes' choices.
struct Table {
  std::vector<unsigned> nodes; // the last one varies fastest
  std::vector<Cost> costs;
};

class Elimination {
public:
  Elimination(const DecisionGraph &graph, size_t mostEntries) : graph(graph), mostEntries(mostEntries) {
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      own.push_back(graph.costs(node));
    }
    alive = findWorthwhile(graph, own);
  }

  Solution run() {
    makeTables();
    Solution solution;
    bool isExact = true;
    for (size_t left = graph.numNodes(); left > 0; --left) {
      isExact &= eliminateNode(pickNode());
    }
    solution.bound = constant;
    solution.choices.resize(graph.numNodes());
    for (size_t step = order.size(); step-- > 0;) {
      solution.choices[order[step]] = bestChoice(order[step], buckets[step], solution.choices);
    }
    if (!isExact) {
      graph.improve(solution.choices);
    }
    solution.cost = graph.cost(solution.choices);
    assert((!isExact || solution.cost == solution.bound) && "an exact elimination finds what it promises");
    return solution;
  }

private:
  // Makes tables of what is left: one a node and one an edge.
  void makeTables() {
    tablesOf.resize(graph.numNodes());
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      Table table{{node}, {}};
      for (unsigned choice : alive[node]) {
        table.costs.push_back(own[node][choice]);
      }
      addTable(std::move(table));
    }
    for (const Edge &edge : graph.getEdges()) {
      Table table{{edge.a, edge.b}, {}};
      for (unsigned a : alive[edge.a]) {
        for (unsigned b : alive[edge.b]) {
          table.costs.push_back(edge.costs[a * graph.numChoices(edge.b) + b]);
        }
      }
      addTable(std::move(table));
    }
    widths.resize(graph.numNodes());
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      updateWidth(node);
    }
  }

  void addTable(Table table) {
    for (unsigned node : table.nodes) {
      tablesOf[node].push_back(tables.size());
    }
    tables.push_back(std::move(table));
  }

  std::vector<unsigned> neighboursOf(unsigned node) const {
    std::vector<unsigned> neighbours;
    for (unsigned table : tablesOf[node]) {
      neighbours.insert(neighbours.end(), tables[table].nodes.begin(), tables[table].nodes.end());
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    neighbours.erase(std::find(neighbours.begin(), neighbours.end(), node));
    return neighbours;
  }

  // Keeps nodes sorted by the table that eliminating them makes.
  void updateWidth(unsigned node) {
    byWidth.erase({widths[node], node});
    double entries = 1;
    for (unsigned neighbour : neighboursOf(node)) {
      entries *= alive[neighbour].size();
    }
    widths[node] = entries;
    byWidth.insert({entries, node});
  }

  unsigned pickNode() const { return byWidth.begin()->second; }

  // Returns whether the node was eliminated into one table.
  bool eliminateNode(unsigned node) {
    byWidth.erase({widths[node], node});
    std::vector<unsigned> neighbours = neighboursOf(node);
    std::vector<unsigned> bucket = tablesOf[node];
    // Groups of tables that go into one each: all of them, where that is not too large.
    std::vector<std::vector<unsigned>> groups;
    if (widths[node] * alive[node].size() <= mostEntries) {
      groups.push_back(bucket);
    } else {
      groups = splitBucket(bucket);
    }
    for (unsigned table : bucket) {
      for (unsigned member : tables[table].nodes) {
        tablesOf[member].erase(std::find(tablesOf[member].begin(), tablesOf[member].end(), table));
      }
    }
    order.push_back(node);
    buckets.push_back(std::move(bucket));
    for (const std::vector<unsigned> &group : groups) {
      Table made = minimize(node, group);
      if (made.nodes.empty()) {
        constant = addCosts(constant, made.costs.front());
      } else {
        addTable(std::move(made));
      }
    }
    for (unsigned neighbour : neighbours) {
      updateWidth(neighbour);
    }
    return groups.size() == 1;
  }

  // Puts the largest tables first, each into the first group that stays small enough.
  std::vector<std::vector<unsigned>> splitBucket(std::vector<unsigned> bucket) const {
    std::sort(bucket.begin(), bucket.end(),
              [&](unsigned a, unsigned b) { return std::pair(tables[b].costs.size(), a) < std::pair(tables[a].costs.size(), b); });
    std::vector<std::vector<unsigned>> groups;
    std::vector<std::set<unsigned>> members;
    auto entries = [&](const std::set<unsigned> &nodes) {
      double product = 1;
      for (unsigned member : nodes) {
        product *= alive[member].size();
      }
      return product;
    };
    for (unsigned table : bucket) {
      bool placed = false;
      for (size_t group = 0; group < groups.size() && !placed; ++group) {
        std::set<unsigned> joined = members[group];
        joined.insert(tables[table].nodes.begin(), tables[table].nodes.end());
        if (entries(joined) <= mostEntries) {
          groups[group].push_back(table);
          members[group] = std::move(joined);
          placed = true;
        }
      }
      if (!placed) {
        groups.push_back({table});
        members.emplace_back(tables[table].nodes.begin(), tables[table].nodes.end());
      }
    }
    return groups;
  }

  // Returns, for each choice of the other nodes of some tables, the least sum of them over the choices of `node`.
  Table minimize(unsigned node, const std::vector<unsigned> &group) const {
    Table made;
    for (unsigned table : group) {
      for (unsigned member : tables[table].nodes) {
        if (member != node && std::find(made.nodes.begin(), made.nodes.end(), member) == made.nodes.end()) {
          made.nodes.push_back(member);
        }
      }
    }
    // The steps by which each table's place moves when one node's choice does.
    const size_t numOthers = made.nodes.size();
    std::vector<std::vector<size_t>> steps(group.size(), std::vector<size_t>(numOthers, 0));
    std::vector<size_t> ownStep(group.size(), 0);
    for (size_t g = 0; g < group.size(); ++g) {
      size_t step = 1;
      const Table &table = tables[group[g]];
      for (size_t place = table.nodes.size(); place-- > 0;) {
        unsigned member = table.nodes[place];
        if (member == node) {
          ownStep[g] = step;
        } else {
          steps[g][std::find(made.nodes.begin(), made.nodes.end(), member) - made.nodes.begin()] = step;
        }
        step *= alive[member].size();
      }
    }
    size_t entries = 1;
    for (unsigned member : made.nodes) {
      entries *= alive[member].size();
    }
    made.costs.resize(entries);
    std::vector<unsigned> digits(numOthers, 0);
    std::vector<size_t> offsets(group.size(), 0);
    for (size_t entry = 0; entry < entries; ++entry) {
      Cost least = kForbidden;
      for (size_t choice = 0; choice < alive[node].size(); ++choice) {
        Cost sum = 0;
        for (size_t g = 0; g < group.size(); ++g) {
          sum = addCosts(sum, tables[group[g]].costs[offsets[g] + choice * ownStep[g]]);
        }
        least = std::min(least, sum);
      }
      made.costs[entry] = least;
      for (size_t place = numOthers; place-- > 0;) {
        for (size_t g = 0; g < group.size(); ++g) {
          offsets[g] += steps[g][place];
        }
        if (++digits[place] < alive[made.nodes[place]].size()) {
          break;
        }
        for (size_t g = 0; g < group.size(); ++g) {
          offsets[g] -= steps[g][place] * digits[place];
        }
        digits[place] = 0;
      }
    }
    return made;
  }

  // Returns the best choice of a node, those of the other nodes of its tables being known.
  unsigned bestChoice(unsigned node, const std::vector<unsigned> &bucket, const Choices &choices) const {
    Cost least = kForbidden;
    unsigned best = alive[node].front();
    for (size_t position = 0; position < alive[node].size(); ++position) {
      Cost sum = 0;
      for (unsigned number : bucket) {
        const Table &table = tables[number];
        size_t offset = 0;
        for (unsigned member : table.nodes) {
          size_t place = position;
          if (member != node) {
            place = std::find(alive[member].begin(), alive[member].end(), choices[member]) - alive[member].begin();
          }
          offset = offset * alive[member].size() + place;
        }
        sum = addCosts(sum, table.costs[offset]);
      }
      if (sum < least) {
        least = sum;
        best = alive[node][position];
      }
    }
    return best;
  }

  const DecisionGraph &graph;
  size_t mostEntries;
  std::vector<std::vector<Cost>> own;       // by node and choice
  std::vector<std::vector<unsigned>> alive; // by node: choices that are not left out
  std::vector<Table> tables;
  std::vector<std::vector<unsigned>> tablesOf; // by node: tables that it is in and that nothing was made of yet
  std::vector<double> widths;                  // by node: entries of the table that eliminating it makes
  std::set<std::pair<double, unsigned>> byWidth;
  std::vector<unsigned> order;
  std::vector<std::vector<unsigned>> buckets; // by step: the tables that the node was in
  Cost constant = 0;
};

} // namespace

Solution eliminate(const DecisionGraph &graph, size_t mostEntries) {
  return Elimination(graph, mostEntries).run();
}

} // namespace ashlar::search
