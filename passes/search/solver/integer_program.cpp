// SPDX-License-Identifier: Apache-2.0
//
// First the graph is made smaller without loss: dominated choices are removed, nodes that take nothing of a row and have at most two
// neighbours are folded into these. The rest goes to the solver: for each node its choices add up to 1, and so do the pairs of an edge for
// each choice at either end (the local polytope, which is integral on most graphs of layouts already).

#include "passes/search/solver/integer_program.h"

#include "passes/search/solver/domination.h"

#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <climits>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace ashlar::search {

namespace {

// The grace time of Clp beyond the time of a search: CBC ends it in time, except for a single step of Clp.
constexpr double kGraceSeconds = 5;
// CBC prepares the search, which solves the relaxation a few times, where at least as often as this many iterations are left for it.
constexpr int64_t kRelaxations = 4;

// State: the remaining graph. A folded node remembers its cost given its neighbours, to be chosen once they are.
class Fold {
public:
  Fold(const DecisionGraph &graph) : graph(graph), isFolded(graph.numNodes(), false) {
    std::vector<std::vector<Cost>> all;
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      all.push_back(graph.costs(node));
    }
    alive = findWorthwhile(graph, all, /*keepsAmounts=*/true);
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      std::vector<Cost> &costs = own.emplace_back();
      for (unsigned choice : alive[node]) {
        costs.push_back(all[node][choice]);
      }
    }
    neighbours.resize(graph.numNodes());
    for (unsigned number = 0; number < graph.getEdges().size(); ++number) {
      const Edge &edge = graph.getEdges()[number];
      std::vector<Cost> costs;
      for (unsigned a : alive[edge.a]) {
        for (unsigned b : alive[edge.b]) {
          costs.push_back(graph.edgeCost(number, edge.a, a, b));
        }
      }
      addPair(edge.a, edge.b, costs);
    }
    for (const Row &row : graph.rows) {
      for (const Row::Term &term : row.terms) {
        limited.insert(term.node);
      }
    }
    foldAll();
  }

  // Chooses for the folded nodes, last folded first.
  void unfold(Choices &places) const {
    for (auto folded = order.rbegin(); folded != order.rend(); ++folded) {
      Cost least = std::numeric_limits<Cost>::max();
      for (unsigned place = 0; place < folded->costs.size(); ++place) {
        Cost sum = folded->costs[place];
        for (const auto &[neighbour, costs] : folded->pairs) {
          sum = addCosts(sum, costs[place * alive[neighbour].size() + places[neighbour]]);
        }
        if (sum < least) {
          least = sum;
          places[folded->node] = place;
        }
      }
    }
  }

  const DecisionGraph &graph;
  std::vector<std::vector<unsigned>> alive;                         // by node
  std::vector<std::vector<Cost>> own;                               // by node and place among live choices
  std::map<std::pair<unsigned, unsigned>, std::vector<Cost>> pairs; // lower node first
  std::vector<bool> isFolded;
  Cost constant = 0; // of folded nodes without neighbours

