// SPDX-License-Identifier: Apache-2.0
//
// What lies in memory from one op of a program to another, and the times at which that is most.

#include "passes/search/memory_rows.h"

#include "dialects/support/aliases.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"

#include <numeric>

using namespace mlir;

namespace ashlar::search {

using dist::LayoutAttr;

// Returns what a value or variable takes where it lies, by the choices of the node that decides on it; nothing where none does.
std::optional<Row::Term> MemoryRows::termOf(unsigned tensor, std::optional<unsigned> value) const {
  const unsigned tensorClass = space.classes.tensors[tensor];
  const RankedTensorType type = space.problem.tensors[tensor].type;
  Row::Term term;
  if (auto node = nodes.tensors.find(tensorClass); node != nodes.tensors.end()) {
    term.node = node->second;
    for (const Holding &holding : space.holdings.find(tensorClass)->second) {
      term.amounts.push_back(space.localBytes(type, holding.home) + (holding.second && value ? space.localBytes(type, holding.second) : 0));
    }
    return term;
  }
  std::optional<unsigned> maker = value ? space.problem.values[*value].maker : std::nullopt;
  if (!maker || !nodes.ops.count(space.classes.ops[*maker])) {
    return std::nullopt;
  }
  const unsigned result = llvm::find(space.problem.ops[*maker].results, *value) - space.problem.ops[*maker].results.begin();
  term.node = nodes.ops.at(space.classes.ops[*maker]);
  for (const OpChoice &choice : space.opChoices.at(space.classes.ops[*maker])) {
    term.amounts.push_back(space.localBytes(type, choice.results[result]));
  }
  return term;
}

void MemoryRows::addFirst() {
  llvm::DenseSet<unsigned> counted;
  auto addAlways = [&](unsigned tensor) {
    if (counted.insert(tensor).second) {
      if (std::optional<Row::Term> term = termOf(tensor, std::nullopt)) {
        always.add(*term);
      }
    }
  };
  llvm::for_each(llvm::make_second_range(space.problem.variables), addAlways);
  for (const WeightedProgram &weighted : space.programs) {
    for (BlockArgument argument : func::FuncOp(space.problem.programs[weighted.program].function).getArguments()) {
      addAlways(space.problem.values[space.problem.find(argument)].tensor);
    }
  }
  const std::vector<unsigned> lastReads = findLastReads();
  for (const WeightedProgram &weighted : space.programs) {
    programLives.push_back(findLives(weighted.program, lastReads));
    addFirstRows(programLives.back());
  }
  if (graph.rows.empty()) {
    graph.rows.push_back(always.row);
  }
}

MemoryRows::ProgramLives MemoryRows::findLives(unsigned number, const std::vector<unsigned> &lastReads) const {
  const layout::ProblemProgram &program = space.problem.programs[number];
  ProgramLives found{number, program.firstOp, program.endOp, {}, std::vector<int64_t>(program.endOp - program.firstOp + 1, 0), 0, {}};
  for (unsigned op = program.firstOp; op < program.endOp; ++op) {
    for (unsigned value : space.problem.ops[op].results) {
      if (space.problem.ops[op].variable || space.isFree(value) || !space.isStored(value) || space.uses[value].empty()) {
        continue;
      }
      unsigned last = op;
      for (const LayoutSpace::Use &use : space.uses[value]) {
        last = std::max(last, lastReads[use.op]);
      }
      found.whole[op - program.firstOp] += byteSize(space.problem.typeOf(value));
      found.whole[last - program.firstOp + 1] -= byteSize(space.problem.typeOf(value));
      if (std::optional<Row::Term> term = termOf(space.problem.values[value].tensor, value)) {
        found.lives.push_back({op, last, std::move(*term)});
      }
    }
  }
  std::partial_sum(found.whole.begin(), found.whole.end(), found.whole.begin());
  return found;
}

// One row for each time at which whole tensors would take most, the largest ones.
void MemoryRows::addFirstRows(ProgramLives &program) {
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

void MemoryRows::addRow(ProgramLives &program, unsigned op) {
  OpenRow open = always;
  open.row.fixed += program.unseen;
  for (const Life &life : program.lives) {
    if (life.begin <= op && op <= life.end) {
      open.add(life.term);
    }
  }
  times.insert(op);
  program.rows.push_back(graph.rows.size());
  graph.rows.push_back(std::move(open.row));
}

// Returns for each op the last one that reads the elements of its operands where it reads them: a view is read where what uses it runs.
std::vector<unsigned> MemoryRows::findLastReads() const {
  std::vector<unsigned> last(space.problem.ops.size());
  for (unsigned number = last.size(); number-- > 0;) {
    const layout::ProblemOp &op = space.problem.ops[number];
    bool isView = op.op->hasTrait<MovesElements>() || aliasesOperands(op.op);
    last[number] = number;
    if (isView && !op.results.empty()) {
      for (const LayoutSpace::Use &next : space.uses[op.results.front()]) {
        last[number] = std::max(last[number], last[next.op]);
      }
    }
  }
  return last;
}

MemoryRows::Peak MemoryRows::peakOf(const ProgramLives &program, const Choices &choices) const {
  std::vector<int64_t> change(program.endOp - program.firstOp + 1, 0);
  for (const Life &life : program.lives) {
    const int64_t bytes = life.term.amounts[choices[life.term.node]];
    change[life.begin - program.firstOp] += bytes;
    change[life.end - program.firstOp + 1] -= bytes;
  }
  int64_t alive = DecisionGraph::amount(always.row, choices) + program.unseen;
  Peak peak{alive, program.firstOp};
  for (unsigned op = program.firstOp; op < program.endOp; ++op) {
    alive += change[op - program.firstOp];
    peak = alive > peak.bytes ? Peak{alive, op} : peak;
  }
  return peak;
}

bool MemoryRows::addPeak(const Choices &choices, int64_t limit) {
  ProgramLives *where = nullptr;
  Peak most{limit, 0};
  for (ProgramLives &program : programLives) {
    if (const Peak peak = peakOf(program, choices); peak.bytes > most.bytes) {
      where = &program;
      most = peak;
    }
  }
  if (!where || times.contains(most.op)) {
    return false;
  }
  addRow(*where, most.op);
  return true;
}

bool MemoryRows::cover(const Choices &choices, llvm::ArrayRef<int64_t> programBytes) {
  bool grew = false;
  for (ProgramLives &program : programLives) {
    const int64_t more = programBytes[program.program] - peakOf(program, choices).bytes;
    if (more > 0) {
      program.unseen += more;
      llvm::for_each(program.rows, [&](size_t row) { graph.rows[row].fixed += more; });
      grew = true;
    }
  }
  return grew;
}

} // namespace ashlar::search
