// SPDX-License-Identifier: Apache-2.0
//
// From the choices of a layout problem to nodes and edges.

#include "passes/search/layout_graph.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "passes/layout/redistribute/decide.h"
#include "passes/search/memory_rows.h"
#include "passes/search/redistribution_times.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <functional>
#include <map>
#include <numeric>

using namespace mlir;

namespace ashlar::search {

namespace {

using dist::LayoutAttr;

// How often a step redistributes the values of an edge, and of how many values.
struct Count {
  int64_t runs = 0, occurrences = 0;
};

int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(std::min<__int128>(static_cast<__int128>(a) * b, kForbidden));
}

} // namespace

class LayoutGraph::Builder {
public:
  Builder(const layout::LayoutProblem &problem, ArrayRef<WeightedProgram> programs, ColourClasses classes, analysis::Planner &planner,
          const analysis::DeviceRates &rates, int64_t smallBytes, size_t firstRows)
      : space(problem, programs, std::move(classes), planner, rates), planner(planner), redistributions(space, planner),
        smallBytes(smallBytes), rows(space, nodes, graph, firstRows) {
    addNodes();
    addEdges();
    rows.addFirst();
  }

  bool addPeakRow(const Choices &choices, int64_t limit) { return rows.addPeak(choices, limit); }
  bool coverMemory(const Choices &choices, ArrayRef<int64_t> programBytes) { return rows.cover(choices, programBytes); }

  DecidedLayouts decode(const Choices &choices) const {
    DecidedLayouts decided;
    decided.tensors.resize(space.problem.tensors.size());
    decided.operands.resize(space.problem.ops.size());
    for (unsigned tensor = 0; tensor < space.problem.tensors.size(); ++tensor) {
      if (auto node = nodes.tensors.find(space.classes.tensors[tensor]); node != nodes.tensors.end()) {
        decided.tensors[tensor] = space.holdings.at(space.classes.tensors[tensor])[choices[node->second]].home;
      }
    }
    space.forEachOp([&](unsigned number, int64_t) {
      const layout::ProblemOp &op = space.problem.ops[number];
      auto node = nodes.ops.find(space.classes.ops[number]);
      if (node == nodes.ops.end()) {
        return;
      }
      const OpChoice &choice = space.opChoices.at(space.classes.ops[number])[choices[node->second]];
      decided.operands[number].resize(op.operands.size());
      for (auto [index, value] : llvm::enumerate(op.operands)) {
        const unsigned tensor = space.problem.values[value].tensor;
        LayoutAttr &home = decided.tensors[tensor];
        const LayoutAttr taken = withoutTerms(choice.operands[index]); // that a sum moves behind the op is found again with the layouts
        if (!home) {                                                   // one op alone uses it, this one
          home = taken;
        } else if (home != taken) {
          decided.operands[number][index] = taken;
        }
      }
    });
    return decided;
  }

  std::optional<Choices> encode(const layout::LayoutProblem &laidOut) const {
    Choices choices(graph.numNodes(), 0);
    llvm::DenseSet<unsigned> done;
    for (unsigned tensor = 0; tensor < space.problem.tensors.size(); ++tensor) {
      auto node = nodes.tensors.find(space.classes.tensors[tensor]);
      if (node == nodes.tensors.end() || !done.insert(node->second).second) {
        continue;
      }
      const SmallVector<Holding> &list = space.holdings.at(space.classes.tensors[tensor]);
      auto home = LayoutAttr::get(space.problem.mesh.getContext(),
                                  dist::withoutUnitAxes(space.problem.mesh, laidOut.tensors[tensor].given->layout));
      const auto *found = llvm::find_if(list, [&](const Holding &holding) { return holding.home == home && !holding.second; });
      if (found == list.end()) {
        return std::nullopt;
      }
      choices[node->second] = found - list.begin();
    }
    bool isKnown = true;
    const llvm::BitVector delayedSums = layout::findDelayedSums(laidOut);
    space.forEachOp([&](unsigned number, int64_t) {
      auto node = nodes.ops.find(space.classes.ops[number]);
      if (node == nodes.ops.end() || !done.insert(node->second).second) {
        return;
      }
      const std::vector<OpChoice> &list = space.opChoices.at(space.classes.ops[number]);
      const layout::ProblemOp &row = laidOut.ops[number];
      layout::FactorSplit split = layout::chooseSplit(laidOut, row, planner, row.results.size() == 1 && delayedSums[row.results.front()]);
      // What is split where the op has an expansion is computed so.
      for (const OpChoice &choice : list) {
        bool isExpanded = llvm::any_of(llvm::zip_equal(space.problem.ops[number].rule->factors, choice.split), [](auto item) {
          return std::get<0>(item).kind == FactorKind::Expanded && !std::get<1>(item).empty();
        });
        auto isHome = [&](auto item) {
          auto [value, layout] = item;
          const layout::Layout &home = laidOut.tensors[space.problem.values[value].tensor].given->layout;
          return dist::withoutUnitAxes(space.problem.mesh, home) == layout.getLayout();
        };
        if (isExpanded && llvm::all_of(llvm::zip_equal(space.problem.ops[number].operands, choice.operands), isHome)) {
          split = choice.split;
        }
      }
      auto found = llvm::find_if(list, [&](const OpChoice &choice) { return choice.split == split; });
      isKnown &= found != list.end();
      choices[node->second] = isKnown ? found - list.begin() : 0;
    });
    return isKnown ? std::optional(choices) : std::nullopt;
  }

