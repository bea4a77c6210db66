// SPDX-License-Identifier: Apache-2.0
//
// Forbidding what was taken, node by node, and which nodes are those of a block.

#include "passes/search/runner_up.h"

#include "passes/search/name_globs.h"
#include "passes/search/solver/relaxation.h"

#include "dialects/nn/phases.h"
#include "dialects/support/op_interfaces.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace ashlar::search {

RunnerUpSearch::RunnerUpSearch(const DecisionGraph &graph, const Choices &taken, int64_t limit, Effort &effort)
    : graph(graph), taken(taken), limit(limit), effort(effort) {
  constexpr int kPasses = 200;
  Relaxation relaxation(graph);
  relaxation.run(kPasses, effort);
  bound = relaxation.bound();
  margins = relaxation.margins();
}

std::optional<RunnerUpSearch::Other> RunnerUpSearch::find(const std::vector<Taken> &decisions) const {
  // By node: what has to be paid with another of its choices.
  std::vector<std::pair<Cost, const Taken *>> order;
  for (const Taken &decision : decisions) {
    Cost least = kForbidden;
    for (unsigned choice = 0; choice < graph.numChoices(decision.node); ++choice) {
      least = decision.isSame[choice] ? least : std::min(least, addCosts(bound, margins[decision.node][choice]));
    }
    if (least < kForbidden) {
      order.push_back({least, &decision});
    }
  }
  std::sort(order.begin(), order.end()); // decisions lie one after the other
  std::optional<Other> best;
  Cost otherBound = kForbidden; // of all that was not taken
  for (auto [least, decision] : order) {
    if (best && least >= best->cost) {
      break;
    }
    Other found = findOther(*decision, best ? best->cost : kForbidden, least);
    otherBound = std::min(otherBound, found.bound);
    if (found.cost < (best ? best->cost : kForbidden)) {
      best = found;
    }
  }
  if (best) {
    best->bound = std::min(otherBound, best->cost);
  }
  return best;
}

RunnerUpSearch::Other RunnerUpSearch::findOther(const Taken &decision, Cost known, Cost least) const {
  Other best;
  best.bound = least;
  auto consider = [&](const Choices &choices) {
    if (graph.cost(choices) < best.cost && graph.largestAmount(choices) <= limit) {
      best.choices = choices;
      best.cost = graph.cost(choices);
    }
  };
  for (unsigned choice : likelyChoices(decision)) {
    Choices choices = taken;
    choices[decision.node] = choice;
    graph.improve(choices, std::max(limit, graph.largestAmount(choices)), decision.node);
    consider(choices);
  }
  // What is closest to being best, then more, as long as tables stay small; at last all that may be better.
  for (int halvings = kMostHalvings; halvings >= 0; halvings -= 2) {
    const Cost most = std::min(known, best.cost);
    if (most <= least) {
      break;
    }
    const Kept kept = keepBelow(decision, least + std::max<Cost>((most - least) >> halvings, 1));
    if (!isSmall(kept)) {
      return best;
    }
    Solution solution = eliminate(graph.restrict(kept), effort, kMostEntries);
    for (unsigned node = 0; node < graph.numNodes(); ++node) {
      solution.choices[node] = kept[node][solution.choices[node]];
    }
    consider(solution.choices);
    if (halvings == 0) {
      best.bound = std::max(least, std::min(solution.bound, most));
    }
  }
  best.bound = std::min(best.bound, best.cost);
  return best;
}

std::vector<unsigned> RunnerUpSearch::likelyChoices(const Taken &decision) const {
  std::vector<unsigned> choices;
  for (unsigned choice = 0; choice < graph.numChoices(decision.node); ++choice) {
    if (!decision.isSame[choice] && margins[decision.node][choice] < kForbidden) {
      choices.push_back(choice);
    }
  }
  std::sort(choices.begin(), choices.end(),
            [&](unsigned a, unsigned b) { return std::pair(margins[decision.node][a], a) < std::pair(margins[decision.node][b], b); });
  choices.resize(std::min(choices.size(), kMostStarts));
  return choices;
}

RunnerUpSearch::Kept RunnerUpSearch::keepBelow(const Taken &decision, Cost most) const {
  const unsigned likeliest = likelyChoices(decision).front();
  Kept kept(graph.numNodes());
  for (unsigned node = 0; node < graph.numNodes(); ++node) {
    for (unsigned choice = 0; choice < graph.numChoices(node); ++choice) {
      const bool isTaken = node == decision.node ? choice == likeliest : choice == taken[node];
      const bool mayBe = node != decision.node || !decision.isSame[choice];
      if (isTaken || (mayBe && addCosts(bound, margins[node][choice]) < most)) {
        kept[node].push_back(choice);
      }
    }
  }
  return kept;
}

bool RunnerUpSearch::isSmall(const Kept &kept) const {
  size_t pairs = 0;
  for (const Edge &edge : graph.getEdges()) {
    pairs += kept[edge.a].size() * kept[edge.b].size();
  }
  return pairs <= kMostPairs;
}

namespace {

// The decisions of each block, and what they are called.
class Blocks {
public:
  Blocks(const layout::LayoutProblem &problem, const LayoutGraph &graph, ArrayRef<WeightedProgram> programs, const Choices &taken)
      : taken(taken) {
    for (const WeightedProgram &weighted : programs) {
      addProgram(problem, problem.programs[weighted.program], graph);
    }
    for (auto &[block, nodes] : nodesOf) {
      order.push_back(block);
      blocks.insert(block);
      for (unsigned node : nodes) {
        blocks.unionSets(block, firstBlock.try_emplace(node, block).first->second);
      }
    }
  }