private:
  struct Folded {
    unsigned node;
    std::vector<Cost> costs;
    std::vector<std::pair<unsigned, std::vector<Cost>>> pairs; // neighbour; this node's choices are the rows
  };

  void addPair(unsigned a, unsigned b, const std::vector<Cost> &costs) {
    const bool isTurned = a > b;
    std::vector<Cost> &total = pairs[std::minmax(a, b)];
    total.resize(costs.size(), 0);
    for (size_t row = 0; row < alive[a].size(); ++row) {
      for (size_t column = 0; column < alive[b].size(); ++column) {
        Cost &place = total[isTurned ? column * alive[a].size() + row : row * alive[b].size() + column];
        place = addCosts(place, costs[row * alive[b].size() + column]);
      }
    }
    neighbours[a].insert(b);
    neighbours[b].insert(a);
  }

  std::vector<Cost> takePair(unsigned node, unsigned other) {
    auto found = pairs.find(std::minmax(node, other));
    std::vector<Cost> costs(found->second.size());
    for (size_t row = 0; row < alive[node].size(); ++row) {
      for (size_t column = 0; column < alive[other].size(); ++column) {
        costs[row * alive[other].size() + column] =
            found->second[node < other ? row * alive[other].size() + column : column * alive[node].size() + row];
      }
    }
    pairs.erase(found);
    neighbours[node].erase(other);
    neighbours[other].erase(node);
    return costs;
  }

  void foldAll() {
    for (bool changed = true; changed;) {
      changed = false;
      for (unsigned node = 0; node < own.size(); ++node) {
        bool isFree = limited.count(node) == 0 || alive[node].size() == 1;
        if (isFree && !isFolded[node] && neighbours[node].size() <= 2) {
          fold(node);
          changed = true;
        }
      }
    }
  }

  void fold(unsigned node) {
    Folded folded{node, own[node], {}};
    for (unsigned other : std::vector<unsigned>(neighbours[node].begin(), neighbours[node].end())) {
      folded.pairs.emplace_back(other, takePair(node, other));
    }
    auto least = [&](auto costAt) {
      Cost best = kForbidden;
      for (size_t place = 0; place < folded.costs.size(); ++place) {
        best = std::min(best, costAt(place));
      }
      return best;
    };
    auto pairCost = [&](size_t number, size_t place, size_t other) {
      return folded.pairs[number].second[place * alive[folded.pairs[number].first].size() + other];
    };
    if (folded.pairs.size() == 2) {
      const unsigned a = folded.pairs[0].first, b = folded.pairs[1].first;
      std::vector<Cost> made;
      for (size_t i = 0; i < alive[a].size(); ++i) {
        for (size_t j = 0; j < alive[b].size(); ++j) {
          made.push_back(
              least([&](size_t place) { return addCosts(folded.costs[place], addCosts(pairCost(0, place, i), pairCost(1, place, j))); }));
        }
      }
      addPair(a, b, made);
    } else if (folded.pairs.size() == 1) {
      const unsigned a = folded.pairs[0].first;
      for (size_t i = 0; i < alive[a].size(); ++i) {
        own[a][i] = addCosts(own[a][i], least([&](size_t place) { return addCosts(folded.costs[place], pairCost(0, place, i)); }));
      }
    } else {
      constant = addCosts(constant, least([&](size_t place) { return folded.costs[place]; }));
    }
    isFolded[node] = true;
    order.push_back(std::move(folded));
  }

  std::vector<std::set<unsigned>> neighbours;
  std::set<unsigned> limited; // nodes that take something of a row
  std::vector<Folded> order;
};

// The program in the solver's form: rows are collected and handed over at once, since the solver moves all it has for each that is added.
class SolverModel {
public:
  SolverModel(const Fold &fold, int64_t limit, double unit) : fold(fold) {
    firstVariable.resize(fold.own.size(), -1);
    for (unsigned node = 0; node < fold.own.size(); ++node) {
      if (fold.isFolded[node]) {
        continue;
      }
      firstVariable[node] = objective.size();
      std::vector<int> variables;
      for (Cost cost : fold.own[node]) {
        integers.push_back(addVariable(cost, unit));
        variables.push_back(integers.back());
      }
      addRow(variables, std::vector<double>(variables.size(), 1), 1, 1);
    }
    for (const auto &[nodes, costs] : fold.pairs) {
      addPair(nodes.first, nodes.second, costs, unit);
    }
    for (const Row &row : fold.graph.rows) {
      addLimit(row, limit);
    }
  }