  std::optional<Decision> decisionOfTensor(unsigned tensor) const {
    auto node = nodes.tensors.find(space.classes.tensors[tensor]);
    if (node == nodes.tensors.end()) {
      return std::nullopt;
    }
    Decision decision{node->second, {}, {}};
    for (const Holding &holding : space.holdings.at(space.classes.tensors[tensor])) {
      decision.layouts.push_back(holding.home);
      SmallVector<int64_t> pieces = countPieces(holding.home.getLayout().dims);
      decision.pieces.push_back({std::accumulate(pieces.begin(), pieces.end(), int64_t(1), std::multiplies<int64_t>())});
    }
    return decision;
  }

  std::optional<Decision> decisionOfOp(unsigned op) const {
    auto node = nodes.ops.find(space.classes.ops[op]);
    if (node == nodes.ops.end()) {
      return std::nullopt;
    }
    Decision decision{node->second, {}, {}};
    for (const OpChoice &choice : space.opChoices.at(space.classes.ops[op])) {
      decision.layouts.push_back(choice.results.front());
      decision.pieces.push_back(countPieces(choice.split));
    }
    return decision;
  }

  DecisionGraph graph;

private:
  SmallVector<int64_t> countPieces(ArrayRef<dist::AxisList> lists) const {
    return llvm::map_to_vector(lists, [&](const dist::AxisList &axes) {
      return std::accumulate(axes.begin(), axes.end(), int64_t(1),
                             [&](int64_t pieces, StringAttr axis) { return pieces * space.problem.mesh.axisSize(axis); });
    });
  }

  void addNodes() {
    space.forEachOp([&](unsigned number, int64_t runs) {
      const unsigned opClass = space.classes.ops[number];
      auto choices = space.opChoices.find(opClass);
      if (choices == space.opChoices.end()) {
        return;
      }
      auto [node, isNew] = nodes.ops.try_emplace(opClass, 0);
      if (isNew) {
        node->second = graph.addNode(std::vector<Cost>(choices->second.size(), 0));
        std::vector<Cost> &costs = opCosts[opClass];
        for (const OpChoice &choice : choices->second) {
          costs.push_back(addCosts(computePs(number, choice), choice.sendPs));
        }
      }
      for (auto [choice, cost] : llvm::enumerate(opCosts[opClass])) {
        graph.addCost(node->second, choice, multiply(cost, runs));
      }
    });
    for (auto &[tensor, choices] : space.holdings) {
      nodes.tensors[tensor] = graph.addNode(std::vector<Cost>(choices.size(), 0));
    }
    // What nobody makes is brought to its second layout from its first, in each run of a program.
    auto addGather = [&](unsigned tensor, int64_t runs) {
      if (space.holdings.contains(space.classes.tensors[tensor])) {
        for (auto [choice, holding] : llvm::enumerate(space.holdings.find(space.classes.tensors[tensor])->second)) {
          const int64_t time =
              holding.second ? redistributions.of({space.problem.tensors[tensor].type, true}, holding.home, holding.second) : 0;
          graph.addCost(nodes.tensors[space.classes.tensors[tensor]], choice, multiply(time, runs));
        }
      }
    };
    for (const WeightedProgram &weighted : space.programs) {
      const layout::ProblemProgram &program = space.problem.programs[weighted.program];
      llvm::SmallDenseSet<unsigned> taken;
      for (BlockArgument argument : func::FuncOp(program.function).getArguments()) {
        taken.insert(space.problem.values[space.problem.find(argument)].tensor);
      }
      for (unsigned op = program.firstOp; op < program.endOp; ++op) {
        if (std::optional<unsigned> variable = space.problem.ops[op].variable) {
          taken.insert(*variable);
        }
      }
      llvm::for_each(taken, [&](unsigned tensor) { addGather(tensor, weighted.runs); });
    }
  }

