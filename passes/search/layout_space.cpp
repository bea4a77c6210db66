// SPDX-License-Identifier: Apache-2.0
//
// Uses, traffic and choices of ops first; the layouts of held tensors are those that the ops around them have for them.

#include "passes/search/layout_space.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "passes/layout/inference/copy_sources.h"

using namespace mlir;

namespace ashlar::search {

using dist::LayoutAttr;

LayoutAttr withoutTerms(LayoutAttr layout) {
  layout::Layout combined = layout.getLayout();
  combined.partial.clear();
  return LayoutAttr::get(layout.getContext(), combined);
}

bool canBecome(LayoutAttr from, LayoutAttr to) {
  return llvm::all_of(to.getPartialAxes(), [&](Attribute axis) { return llvm::is_contained(from.getPartialAxes(), axis); });
}

LayoutSpace::LayoutSpace(const layout::LayoutProblem &problem, ArrayRef<WeightedProgram> programs, ColourClasses classes,
                         analysis::Planner &planner, const analysis::DeviceRates &rates)
    : problem(problem), programs(programs), classes(std::move(classes)), rates(rates) {
  findUses();
  findTraffic();
  findHeldTensors();
  listOpChoices(planner);
  listHoldings();
}

void LayoutSpace::forEachOp(function_ref<void(unsigned op, int64_t runs)> visit) const {
  for (const WeightedProgram &weighted : programs) {
    const layout::ProblemProgram &program = problem.programs[weighted.program];
    for (unsigned op = program.firstOp; op < program.endOp; ++op) {
      visit(op, layout::costOfRuns(weighted.runs, problem.ops[op].runs));
    }
  }
}

void LayoutSpace::findUses() {
  uses.resize(problem.values.size());
  forEachOp([&](unsigned op, int64_t) {
    for (auto [index, value] : llvm::enumerate(problem.ops[op].operands)) {
      uses[value].push_back({op, static_cast<unsigned>(index)});
    }
  });
}

bool LayoutSpace::isFree(unsigned value) const {
  std::optional<unsigned> maker = problem.values[value].maker;
  if (!maker || problem.tensors[problem.values[value].tensor].given) {
    return false;
  }
  const layout::ProblemOp &op = problem.ops[*maker];
  return op.isSource() || (layout::isSource(*op.op) && !isStored(value)); // a scalar that its reader repeats
}

// Finds what ops read and write, as estimate() has it for one device (passes/layout/redistribute/estimate.h): without a look at where
// redistributions will stand.
void LayoutSpace::findTraffic() {
  for (const WeightedProgram &weighted : programs) {
    layout::LocalProgram local = layout::localProgram(problem.programs[weighted.program].function);
    std::vector<layout::OpTraffic> all = layout::trafficOf(local, rates);
    for (auto [op, one] : llvm::zip_equal(local.ops, all)) {
      traffic[op.op] = std::move(one);
    }
  }
}

bool LayoutSpace::isStored(unsigned value) const {
  std::optional<unsigned> maker = problem.values[value].maker;
  auto found = maker ? traffic.find(problem.ops[*maker].op) : traffic.end();
  const unsigned result = maker ? llvm::find(problem.ops[*maker].results, value) - problem.ops[*maker].results.begin() : 0;
  return found != traffic.end() && found->second.isWritten[result];
}

int64_t LayoutSpace::bytesAgain(unsigned value) const {
  std::optional<unsigned> maker = problem.values[value].maker;
  auto found = maker ? traffic.find(problem.ops[*maker].op) : traffic.end();
  return found == traffic.end() ? 0 : found->second.bytesAgain;
}

bool LayoutSpace::mayBeSum(unsigned value, StringAttr axis) const {
  std::optional<unsigned> maker = problem.values[value].maker;
  auto choices = maker && !isHeld(value) ? opChoices.find(classes.ops[*maker]) : opChoices.end();
  if (choices == opChoices.end()) {
    return false;
  }
  const unsigned result = llvm::find(problem.ops[*maker].results, value) - problem.ops[*maker].results.begin();
  return llvm::any_of(choices->second, [&](const OpChoice &choice) {
    const layout::Layout &made = choice.results[result].getLayout();
    return made.reduction == Reduction::Sum && llvm::is_contained(made.partial, axis);
  });
}

void LayoutSpace::listOpChoices(analysis::Planner &planner) {
  forEachOp([&](unsigned number, int64_t) {
    const layout::ProblemOp &op = problem.ops[number];
    bool isFreeSource = op.results.size() == 1 && isFree(op.results.front());
    if (op.rule && !isFreeSource && opChoices.count(classes.ops[number]) == 0) {
      auto mayBeTerms = [&](unsigned operand, StringAttr axis) { return mayBeSum(op.operands[operand], axis); };
      opChoices[classes.ops[number]] = listChoices(problem, op, planner, mayBeTerms);
    }
  });
}

// Tensors with nodes of their own: all but what one op makes and one other uses. What nobody uses needs none.
void LayoutSpace::findHeldTensors() {
  for (auto [variable, tensor] : problem.variables) {
    held.insert(classes.tensors[tensor]);
    variables.insert(classes.tensors[tensor]);
  }
  for (auto [number, value] : llvm::enumerate(problem.values)) {
    bool isGiven = problem.tensors[value.tensor].given.has_value();
    bool isUsed = !uses[number].empty();
    if (isUsed && !isFree(number) && (!value.maker || isGiven || uses[number].size() > 1)) {
      held.insert(classes.tensors[value.tensor]);
    }
  }
  forEachOp([&](unsigned number, int64_t) {
    if (isa<func::ReturnOp>(problem.ops[number].op)) {
      for (std::optional<unsigned> taken : problem.ops[number].taken) {
        held.insert(classes.tensors[*taken]);
      }
    }
  });
}

bool LayoutSpace::isHeld(unsigned value) const {
  return held.contains(classes.tensors[problem.values[value].tensor]);
}

// The choices of each held tensor: the layouts that the ops around it have for it.
void LayoutSpace::listHoldings() {
  auto add = [&](unsigned tensor, LayoutAttr layout) {
    if (held.contains(classes.tensors[tensor])) {
      around[classes.tensors[tensor]].insert(withoutTerms(layout));
    }
  };
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
    int64_t rank = problem.tensors[tensor].type.getRank();
    add(tensor, LayoutAttr::get(problem.mesh.getContext(), layout::Layout::replicated(rank)));
  }
  forEachOp([&](unsigned number, int64_t) {
    const layout::ProblemOp &op = problem.ops[number];
    auto choices = opChoices.find(classes.ops[number]);
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
bool LayoutSpace::isAllowed(unsigned tensor, LayoutAttr home) const {
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
void LayoutSpace::addSecondHoldings(unsigned tensor, SmallVector<Holding> &choices) {
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

int64_t LayoutSpace::localBytes(RankedTensorType type, LayoutAttr layout) const {
  auto [bytes, isNew] = knownBytes.try_emplace({type, layout}, 0);
  if (isNew) {
    bytes->second = byteSize(dist::localType(problem.mesh, type, layout.getLayout()));
  }
  return bytes->second;
}

} // namespace ashlar::search
