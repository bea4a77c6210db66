// SPDX-License-Identifier: Apache-2.0
//
// Bucket elimination, narrowest node first, of the choices that may be worth something.

#include "passes/search/solver/elimination.h"

#include "passes/search/solver/domination.h"

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

// Entries of a table that are so many steps apart.
struct Run {
  size_t size, step;
};

// Adds a run of runs: to the last one where both are one.
void addRun(std::vector<Run> &runs, Run run) {
  if (!runs.empty() && runs.back().step == run.size * run.step) {
    runs.back() = {runs.back().size * run.size, run.step};
  } else {
    runs.push_back(run);
  }
}

// Adds the entries that lie at runs of runs to `count` sums.
void addRuns(const Cost *costs, const Run *run, const Run *end, Cost *sums, size_t count) {
  if (run == end) {
    sums[0] = addCosts(sums[0], costs[0]);
  } else if (run + 1 < end) {
    const size_t each = count / run->size;
    for (size_t i = 0; i < run->size; ++i) {
      addRuns(costs + i * run->step, run + 1, end, sums + i * each, each);
    }
  } else if (run->step == 1) {
    for (size_t i = 0; i < count; ++i) {
      sums[i] = addCosts(sums[i], costs[i]);
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      sums[i] = addCosts(sums[i], costs[i * run->step]);
    }
  }
}

class Elimination {
public:
  Elimination(const DecisionGraph &graph, Effort &effort, size_t mostEntries)
      : graph(graph), effort(effort), mostEntries(mostEntries), seen(graph.numNodes(), 0) {
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
      mostEntries = effort.isOver() ? 1 : mostEntries;
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
    assert((!isExact || solution.cost == solution.bound) && "an exact elimination keeps its promise");
    return solution;
  }

private:
  static constexpr size_t kMostBlock = 1024;

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

  template <typename Visit> void forEachNeighbour(unsigned node, Visit visit) {
    seen[node] = ++looks;
    for (unsigned table : tablesOf[node]) {
      for (unsigned member : tables[table].nodes) {
        if (seen[member] != looks) {
          seen[member] = looks;
          visit(member);
        }
      }
    }
  }

  // Keeps nodes sorted by the table that eliminating them makes.
  void updateWidth(unsigned node) {
    double entries = 1;
    forEachNeighbour(node, [&](unsigned neighbour) { entries *= alive[neighbour].size(); });
    if (entries != widths[node]) {
      byWidth.erase({widths[node], node});
      widths[node] = entries;
      byWidth.insert({entries, node});
    }
  }

  unsigned pickNode() const { return byWidth.begin()->second; }

  // Returns whether the node was eliminated into one table.
  bool eliminateNode(unsigned node) {
    byWidth.erase({widths[node], node});
    std::vector<unsigned> neighbours;
    forEachNeighbour(node, [&](unsigned neighbour) { neighbours.push_back(neighbour); });
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

  // A table as what minimize() adds up: the steps by which its place moves when one node's choice does.
  struct Part {
    const Cost *costs; // at the choices of the moment
    size_t ownStep;    // of the node that is eliminated
    std::vector<size_t> steps;
    std::vector<Run> runs; // of the entries that are looked at together
  };

  Part partOf(const Table &table, unsigned node, const std::vector<unsigned> &others) const {
    Part part{table.costs.data(), 0, std::vector<size_t>(others.size(), 0), {}};
    size_t step = 1;
    for (size_t place = table.nodes.size(); place-- > 0;) {
      unsigned member = table.nodes[place];
      if (member == node) {
        part.ownStep = step;
      } else {
        part.steps[std::find(others.begin(), others.end(), member) - others.begin()] = step;
      }
      step *= alive[member].size();
    }
    return part;
  }

  // Returns the nodes of some tables but one; those of the largest table last, in its order: its costs then lie one after the other.
  std::vector<unsigned> othersIn(std::vector<unsigned> group, unsigned node) const {
    std::iter_swap(group.begin(), std::max_element(group.begin(), group.end(), [&](unsigned a, unsigned b) {
                     return tables[a].costs.size() < tables[b].costs.size();
                   }));
    std::vector<unsigned> others;
    for (unsigned table : group) {
      for (size_t place = tables[table].nodes.size(); place-- > 0;) {
        const unsigned member = tables[table].nodes[place];
        if (member != node && std::find(others.begin(), others.end(), member) == others.end()) {
          others.push_back(member);
        }
      }
    }
    std::reverse(others.begin(), others.end());
    return others;
  }

  // Returns, for each choice of the other nodes of some tables, the least sum of them over the choices of `node`.
  Table minimize(unsigned node, const std::vector<unsigned> &group) {
    Table made{othersIn(group, node), {}};
    std::vector<Part> parts;
    for (unsigned table : group) {
      parts.push_back(partOf(tables[table], node, made.nodes));
    }
    // The last nodes make blocks of entries, so many as stay in the first-level cache.
    size_t outer = made.nodes.size(), block = 1;
    while (outer > 0 && block * alive[made.nodes[outer - 1]].size() <= kMostBlock) {
      block *= alive[made.nodes[--outer]].size();
    }
    size_t entries = block;
    for (size_t place = 0; place < outer; ++place) {
      entries *= alive[made.nodes[place]].size();
    }
    for (Part &part : parts) {
      for (size_t place = outer; place < made.nodes.size(); ++place) {
        addRun(part.runs, {alive[made.nodes[place]].size(), part.steps[place]});
      }
    }
    effort.count(static_cast<int64_t>(entries * alive[node].size() * group.size()));
    made.costs.assign(entries, kForbidden);
    std::vector<unsigned> digits(outer, 0);
    std::vector<Cost> sums(block);
    for (Cost *least = made.costs.data(); least != made.costs.data() + entries; least += block) {
      for (size_t choice = 0; choice < alive[node].size(); ++choice) {
        std::fill(sums.begin(), sums.end(), 0);
        for (const Part &part : parts) {
          addRuns(part.costs + choice * part.ownStep, part.runs.data(), part.runs.data() + part.runs.size(), sums.data(), block);
        }
        for (size_t entry = 0; entry < block; ++entry) {
          least[entry] = std::min(least[entry], sums[entry]);
        }
      }
      for (size_t place = outer; place-- > 0;) {
        const bool isLast = ++digits[place] == alive[made.nodes[place]].size();
        for (Part &part : parts) {
          part.costs += part.steps[place];
          part.costs -= isLast ? part.steps[place] * digits[place] : 0;
        }
        if (!isLast) {
          break;
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
  Effort &effort;
  size_t mostEntries;
  std::vector<std::vector<Cost>> own;       // by node and choice
  std::vector<std::vector<unsigned>> alive; // by node: choices that are not left out
  std::vector<Table> tables;
  std::vector<std::vector<unsigned>> tablesOf; // by node: tables that it is in and that nothing was made of yet
  std::vector<double> widths;                  // by node: entries of the table that eliminating it makes
  std::set<std::pair<double, unsigned>> byWidth;
  std::vector<size_t> seen; // by node: the last look at neighbours that met it
  size_t looks = 0;
  std::vector<unsigned> order;
  std::vector<std::vector<unsigned>> buckets; // by step: the tables that the node was in
  Cost constant = 0;
};

} // namespace

Solution eliminate(const DecisionGraph &graph, Effort &effort, size_t mostEntries) {
  return Elimination(graph, effort, mostEntries).run();
}

} // namespace ashlar::search