  // Returns the time of an op's work on one device: its part of what its kernel takes.
  int64_t computePs(unsigned number, const OpChoice &choice) const {
    const layout::ProblemOp &op = space.problem.ops[number];
    auto found = space.traffic.find(op.op);
    if (found == space.traffic.end()) {
      return 0; // nothing needs it
    }
    const layout::OpTraffic &one = found->second;
    auto localTypes = [&](ArrayRef<unsigned> values, ArrayRef<LayoutAttr> layouts) {
      return llvm::map_to_vector(llvm::zip_equal(values, layouts), [&](auto item) {
        return dist::localType(space.problem.mesh, space.problem.typeOf(std::get<0>(item)), std::get<1>(item).getLayout());
      });
    };
    SmallVector<RankedTensorType> operands = localTypes(op.operands, choice.operands), results = localTypes(op.results, choice.results);
    double bytes = 0;
    for (const layout::OpTraffic::Read &read : one.reads) { // a view is read in pieces as what is made of it
      bytes += double(read.bytes) * operands[read.operand].getNumElements() /
               std::max<int64_t>(1, space.problem.typeOf(op.operands[read.operand]).getNumElements());
    }
    for (auto [type, isWritten] : llvm::zip_equal(results, one.isWritten)) {
      bytes += isWritten ? byteSize(type) : 0;
    }
    analysis::Work work = one.isCall || !one.isMemoryBound ? analysis::workOf(op.op, operands, results) : analysis::Work{};
    const int64_t moved = one.isCall || one.isMemoryBound ? static_cast<int64_t>(bytes) : 0;
    return one.isCall ? space.rates.callPs(work, moved) : space.rates.timePs(work, moved); // how many kernels there are is no choice
  }

  // The layouts that a tensor may have at one end of an edge, each once, and which of them each choice has.
  struct Had {
    explicit Had(ArrayRef<Holding> choices) {
      for (const Holding &holding : choices) {
        homes.push_back(numberOf(holding.home));
        seconds.push_back(holding.second ? std::optional(numberOf(holding.second)) : std::nullopt);
      }
    }

    SmallVector<LayoutAttr> layouts;
    SmallVector<unsigned> homes; // by choice, as below
    SmallVector<std::optional<unsigned>> seconds;

  private:
    unsigned numberOf(LayoutAttr layout) {
      auto [number, isNew] = numbers.try_emplace(layout, layouts.size());
      if (isNew) {
        layouts.push_back(layout);
      }
      return number->second;
    }

    llvm::DenseMap<LayoutAttr, unsigned> numbers;
  };

  // Adds the time from where a value is to where it is had: from its second layout, too, where it has one, and to the first layout and on,
  // or to the second and from there. The terms of a delayed sum are summed once where the variable holds them.
  void addEdge(unsigned a, unsigned b, const Redistributed &value, const Had &from, const Had &to, const Count &count) {
    // By layout and choice.
    const size_t columns = to.homes.size();
    std::vector<Cost> costs(from.layouts.size() * columns), times(to.layouts.size());
    for (auto [number, layout] : llvm::enumerate(from.layouts)) {
      llvm::transform(to.layouts, times.begin(), [&, layout = layout](LayoutAttr other) {
        return value.isDelayed ? redistributions.ofSum(value, layout, other) : redistributions.of(value, layout, other);
      });
      for (size_t choice = 0; choice < columns; ++choice) {
        const unsigned home = to.homes[choice], second = to.seconds[choice].value_or(home);
        int64_t time = times[home];
        if (second != home) {
          time = std::min(time + redistributions.of(value, to.layouts[home], to.layouts[second]),
                          times[second] + redistributions.of(value, to.layouts[second], to.layouts[home]));
        }
        const bool areTerms = layout.getLayout().isPartial() && layout.getLayout().reduction == Reduction::Sum;
        const bool isDelayed = value.isDelayed && areTerms &&
                               layout::keepsTerms(space.problem.ops.front().op, space.localBytes(value.type, layout),
                                                  space.localBytes(value.type, to.layouts[home]));
        costs[number * columns + choice] = multiply(time, isDelayed ? count.occurrences : count.runs);
      }
    }
    std::vector<Cost> table;
    table.reserve(from.homes.size() * columns);
    for (auto [home, second] : llvm::zip_equal(from.homes, from.seconds)) {
      const Cost *ofHome = &costs[home * columns], *ofSecond = &costs[second.value_or(home) * columns];
      for (size_t choice = 0; choice < columns; ++choice) {
        table.push_back(std::min(ofHome[choice], ofSecond[choice]));
      }
    }
    graph.addEdge(a, b, table);
  }