  // Returns the place of the choice of each node that was not folded, and the proven bound; nothing when no choices were found.
  std::optional<std::pair<Choices, double>> solve(Effort &effort, const std::optional<Choices> &known) const {
    OsiClpSolverInterface relaxation;
    load(relaxation);
    ClpSimplex &simplex = *relaxation.getModelPtr();
    simplex.setMaximumIterations(iterationsIn(effort.left()));
    simplex.setMaximumWallSeconds(effort.secondsLeft()); // from now on, and for its copies
    relaxation.initialSolve();
    // Clp counts those of its last stage alone, which may be none.
    const int64_t taken = std::max<int64_t>(relaxation.getIterationCount(), rowLower.size());
    effort.count(taken * unitsOfIteration());
    if (effort.isOver() || !relaxation.isProvenOptimal()) {
      return std::nullopt;
    }
    // CBC's heuristics are left out: their work is not counted, and the search starts from good choices.
    // CBC solves it again when it prepares the search, and Clp 1.17 crashes when its own bound ends it there: CBC looks at its bounds
    // between solutions, and Clp has none on iterations and some more seconds. Without effort to prepare the search begins at once.
    const int left = iterationsIn(effort.left());
    simplex.setMaximumIterations(INT_MAX);
    simplex.setMaximumWallSeconds(effort.secondsLeft() + kGraceSeconds);
    const char *prepares = kRelaxations * taken < left ? "on" : "off";
    CbcModel search(relaxation);
    search.setMaximumNumberIterations(left);
    CbcSolverUsefulData settings;
    settings.noPrinting_ = true;
    CbcMain0(search, settings);
    search.setLogLevel(0);
    if (known) {
      search.setMIPStart(startOf(*known));
    }
    const std::string most = std::to_string(std::max(effort.secondsLeft(), 0.0));
    std::array<const char *, 17> words = {"ashlar", "-timeMode",   "elapsed", "-seconds", most.c_str(), "-allowableGap",
                                          "0",      "-ratioGap",   "0",       "-log",     "0",          "-heuristicsOnOff",
                                          "off",    "-preprocess", prepares,  "-solve",   "-quit"};
    CbcMain1(words.size(), words.data(), search, [](CbcModel *, int) { return 0; }, settings);
    effort.count(std::min<int64_t>(search.getIterationCount(), left) * unitsOfIteration());
    effort.isOver(); // notes whether the clock ended it
    const double *best = search.bestSolution();
    if (!best || search.isProvenInfeasible()) {
      return std::nullopt;
    }
    Choices places(fold.own.size(), 0);
    for (unsigned node = 0; node < fold.own.size(); ++node) {
      if (firstVariable[node] >= 0) {
        const double *first = best + firstVariable[node];
        places[node] = std::max_element(first, first + fold.own[node].size()) - first;
      }
    }
    return std::pair(places, search.isProvenOptimal() ? search.getObjValue() : search.getBestPossibleObjValue());
  }

private:
  // Returns the work of an iteration: it looks at all entries and bounds, and in CBC it stands for those of strong branching, which are not
  // counted, too.
  int64_t unitsOfIteration() const {
    constexpr int64_t kLooks = 10;
    return kLooks * static_cast<int64_t>(elements.size() + rowLower.size() + objective.size());
  }

  // Returns how many iterations some units of work allow.
  int iterationsIn(int64_t units) const { return static_cast<int>(std::min<int64_t>(units / unitsOfIteration(), INT_MAX)); }

  // Adds a variable between 0 and 1, or one that is 0 where its cost is forbidden. Returns its number.
  int addVariable(Cost cost, double unit) {
    objective.push_back(cost >= kForbidden ? 0 : cost / unit);
    upper.push_back(cost >= kForbidden ? 0 : 1);
    return objective.size() - 1;
  }

  // Adds lowest <= sum of factor * variable <= highest.
  void addRow(const std::vector<int> &variables, const std::vector<double> &factors, double lowest, double highest) {
    columns.insert(columns.end(), variables.begin(), variables.end());
    elements.insert(elements.end(), factors.begin(), factors.end());
    rowStarts.push_back(columns.size());
    rowLower.push_back(lowest);
    rowUpper.push_back(highest);
  }

