// SPDX-License-Identifier: Apache-2.0
//
// From a layout problem to nodes, edges and rows. One class in one file, long as it is: all three are about the same choices of the same
// ops and tensors, by the same tables.

#include "passes/search/layout_graph.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "passes/layout/redistribute/decide.h"
#include "passes/layout/redistribute/price.h"
#include "passes/search/op_choices.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <functional>
#include <map>
#include <numeric>

using namespace mlir;

namespace ashlar::search {

namespace {

using dist::LayoutAttr;

// A layout in which a tensor is held, and maybe a second one.
struct Holding {
  LayoutAttr home, second;
};

// A value that is redistributed, and whether it lies in memory as it is made.
struct Redistributed {
  RankedTensorType type;
  bool isStored;
};

int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(std::min<__int128>(static_cast<__int128>(a) * b, kForbidden));
}

} // namespace

class LayoutGraph::Builder {
public:
  Builder(const layout::LayoutProblem &problem, ArrayRef<WeightedProgram> programs, RepeatedParts parts, dist::Planner &planner,
          const dist::DeviceRates &rates, int64_t smallBytes, size_t firstRows)
      : problem(problem), programs(programs), parts(std::move(parts)), planner(planner), rates(rates), smallBytes(smallBytes),
        firstRows(firstRows) {
    findUses();
    findTraffic();
    listOpChoices();
    findHeldTensors();
    listHoldings();
    addNodes();
    addEdges();
    addRows();
  }