  Had takenBy(unsigned op, unsigned operand) const {
    return Had(llvm::map_to_vector(space.opChoices.at(op), [&](const OpChoice &choice) { return Holding{choice.operands[operand], {}}; }));
  }

  Had madeBy(unsigned op, unsigned result) const {
    return Had(llvm::map_to_vector(space.opChoices.at(op), [&](const OpChoice &choice) { return Holding{choice.results[result], {}}; }));
  }

  Had heldAs(unsigned tensor) const { return Had(space.holdings.find(tensor)->second); }

  Had homesOf(unsigned tensor) const {
    return Had(llvm::map_to_vector(space.holdings.find(tensor)->second, [](const Holding &holding) { return Holding{holding.home, {}}; }));
  }

  // Adds the redistributions of the values. Those between the same classes are estimated once.
  void addEdges() {
    // maker or tensor, user or tensor, result of the maker, operand of the user: how often.
    const llvm::BitVector delayedSums = layout::findDelayedSums(space.problem);
    enum Kind { OpToOp, OpToTensor, TensorToOp, TensorToTensor };
    llvm::MapVector<std::tuple<int, unsigned, unsigned, unsigned, unsigned>, Count> edges;
    std::map<std::tuple<int, unsigned, unsigned, unsigned, unsigned>, Redistributed> values;
    auto add = [&](Kind kind, unsigned from, unsigned to, unsigned result, unsigned operand, int64_t runs, unsigned value) {
      std::tuple key(static_cast<int>(kind), from, to, result, operand);
      edges[key].runs += runs;
      ++edges[key].occurrences;
      values.insert({key, {space.problem.typeOf(value), space.isStored(value), delayedSums[value], space.bytesAgain(value)}});
    };
    space.forEachOp([&](unsigned number, int64_t runs) {
      const layout::ProblemOp &op = space.problem.ops[number];
      const bool hasNode = nodes.ops.count(space.classes.ops[number]);
      // A value is redistributed where it is made, maybe in front of the loop of its user.
      auto runsOf = [&](unsigned value) { return std::max<int64_t>(1, runs / op.runs) * space.problem.values[value].runs; };
      for (auto [index, value] : llvm::enumerate(op.results)) {
        if (hasNode && space.isHeld(value)) {
          add(OpToTensor, space.classes.ops[number], space.classes.tensors[space.problem.values[value].tensor], index, 0, runsOf(value),
              value);
        }
      }
      for (auto [index, value] : llvm::enumerate(op.operands)) {
        if (space.isFree(value)) {
          continue;
        }
        std::optional<unsigned> kept = isa<nn::WriteOp, func::ReturnOp>(op.op) ? op.taken[index] : std::nullopt;
        std::optional<unsigned> maker = space.problem.values[value].maker;
        const int64_t made = runsOf(value);
        if (space.isHeld(value)) {
          const unsigned tensor = space.classes.tensors[space.problem.values[value].tensor];
          if (kept) {
            add(TensorToTensor, tensor, space.classes.tensors[*kept], 0, 0, made, value);
          } else if (hasNode) {
            add(TensorToOp, tensor, space.classes.ops[number], 0, index, made, value);
          }
        } else if (maker && nodes.ops.count(space.classes.ops[*maker])) {
          const unsigned result = llvm::find(space.problem.ops[*maker].results, value) - space.problem.ops[*maker].results.begin();
          if (kept) {
            add(OpToTensor, space.classes.ops[*maker], space.classes.tensors[*kept], result, 0, made, value);
          } else if (hasNode) {
            add(OpToOp, space.classes.ops[*maker], space.classes.ops[number], result, index, made, value);
          }
        }
      }
    });
    for (const auto &[key, count] : edges) {
      auto [kind, from, to, result, operand] = key;
      const Redistributed value = values.at(key);
      switch (kind) {
      case OpToOp:
        addEdge(nodes.ops.at(from), nodes.ops.at(to), value, madeBy(from, result), takenBy(to, operand), count);
        break;
      case OpToTensor: // the next step gathers a variable
        addEdge(nodes.ops.at(from), nodes.tensors.at(to), value, madeBy(from, result),
                space.variables.contains(to) ? homesOf(to) : heldAs(to), count);
        break;
      case TensorToOp:
        addEdge(nodes.tensors.at(from), nodes.ops.at(to), value, heldAs(from), takenBy(to, operand), count);
        break;
      case TensorToTensor:
        addEdge(nodes.tensors.at(from), nodes.tensors.at(to), value, heldAs(from), homesOf(to), count);
        break;
      }
    }
    tieSmallState();
  }