  void addPair(unsigned a, unsigned b, const std::vector<Cost> &costs, double unit) {
    const size_t rows = fold.own[a].size(), columns = fold.own[b].size();
    std::vector<std::vector<int>> ofRow(rows), ofColumn(columns);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        if (Cost cost = costs[row * columns + column]; cost < kForbidden) {
          int variable = addVariable(cost, unit);
          ofRow[row].push_back(variable);
          ofColumn[column].push_back(variable);
        }
      }
    }
    auto tie = [&](std::vector<int> variables, int choice) {
      std::vector<double> factors(variables.size(), 1);
      variables.push_back(choice);
      factors.push_back(-1);
      addRow(variables, factors, 0, 0);
    };
    for (size_t row = 0; row < rows; ++row) {
      tie(ofRow[row], firstVariable[a] + static_cast<int>(row));
    }
    for (size_t column = 0; column < columns; ++column) {
      tie(ofColumn[column], firstVariable[b] + static_cast<int>(column));
    }
  }

  // In shares of the limit, which keeps numbers of bytes near 1.
  void addLimit(const Row &row, int64_t limit) {
    std::vector<int> variables;
    std::vector<double> factors;
    double fixed = row.fixed;
    for (const Row::Term &term : row.terms) {
      for (unsigned place = 0; place < fold.own[term.node].size(); ++place) {
        const double amount = term.amounts[fold.alive[term.node][place]];
        if (firstVariable[term.node] < 0) {
          fixed += amount; // it has one choice
        } else if (amount != 0) {
          variables.push_back(firstVariable[term.node] + place);
          factors.push_back(amount / limit);
        }
      }
    }
    addRow(variables, factors, -std::numeric_limits<double>::max(), 1 - fixed / limit);
  }

  void load(OsiClpSolverInterface &solver) const {
    const CoinPackedMatrix rows(/*colordered=*/false, objective.size(), rowLower.size(), elements.size(), elements.data(), columns.data(),
                                rowStarts.data(), /*len=*/nullptr);
    const std::vector<double> lower(objective.size(), 0);
    solver.messageHandler()->setLogLevel(0);
    solver.loadProblem(rows, lower.data(), upper.data(), objective.data(), rowLower.data(), rowUpper.data());
    solver.setInteger(integers.data(), integers.size());
    solver.setIntParam(OsiNameDiscipline, 1); // known choices are given by names
    for (int variable : integers) {
      solver.setColName(variable, nameOf(variable));
    }
  }

  static std::string nameOf(int variable) { return "v" + std::to_string(variable); }

  std::vector<std::pair<std::string, double>> startOf(const Choices &known) const {
    std::vector<std::pair<std::string, double>> values;
    for (unsigned node = 0; node < fold.own.size(); ++node) {
      const auto &alive = fold.alive[node];
      auto place = std::find(alive.begin(), alive.end(), known[node]);
      if (firstVariable[node] < 0 || place == alive.end()) {
        continue;
      }
      for (unsigned other = 0; other < alive.size(); ++other) {
        values.emplace_back(nameOf(firstVariable[node] + static_cast<int>(other)), alive.begin() + other == place ? 1 : 0);
      }
    }
    return values;
  }

  const Fold &fold;
  std::vector<int> firstVariable;       // by node; -1: it was folded
  std::vector<double> objective, upper; // by variable
  std::vector<int> integers;            // variables
  std::vector<CoinBigIndex> rowStarts = {0};
  std::vector<int> columns;
  std::vector<double> elements, rowLower, rowUpper;
};

} // namespace

std::optional<Solution> solveIntegerProgram(const DecisionGraph &graph, Effort &effort, int64_t limit,
                                            const std::optional<Choices> &known) {
  Fold fold(graph);
  // The solver computes in floating point: costs are scaled so that it distinguishes the smallest from 0.
  constexpr double kLargest = 1e6, kRounding = 1e-4;
  Cost largest = 1;
  auto see = [&](const std::vector<Cost> &costs) {
    for (Cost cost : costs) {
      largest = cost < kForbidden ? std::max(largest, std::abs(cost)) : largest;
    }
  };
  std::for_each(fold.own.begin(), fold.own.end(), see);
  std::for_each(fold.pairs.begin(), fold.pairs.end(), [&](const auto &pair) { see(pair.second); });
  const double unit = std::max(1.0, largest / kLargest);
  const bool isDecided = std::all_of(fold.isFolded.begin(), fold.isFolded.end(), [](bool folded) { return folded; });
  std::optional<std::pair<Choices, double>> solved;
  if (isDecided) {
    solved.emplace(Choices(graph.numNodes(), 0), kRounding);
  } else {
    solved = SolverModel(fold, limit, unit).solve(effort, known);
  }
  if (!solved) {
    return std::nullopt;
  }
  auto &[places, bound] = *solved;
  fold.unfold(places);
  Solution solution;
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    solution.choices.push_back(fold.alive[node][places[node]]);
  }
  solution.cost = graph.cost(solution.choices);
  if (solution.cost >= kForbidden || graph.largestAmount(solution.choices) > limit) {
    return std::nullopt; // nothing fits; folded nodes alone may show that
  }
  // Rounding may lower the proven bound by half a unit of cost.
  solution.bound = std::min(solution.cost, fold.constant + static_cast<Cost>(std::ceil((bound - kRounding) * unit)));
  return solution;
}

} // namespace ashlar::search