  DecidedLayouts decode(const Choices &choices) const {
    DecidedLayouts decided;
    decided.tensors.resize(problem.tensors.size());
    decided.operands.resize(problem.ops.size());
    for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
      if (auto node = tensorNodes.find(parts.tensors[tensor]); node != tensorNodes.end()) {
        decided.tensors[tensor] = holdings.at(parts.tensors[tensor])[choices[node->second]].home;
      }
    }
    forEachOp([&](unsigned number, int64_t) {
      const layout::ProblemOp &op = problem.ops[number];
      auto node = opNodes.find(parts.ops[number]);
      if (node == opNodes.end()) {
        return;
      }
      const OpChoice &choice = opChoices.at(parts.ops[number])[choices[node->second]];
      decided.operands[number].resize(op.operands.size());
      for (auto [index, value] : llvm::enumerate(op.operands)) {
        const unsigned tensor = problem.values[value].tensor;
        LayoutAttr &home = decided.tensors[tensor];
        if (!home) { // one op alone uses it, this one
          home = choice.operands[index];
        } else if (home != choice.operands[index]) {
          decided.operands[number][index] = choice.operands[index];
        }
      }
    });
    return decided;
  }

  std::optional<Choices> encode(const layout::LayoutProblem &laidOut) const {
    Choices choices(graph.numNodes(), 0);
    llvm::DenseSet<unsigned> done;
    for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
      auto node = tensorNodes.find(parts.tensors[tensor]);
      if (node == tensorNodes.end() || !done.insert(node->second).second) {
        continue;
      }
      const SmallVector<Holding> &list = holdings.at(parts.tensors[tensor]);
      auto home = LayoutAttr::get(problem.mesh.getContext(), dist::withoutUnitAxes(problem.mesh, laidOut.tensors[tensor].given->layout));
      const auto *found = llvm::find_if(list, [&](const Holding &holding) { return holding.home == home && !holding.second; });
      if (found == list.end()) {
        return std::nullopt;
      }
      choices[node->second] = found - list.begin();
    }
    bool isKnown = true;
    forEachOp([&](unsigned number, int64_t) {
      auto node = opNodes.find(parts.ops[number]);
      if (node == opNodes.end() || !done.insert(node->second).second) {
        return;
      }
      const std::vector<OpChoice> &list = opChoices.at(parts.ops[number]);
      layout::FactorSplit split = layout::chooseSplit(laidOut, laidOut.ops[number], planner);
      // What is split where the op has an expansion is computed so.
      for (const OpChoice &choice : list) {
        bool isExpanded = llvm::any_of(llvm::zip_equal(problem.ops[number].rule->factors, choice.split), [](auto item) {
          return std::get<0>(item).kind == FactorKind::Expanded && !std::get<1>(item).empty();
        });
        auto isHome = [&](auto item) {
          auto [value, layout] = item;
          const layout::Layout &home = laidOut.tensors[problem.values[value].tensor].given->layout;
          return dist::withoutUnitAxes(problem.mesh, home) == layout.getLayout();
        };
        if (isExpanded && llvm::all_of(llvm::zip_equal(problem.ops[number].operands, choice.operands), isHome)) {
          split = choice.split;
        }
      }
      auto found = llvm::find_if(list, [&](const OpChoice &choice) { return choice.split == split; });
      isKnown &= found != list.end();
      choices[node->second] = isKnown ? found - list.begin() : 0;
    });
    return isKnown ? std::optional(choices) : std::nullopt;
  }

  bool addPeakRow(const Choices &choices, int64_t limit) {
    const ProgramLives *where = nullptr;
    unsigned when = 0;
    int64_t most = limit - DecisionGraph::amount(always.row, choices);
    for (const ProgramLives &program : programLives) {
      std::vector<int64_t> change(program.endOp - program.firstOp + 1, 0);
      for (const Life &life : program.lives) {
        const int64_t bytes = life.term.amounts[choices[life.term.node]];
        change[life.begin - program.firstOp] += bytes;
        change[life.end - program.firstOp + 1] -= bytes;
      }
      int64_t alive = 0;
      for (unsigned op = program.firstOp; op < program.endOp; ++op) {
        alive += change[op - program.firstOp];
        if (alive > most) {
          where = &program;
          when = op;
          most = alive;
        }
      }
    }
    if (!where || rowTimes.contains(when)) {
      return false;
    }
    addRow(*where, when);
    return true;
  }

  std::optional<Decision> decisionOfTensor(unsigned tensor) const {
    auto node = tensorNodes.find(parts.tensors[tensor]);
    if (node == tensorNodes.end()) {
      return std::nullopt;
    }
    Decision decision{node->second, {}, {}};
    for (const Holding &holding : holdings.at(parts.tensors[tensor])) {
      decision.layouts.push_back(holding.home);
      SmallVector<int64_t> pieces = countPieces(holding.home.getLayout().dims);
      decision.pieces.push_back({std::accumulate(pieces.begin(), pieces.end(), int64_t(1), std::multiplies<int64_t>())});
    }
    return decision;
  }

  std::optional<Decision> decisionOfOp(unsigned op) const {
    auto node = opNodes.find(parts.ops[op]);
    if (node == opNodes.end()) {
      return std::nullopt;
    }
    Decision decision{node->second, {}, {}};
    for (const OpChoice &choice : opChoices.at(parts.ops[op])) {
      decision.layouts.push_back(choice.results.front());
      decision.pieces.push_back(countPieces(choice.split));
    }
    return decision;
  }

  DecisionGraph graph;