  // Has the state of small parameters split as they are: splitting it would be many small messages.
  void tieSmallState() {
    llvm::StringMap<unsigned> byName;
    for (auto [variable, tensor] : space.problem.variables) {
      byName[nn::VariableOp(variable).getSymName()] = tensor;
    }
    llvm::DenseSet<std::pair<unsigned, unsigned>> tied;
    for (auto [op, tensor] : space.problem.variables) {
      nn::VariableOp variable = op;
      std::optional<StringRef> of = variable.getStateOf();
      if (!of) {
        continue;
      }
      const unsigned parameter = byName.lookup(*of), a = space.classes.tensors[parameter], b = space.classes.tensors[tensor];
      const RankedTensorType type = space.problem.tensors[parameter].type;
      if (type.getShape() != space.problem.tensors[tensor].type.getShape() || !tied.insert({a, b}).second) {
        continue;
      }
      std::vector<Cost> table;
      for (const Holding &holding : space.holdings.find(a)->second) {
        const bool isSmall = space.localBytes(type, holding.home) < smallBytes;
        for (const Holding &other : space.holdings.find(b)->second) {
          table.push_back(isSmall && holding.home != other.home ? kForbidden : 0);
        }
      }
      graph.addEdge(nodes.tensors.at(a), nodes.tensors.at(b), table);
    }
  }

  const LayoutSpace space;
  analysis::Planner &planner;
  RedistributionTimes redistributions;
  const int64_t smallBytes;
  PartNodes nodes;
  std::map<unsigned, std::vector<Cost>> opCosts; // by class
  MemoryRows rows;
};

LayoutGraph::LayoutGraph(const layout::LayoutProblem &problem, ArrayRef<WeightedProgram> programs, ColourClasses classes,
                         analysis::Planner &planner, const analysis::DeviceRates &rates, int64_t smallBytes, size_t firstRows)
    : builder(std::make_unique<Builder>(problem, programs, std::move(classes), planner, rates, smallBytes, firstRows)) {}

LayoutGraph::~LayoutGraph() = default;

const DecisionGraph &LayoutGraph::getGraph() const {
  return builder->graph;
}

bool LayoutGraph::addPeakRow(const Choices &choices, int64_t limit) {
  return builder->addPeakRow(choices, limit);
}

bool LayoutGraph::coverMemory(const Choices &choices, ArrayRef<int64_t> programBytes) {
  return builder->coverMemory(choices, programBytes);
}

std::optional<Choices> LayoutGraph::encode(const layout::LayoutProblem &laidOut) const {
  return builder->encode(laidOut);
}

std::optional<LayoutGraph::Decision> LayoutGraph::decisionOfTensor(unsigned tensor) const {
  return builder->decisionOfTensor(tensor);
}

std::optional<LayoutGraph::Decision> LayoutGraph::decisionOfOp(unsigned op) const {
  return builder->decisionOfOp(op);
}

DecidedLayouts LayoutGraph::decode(const Choices &choices) const {
  return builder->decode(choices);
}

} // namespace ashlar::search