  // Visits the blocks that are decided as one: what they are called, and their decisions.
  void forEach(llvm::function_ref<void(std::string name, const std::vector<Taken> &decisions)> visit) const {
    llvm::MapVector<StringRef, SmallVector<StringRef>> groups;
    for (StringRef block : order) {
      groups[blocks.getLeaderValue(block)].push_back(block);
    }
    for (auto &[leader, members] : groups) {
      llvm::SetVector<unsigned> nodes;
      for (StringRef block : members) {
        nodes.insert_range(nodesOf.find(block)->second);
      }
      std::vector<Taken> decisions;
      llvm::transform(nodes, std::back_inserter(decisions), [&](unsigned node) { return Taken{node, sameChoices(node)}; });
      visit((members.size() == 1 ? members.front() : members.front() + ".." + members.back()).str(), decisions);
    }
  }

  // Returns what choices decide otherwise: parameters, where there are any, else ops.
  SmallVector<dist::DifferenceAttr> describe(const std::vector<Taken> &decisions, const Choices &choices) const {
    SmallVector<dist::DifferenceAttr> parameters, ops;
    for (const Taken &taken : decisions) {
      if (!taken.isSame[choices[taken.node]]) {
        const Named &named = names.find(taken.node)->second;
        (named.isParameter ? parameters : ops).push_back(describe(named, choices[taken.node]));
      }
    }
    return parameters.empty() ? ops : parameters;
  }

private:
  struct Named {
    SmallVector<StringRef> names; // of the parameters, or the paths of the ops, that the node is
    bool isParameter;
    LayoutGraph::Decision decision;
  };

  void addProgram(const layout::LayoutProblem &problem, const layout::ProblemProgram &program, const LayoutGraph &graph) {
    nn::Phases phases(func::FuncOp(program.function).front());
    std::vector<StringRef> pathOfUser(problem.values.size()); // the first op that is of a module and takes a value
    for (unsigned number = program.endOp; number-- > program.firstOp;) {
      const layout::ProblemOp &op = problem.ops[number];
      StringRef path = nn::getPath(op.op->getLoc());
      if (phases.of(op.op) != nn::Phase::Forward) {
        continue;
      }
      for (unsigned value : op.results) {
        path = path.empty() ? pathOfUser[value] : path;
      }
      for (unsigned value : op.operands) {
        pathOfUser[value] = path.empty() ? pathOfUser[value] : path;
      }
    }
    for (unsigned number = program.firstOp; number < program.endOp; ++number) {
      const layout::ProblemOp &op = problem.ops[number];
      if (phases.of(op.op) != nn::Phase::Forward) {
        continue;
      }
      auto compute = dyn_cast<ComputeOpInterface>(op.op);
      if (auto read = dyn_cast<nn::ReadOp>(op.op)) {
        nn::VariableOp variable = SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(read, read.getVariableAttr());
        if (variable.getTrainable() && problem.tensors[*op.variable].type.getRank() > 1) {
          add(pathOfUser[op.results.front()], variable.getSymName(), true, graph.decisionOfTensor(*op.variable));
        }
      } else if (compute && compute.getCost() == ashlar::Cost::Contraction) {
        StringRef path = nn::getPath(op.op->getLoc());
        add(path, path, false, graph.decisionOfOp(number));
      }
    }
  }

  void add(StringRef path, StringRef name, bool isParameter, std::optional<LayoutGraph::Decision> decision) {
    StringRef block = blockOf(path);
    if (!decision || block.empty()) {
      return;
    }
    nodesOf[block].insert(decision->node);
    Named &named = names.try_emplace(decision->node, Named{{}, isParameter, *decision}).first->second;
    if (!llvm::is_contained(named.names, name)) {
      named.names.push_back(name);
    }
  }

  std::vector<bool> sameChoices(unsigned node) const {
    const LayoutGraph::Decision &decision = names.find(node)->second.decision;
    std::vector<bool> same;
    for (const SmallVector<int64_t> &pieces : decision.pieces) {
      same.push_back(pieces == decision.pieces[taken[node]]);
    }
    return same;
  }

  dist::DifferenceAttr describe(const Named &named, unsigned choice) const {
    const bool isAlike = llvm::all_of(named.names, [&](StringRef name) { return withoutNumbers(name) == withoutNumbers(named.names[0]); });
    std::string name = isAlike ? joinNumbers(named.names) : named.names[0].str();
    dist::LayoutAttr layout = named.decision.layouts[choice];
    return dist::DifferenceAttr::get(layout.getContext(), named.isParameter ? dist::EndKind::Parameter : dist::EndKind::Op,
                                     StringAttr::get(layout.getContext(), name), layout,
                                     named.decision.layouts[taken[named.decision.node]]);
  }

  const Choices &taken;
  llvm::MapVector<StringRef, llvm::SetVector<unsigned>> nodesOf; // by block
  llvm::MapVector<unsigned, Named> names;                        // by node
  std::map<unsigned, StringRef> firstBlock;                      // by node
  llvm::EquivalenceClasses<StringRef> blocks;
  SmallVector<StringRef> order;
};

} // namespace

std::vector<RunnerUp> findRunnersUp(const layout::LayoutProblem &problem, const LayoutGraph &graph, ArrayRef<WeightedProgram> programs,
                                    const Choices &taken, int64_t limit, Effort &effort) {
  RunnerUpSearch search(graph.getGraph(), taken, limit, effort);
  std::vector<RunnerUp> all;
  Blocks blocks(problem, graph, programs, taken);
  blocks.forEach([&](std::string name, const std::vector<Taken> &decisions) {
    std::optional<RunnerUpSearch::Other> found = effort.isOver() ? std::nullopt : search.find(decisions);
    if (found) {
      all.push_back({std::move(name), blocks.describe(decisions, found->choices), found->choices});
    }
  });
  return all;
}

} // namespace ashlar::search