private:
  struct Use {
    unsigned op, operand;
  };

  void forEachOp(function_ref<void(unsigned op, int64_t runs)> visit) const {
    for (const WeightedProgram &weighted : programs) {
      const layout::ProblemProgram &program = problem.programs[weighted.program];
      for (unsigned op = program.firstOp; op < program.endOp; ++op) {
        visit(op, weighted.runs);
      }
    }
  }

  SmallVector<int64_t> countPieces(ArrayRef<dist::AxisList> lists) const {
    return llvm::map_to_vector(lists, [&](const dist::AxisList &axes) {
      return std::accumulate(axes.begin(), axes.end(), int64_t(1),
                             [&](int64_t pieces, StringAttr axis) { return pieces * problem.mesh.axisSize(axis); });
    });
  }

  void findUses() {
    uses.resize(problem.values.size());
    forEachOp([&](unsigned op, int64_t) {
      for (auto [index, value] : llvm::enumerate(problem.ops[op].operands)) {
        uses[value].push_back({op, static_cast<unsigned>(index)});
      }
    });
  }

  // Whether a value can be had in any layout.
  bool isFree(unsigned value) const {
    std::optional<unsigned> maker = problem.values[value].maker;
    return maker && problem.ops[*maker].isSource() && !problem.tensors[problem.values[value].tensor].given;
  }

  void listOpChoices() {
    forEachOp([&](unsigned number, int64_t) {
      const layout::ProblemOp &op = problem.ops[number];
      bool isFreeSource = op.isSource() && isFree(op.results.front());
      if (op.rule && !isFreeSource && opChoices.count(parts.ops[number]) == 0) {
        opChoices[parts.ops[number]] = listChoices(problem, op, planner);
      }
    });
  }

  // Tensors with nodes of their own: all but what one op makes and one other uses. What nobody uses needs none.
  void findHeldTensors() {
    for (auto [variable, tensor] : problem.variables) {
      held.insert(parts.tensors[tensor]);
      variables.insert(parts.tensors[tensor]);
    }
    for (auto [number, value] : llvm::enumerate(problem.values)) {
      bool isGiven = problem.tensors[value.tensor].given.has_value();
      bool isUsed = !uses[number].empty();
      if (isUsed && !isFree(number) && (!value.maker || isGiven || uses[number].size() > 1)) {
        held.insert(parts.tensors[value.tensor]);
      }
    }
    forEachOp([&](unsigned number, int64_t) {
      if (isa<func::ReturnOp>(problem.ops[number].op)) {
        for (std::optional<unsigned> taken : problem.ops[number].taken) {
          held.insert(parts.tensors[*taken]);
        }
      }
    });
  }

  bool isHeld(unsigned value) const { return held.contains(parts.tensors[problem.values[value].tensor]); }

  // The choices of each held tensor: the layouts that the ops around it have for it.
  void listHoldings() {
    auto add = [&](unsigned tensor, LayoutAttr layout) {
      if (held.contains(parts.tensors[tensor])) {
        if (!layout.getPartialAxes().empty()) {
          layout::Layout whole = layout.getLayout();
          whole.partial.clear();
          layout = LayoutAttr::get(layout.getContext(), whole);
        }
        around[parts.tensors[tensor]].insert(layout);
      }
    };
    for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
      int64_t rank = problem.tensors[tensor].type.getRank();
      add(tensor, LayoutAttr::get(problem.mesh.getContext(), layout::Layout::replicated(rank)));
    }
    forEachOp([&](unsigned number, int64_t) {
      const layout::ProblemOp &op = problem.ops[number];
      auto choices = opChoices.find(parts.ops[number]);
      if (choices == opChoices.end()) {
        return;
      }
      for (const OpChoice &choice : choices->second) {
        for (auto [value, layout] : llvm::zip_equal(op.operands, choice.operands)) {
          add(problem.values[value].tensor, layout);
        }
        for (auto [value, layout] : llvm::zip_equal(op.results, choice.results)) {
          add(problem.values[value].tensor, layout);
          for (const Use &use : uses[value]) { // a variable that it becomes, a result
            if (std::optional<unsigned> taken = problem.ops[use.op].taken[use.operand]) {
              add(*taken, layout);
            }
          }
        }
      }
    });
    for (auto &[tensor, layouts] : around) {
      SmallVector<Holding> &choices = holdings[tensor];
      for (LayoutAttr home : layouts) {
        if (isAllowed(tensor, home)) {
          choices.push_back({home, {}});
        }
      }
      if (choices.empty()) {
        choices.push_back({LayoutAttr::get(problem.mesh.getContext(), problem.tensors[tensor].given->layout), {}});
      }
      addSecondHoldings(tensor, choices);
    }
  }

  // Whether a tensor may be held so by what is given of it.
  bool isAllowed(unsigned tensor, LayoutAttr home) const {
    const std::optional<layout::GivenLayout> &given = problem.tensors[tensor].given;
    if (!given) {
      return true;
    }
    layout::Layout wanted = dist::withoutUnitAxes(problem.mesh, given->layout);
    for (auto [axes, asked, open] : llvm::zip_equal(home.getLayout().dims, wanted.dims, given->open)) {
      bool begins = axes.size() >= asked.size() && ArrayRef(axes).take_front(asked.size()) == ArrayRef(asked);
      if (!begins || (!open && axes.size() != asked.size())) {
        return false;
      }
    }
    return true;
  }

  // Adds, for what several ops use, each layout that a home can be gathered to.
  void addSecondHoldings(unsigned tensor, SmallVector<Holding> &choices) {
    const size_t homes = choices.size();
    for (size_t i = 0; i < homes; ++i) {
      for (LayoutAttr other : around[tensor]) {
        LayoutAttr home = choices[i].home;
        bool isPart = llvm::all_of(llvm::zip_equal(other.getLayout().dims, home.getLayout().dims), [](auto item) {
          auto &[fewer, axes] = item;
          return fewer.size() <= axes.size() && ArrayRef(axes).take_front(fewer.size()) == ArrayRef(fewer);
        });
        if (isPart && other != home) {
          choices.push_back({home, other});
        }
      }
    }
  }

  void addNodes() {
    forEachOp([&](unsigned number, int64_t runs) {
      const unsigned part = parts.ops[number];
      auto choices = opChoices.find(part);
      if (choices == opChoices.end()) {
        return;
      }
      auto [node, isNew] = opNodes.try_emplace(part, 0);
      if (isNew) {
        node->second = graph.addNode(std::vector<Cost>(choices->second.size(), 0));
        std::vector<Cost> &costs = opCosts[part];
        for (const OpChoice &choice : choices->second) {
          costs.push_back(addCosts(computePs(number, choice), choice.sendPs));
        }
      }
      for (auto [choice, cost] : llvm::enumerate(opCosts[part])) {
        graph.addCost(node->second, choice, multiply(cost, runs));
      }
    });
    for (auto &[tensor, choices] : holdings) {
      tensorNodes[tensor] = graph.addNode(std::vector<Cost>(choices.size(), 0));
    }
    // What nobody makes is brought to its second layout from its first.
    llvm::DenseSet<unsigned> counted;
    auto addGather = [&](unsigned tensor) {
      if (counted.insert(tensor).second && holdings.contains(parts.tensors[tensor])) {
        for (auto [choice, holding] : llvm::enumerate(holdings[parts.tensors[tensor]])) {
          graph.addCost(tensorNodes[parts.tensors[tensor]], choice,
                        holding.second ? planPs({problem.tensors[tensor].type, true}, holding.home, holding.second) : 0);
        }
      }
    };
    for (auto [variable, tensor] : problem.variables) {
      addGather(tensor);
    }
    for (const WeightedProgram &weighted : programs) {
      for (BlockArgument argument : func::FuncOp(problem.programs[weighted.program].function).getArguments()) {
        addGather(problem.values[problem.find(argument)].tensor);
      }
    }
  }

  // Finds what ops read and write, as price() has it for one device (passes/layout/redistribute/price.h): without a look at where
  // redistributions will stand.
  void findTraffic() {
    for (const WeightedProgram &weighted : programs) {
      layout::LocalProgram local = layout::localProgram(problem.programs[weighted.program].function);
      std::vector<layout::OpTraffic> all = layout::trafficOf(local, rates);
      for (auto [op, one] : llvm::zip_equal(local.ops, all)) {
        traffic[op.op] = std::move(one);
      }
    }
  }

  // Whether a value lies in memory.
  bool isStored(unsigned value) const {
    std::optional<unsigned> maker = problem.values[value].maker;
    auto found = maker ? traffic.find(problem.ops[*maker].op) : traffic.end();
    const unsigned result = maker ? llvm::find(problem.ops[*maker].results, value) - problem.ops[*maker].results.begin() : 0;
    return found != traffic.end() && found->second.isWritten[result];
  }

  // Returns the time of an op's work on one device: its part of what its kernel takes.
  int64_t computePs(unsigned number, const OpChoice &choice) const {
    const layout::ProblemOp &op = problem.ops[number];
    auto found = traffic.find(op.op);
    if (found == traffic.end()) {
      return 0; // nothing needs it
    }
    const layout::OpTraffic &one = found->second;
    auto localTypes = [&](ArrayRef<unsigned> values, ArrayRef<LayoutAttr> layouts) {
      return llvm::map_to_vector(llvm::zip_equal(values, layouts), [&](auto item) {
        return dist::localType(problem.mesh, problem.typeOf(std::get<0>(item)), std::get<1>(item).getLayout());
      });
    };
    SmallVector<RankedTensorType> operands = localTypes(op.operands, choice.operands), results = localTypes(op.results, choice.results);
    double bytes = 0;
    for (const layout::OpTraffic::Read &read : one.reads) { // a view is read in pieces as what is made of it
      bytes += double(read.bytes) * operands[read.operand].getNumElements() /
               std::max<int64_t>(1, problem.typeOf(op.operands[read.operand]).getNumElements());
    }
    for (auto [type, isWritten] : llvm::zip_equal(results, one.isWritten)) {
      bytes += isWritten ? byteSize(type) : 0;
    }
    dist::Work work = one.isCall || !one.isMemoryBound ? dist::workOf(op.op, operands, results) : dist::Work{};
    const int64_t moved = one.isCall || one.isMemoryBound ? static_cast<int64_t>(bytes) : 0;
    return one.isCall ? rates.callPs(work, moved) : rates.timePs(work, moved); // how many kernels there are is no choice
  }

  // Returns the time of the redistribution of a value; one that no kernel writes else is written for it, and read. A slice sends nothing,
  // but copies.
  int64_t planPs(const Redistributed &value, LayoutAttr from, LayoutAttr to) {
    if (from == to) {
      return 0;
    }
    auto [known, isNew] = planned.try_emplace({value.type, from, to}, std::pair(0, false));
    if (isNew) {
      int64_t time = 0;
      bool sends = false;
      layout::Layout layout = from.getLayout();
      for (const dist::Step &step : planner.plan(value.type, layout, to.getLayout()).steps) {
        const int64_t before = byteSize(dist::localType(problem.mesh, value.type, layout));
        layout = dist::applyStep(layout, step);
        const bool isSlice = step.kind == CollectiveKind::Slice;
        time += isSlice ? rates.callPs({}, before + byteSize(dist::localType(problem.mesh, value.type, layout))) : step.timePs;
        sends |= !isSlice;
      }
      known->second = {time, sends};
    }
    auto [time, sends] = known->second;
    return value.isStored || !sends ? time : time + rates.timePs(0, 0, localBytes(value.type, from) + localBytes(value.type, to));
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
  // or to the second and from there.
  void addEdge(unsigned a, unsigned b, const Redistributed &value, const Had &from, const Had &to, int64_t runs) {
    // By layout and choice.
    const size_t columns = to.homes.size();
    std::vector<Cost> costs(from.layouts.size() * columns), times(to.layouts.size());
    for (auto [number, layout] : llvm::enumerate(from.layouts)) {
      llvm::transform(to.layouts, times.begin(), [&, layout = layout](LayoutAttr other) { return planPs(value, layout, other); });
      for (size_t choice = 0; choice < columns; ++choice) {
        const unsigned home = to.homes[choice], second = to.seconds[choice].value_or(home);
        int64_t time = times[home];
        if (second != home) {
          time = std::min(time + planPs(value, to.layouts[home], to.layouts[second]),
                          times[second] + planPs(value, to.layouts[second], to.layouts[home]));
        }
        costs[number * columns + choice] = multiply(time, runs);
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
    return Had(llvm::map_to_vector(opChoices.at(op), [&](const OpChoice &choice) { return Holding{choice.operands[operand], {}}; }));
  }

  Had madeBy(unsigned op, unsigned result) const {
    return Had(llvm::map_to_vector(opChoices.at(op), [&](const OpChoice &choice) { return Holding{choice.results[result], {}}; }));
  }

  Had heldAs(unsigned tensor) const { return Had(holdings.find(tensor)->second); }

  Had homesOf(unsigned tensor) const {
    return Had(llvm::map_to_vector(holdings.find(tensor)->second, [](const Holding &holding) { return Holding{holding.home, {}}; }));
  }

  // Adds the redistributions of the values. Those between the same parts are priced once.
  void addEdges() {
    // maker or tensor, user or tensor, result of the maker, operand of the user: how often.
    enum Kind { OpToOp, OpToTensor, TensorToOp, TensorToTensor };
    llvm::MapVector<std::tuple<int, unsigned, unsigned, unsigned, unsigned>, int64_t> edges;
    std::map<std::tuple<int, unsigned, unsigned, unsigned, unsigned>, Redistributed> values;
    auto add = [&](Kind kind, unsigned from, unsigned to, unsigned result, unsigned operand, int64_t runs, unsigned value) {
      std::tuple key(static_cast<int>(kind), from, to, result, operand);
      edges[key] += runs;
      values.insert({key, {problem.typeOf(value), isStored(value)}});
    };
    forEachOp([&](unsigned number, int64_t runs) {
      const layout::ProblemOp &op = problem.ops[number];
      const bool hasNode = opNodes.count(parts.ops[number]);
      for (auto [index, value] : llvm::enumerate(op.results)) {
        if (hasNode && isHeld(value)) {
          add(OpToTensor, parts.ops[number], parts.tensors[problem.values[value].tensor], index, 0, runs, value);
        }
      }
      for (auto [index, value] : llvm::enumerate(op.operands)) {
        if (isFree(value)) {
          continue;
        }
        std::optional<unsigned> kept = isa<nn::WriteOp, func::ReturnOp>(op.op) ? op.taken[index] : std::nullopt;
        std::optional<unsigned> maker = problem.values[value].maker;
        if (isHeld(value)) {
          const unsigned tensor = parts.tensors[problem.values[value].tensor];
          if (kept) {
            add(TensorToTensor, tensor, parts.tensors[*kept], 0, 0, runs, value);
          } else if (hasNode) {
            add(TensorToOp, tensor, parts.ops[number], 0, index, runs, value);
          }
        } else if (maker && opNodes.count(parts.ops[*maker])) {
          const unsigned result = llvm::find(problem.ops[*maker].results, value) - problem.ops[*maker].results.begin();
          if (kept) {
            add(OpToTensor, parts.ops[*maker], parts.tensors[*kept], result, 0, runs, value);
          } else if (hasNode) {
            add(OpToOp, parts.ops[*maker], parts.ops[number], result, index, runs, value);
          }
        }
      }
    });
    for (const auto &[key, runs] : edges) {
      auto [kind, from, to, result, operand] = key;
      const Redistributed value = values.at(key);
      switch (kind) {
      case OpToOp:
        addEdge(opNodes.at(from), opNodes.at(to), value, madeBy(from, result), takenBy(to, operand), runs);
        break;
      case OpToTensor: // the next step gathers a variable
        addEdge(opNodes.at(from), tensorNodes.at(to), value, madeBy(from, result), variables.contains(to) ? homesOf(to) : heldAs(to), runs);
        break;
      case TensorToOp:
        addEdge(tensorNodes.at(from), opNodes.at(to), value, heldAs(from), takenBy(to, operand), runs);
        break;
      case TensorToTensor:
        addEdge(tensorNodes.at(from), tensorNodes.at(to), value, heldAs(from), homesOf(to), runs);
        break;
      }
    }
    tieSmallState();
  }

  // Has the state of small parameters split as they are: splitting it would be many small messages.
  void tieSmallState() {
    llvm::StringMap<unsigned> byName;
    for (auto [variable, tensor] : problem.variables) {
      byName[nn::VariableOp(variable).getSymName()] = tensor;
    }
    llvm::DenseSet<std::pair<unsigned, unsigned>> tied;
    for (auto [op, tensor] : problem.variables) {
      nn::VariableOp variable = op;
      std::optional<StringRef> of = variable.getStateOf();
      if (!of) {
        continue;
      }
      const unsigned parameter = byName.lookup(*of), a = parts.tensors[parameter], b = parts.tensors[tensor];
      const RankedTensorType type = problem.tensors[parameter].type;
      if (type.getShape() != problem.tensors[tensor].type.getShape() || !tied.insert({a, b}).second) {
        continue;
      }
      std::vector<Cost> table;
      for (const Holding &holding : holdings.find(a)->second) {
        const bool isSmall = localBytes(type, holding.home) < smallBytes;
        for (const Holding &other : holdings.find(b)->second) {
          table.push_back(isSmall && holding.home != other.home ? kForbidden : 0);
        }
      }
      graph.addEdge(tensorNodes.at(a), tensorNodes.at(b), table);
    }
  }

  int64_t localBytes(RankedTensorType type, LayoutAttr layout) const {
    auto [bytes, isNew] = knownBytes.try_emplace({type, layout}, 0);
    if (isNew) {
      bytes->second = byteSize(dist::localType(problem.mesh, type, layout.getLayout()));
    }
    return bytes->second;
  }

  // Returns what a value or variable takes where it lies, by the choices of the node that decides on it; nothing where none does.
  std::optional<Row::Term> termOf(unsigned tensor, std::optional<unsigned> value) const {
    const unsigned part = parts.tensors[tensor];
    const RankedTensorType type = problem.tensors[tensor].type;
    Row::Term term;
    if (auto node = tensorNodes.find(part); node != tensorNodes.end()) {
      term.node = node->second;
      for (const Holding &holding : holdings.find(part)->second) {
        term.amounts.push_back(localBytes(type, holding.home) + (holding.second && value ? localBytes(type, holding.second) : 0));
      }
      return term;
    }
    std::optional<unsigned> maker = value ? problem.values[*value].maker : std::nullopt;
    if (!maker || !opNodes.count(parts.ops[*maker])) {
      return std::nullopt;
    }
    const unsigned result = llvm::find(problem.ops[*maker].results, *value) - problem.ops[*maker].results.begin();
    term.node = opNodes.at(parts.ops[*maker]);
    for (const OpChoice &choice : opChoices.at(parts.ops[*maker])) {
      term.amounts.push_back(localBytes(type, choice.results[result]));
    }
    return term;
  }

  // A row under construction: nodes enter it once.
  struct OpenRow {
    Row row;
    std::map<unsigned, size_t> places; // of nodes in the row's terms

    void add(const Row::Term &term) {
      auto [place, isNew] = places.try_emplace(term.node, row.terms.size());
      if (isNew) {
        row.terms.push_back(term);
        return;
      }
      for (auto [amount, more] : llvm::zip_equal(row.terms[place->second].amounts, term.amounts)) {
        amount += more;
      }
    }
  };

  // A value that lies in memory from one op of a program to another.
  struct Life {
    unsigned begin, end;
    Row::Term term;
  };

  // What lies in memory while a program runs, besides what always does.
  struct ProgramLives {
    unsigned firstOp, endOp;
    std::vector<Life> lives;
    std::vector<int64_t> whole; // by op: the bytes of whole tensors
  };

  void addRows() {
    llvm::DenseSet<unsigned> counted;
    auto addAlways = [&](unsigned tensor) {
      if (counted.insert(tensor).second) {
        if (std::optional<Row::Term> term = termOf(tensor, std::nullopt)) {
          always.add(*term);
        }
      }
    };
    llvm::for_each(llvm::make_second_range(problem.variables), addAlways);
    for (const WeightedProgram &weighted : programs) {
      for (BlockArgument argument : func::FuncOp(problem.programs[weighted.program].function).getArguments()) {
        addAlways(problem.values[problem.find(argument)].tensor);
      }
    }
    const std::vector<unsigned> lastReads = findLastReads();
    for (const WeightedProgram &weighted : programs) {
      programLives.push_back(findLives(problem.programs[weighted.program], lastReads));
      addFirstRows(programLives.back());
    }
    if (graph.rows.empty()) {
      graph.rows.push_back(always.row);
    }
  }

  ProgramLives findLives(const layout::ProblemProgram &program, const std::vector<unsigned> &lastReads) const {
    ProgramLives found{program.firstOp, program.endOp, {}, std::vector<int64_t>(program.endOp - program.firstOp + 1, 0)};
    for (unsigned op = program.firstOp; op < program.endOp; ++op) {
      for (unsigned value : problem.ops[op].results) {
        if (problem.ops[op].variable || isFree(value) || !isStored(value) || uses[value].empty()) {
          continue;
        }
        unsigned last = op;
        for (const Use &use : uses[value]) {
          last = std::max(last, lastReads[use.op]);
        }
        found.whole[op - program.firstOp] += byteSize(problem.typeOf(value));
        found.whole[last - program.firstOp + 1] -= byteSize(problem.typeOf(value));
        if (std::optional<Row::Term> term = termOf(problem.values[value].tensor, value)) {
          found.lives.push_back({op, last, std::move(*term)});
        }
      }
    }
    std::partial_sum(found.whole.begin(), found.whole.end(), found.whole.begin());
    return found;
  }

  // One row for each time at which whole tensors would take most, the largest ones.
  void addFirstRows(const ProgramLives &program) {
    std::vector<std::pair<int64_t, unsigned>> peaks; // bytes, op
    for (unsigned op = program.firstOp; op < program.endOp; ++op) {
      const int64_t *alive = &program.whole[op - program.firstOp];
      if (alive[1] < alive[0]) {
        peaks.push_back({-alive[0], op});
      }
    }
    llvm::sort(peaks);
    peaks.resize(std::min(peaks.size(), firstRows));
    for (unsigned op : llvm::make_second_range(peaks)) {
      addRow(program, op);
    }
  }

  void addRow(const ProgramLives &program, unsigned op) {
    OpenRow open = always;
    for (const Life &life : program.lives) {
      if (life.begin <= op && op <= life.end) {
        open.add(life.term);
      }
    }
    rowTimes.insert(op);
    graph.rows.push_back(std::move(open.row));
  }

  // Returns for each op the last one that reads the elements of its operands where it reads them: a view is read where what uses it runs.
  std::vector<unsigned> findLastReads() const {
    std::vector<unsigned> last(problem.ops.size());
    for (unsigned number = last.size(); number-- > 0;) {
      const layout::ProblemOp &op = problem.ops[number];
      bool isView = op.op->hasTrait<MovesElements>() || isa<nn::ReshapeOp, nn::GradientOp>(op.op);
      last[number] = number;
      if (isView && !op.results.empty()) {
        for (const Use &next : uses[op.results.front()]) {
          last[number] = std::max(last[number], last[next.op]);
        }
      }
    }
    return last;
  }

  const layout::LayoutProblem &problem;
  const SmallVector<WeightedProgram> programs;
  const RepeatedParts parts;
  dist::Planner &planner;
  const dist::DeviceRates rates;
  const int64_t smallBytes;
  const size_t firstRows;                // of each program
  std::vector<SmallVector<Use, 2>> uses; // by value
  llvm::DenseMap<Operation *, layout::OpTraffic> traffic;
  std::map<unsigned, std::vector<OpChoice>> opChoices; // by part, as all below
  std::map<unsigned, std::vector<Cost>> opCosts;
  llvm::DenseSet<unsigned> held, variables;
  llvm::MapVector<unsigned, llvm::SetVector<LayoutAttr>> around;
  llvm::MapVector<unsigned, SmallVector<Holding>> holdings;
  std::map<unsigned, unsigned> opNodes, tensorNodes;
  llvm::DenseMap<std::tuple<Type, Attribute, Attribute>, std::pair<int64_t, bool>> planned; // time, and whether anything is sent
  mutable llvm::DenseMap<std::pair<Type, Attribute>, int64_t> knownBytes;                   // of localBytes()
  OpenRow always;                                                                           // variables and inputs
  std::vector<ProgramLives> programLives;
  llvm::DenseSet<unsigned> rowTimes; // the ops that rows are of
};

LayoutGraph::LayoutGraph(const layout::LayoutProblem &problem, ArrayRef<WeightedProgram> programs, RepeatedParts parts,
                         dist::Planner &planner, const dist::DeviceRates &rates, int64_t smallBytes, size_t firstRows)
    : builder(std::make_unique<Builder>(problem, programs, std::move(parts), planner, rates, smallBytes, firstRows)) {}

LayoutGraph::~LayoutGraph() = default;

const DecisionGraph &LayoutGraph::getGraph() const {
  return builder->graph;
}

bool LayoutGraph::addPeakRow(const Choices &choices, int64_t limit) {
  return builder->addPeakRow(choices, limit);
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
