// SPDX-License-Identifier: Apache-2.0
//
// Prices of local programs. What lowering will do is foreseen by one coarse rule: library calls and collectives keep their order, and every
// other op joins the kernel that stands before the first of them that needs its result, as ordering and fusion arrange it (passes/lower).

#include "passes/layout/price.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace ashlar::layout {

namespace {

// How an op runs.
enum class Form {
  Source, // a value that is there, or is made where it is used: a read, a constant
  Alias,  // another name of its operand
  View,   // elements of its operands in other places, read there by what uses it
  Kernel, // in a generated kernel
  Call,   // an instruction of its own: a library call, a collective
  Write   // where a value is kept
};

Form formOf(const LocalOp &local) {
  if (!local.op) {
    return local.kind ? Form::Call : Form::Alias;
  }
  if (local.op->getNumResults() == 0) {
    return Form::Write;
  }
  if (isa<nn::ReadOp, nn::ConstantOp>(local.op) || local.operands.empty()) {
    return Form::Source;
  }
  if (isa<nn::ReshapeOp, nn::GradientOp>(local.op)) {
    return Form::Alias;
  }
  if (local.op->hasTrait<MovesElements>()) {
    return Form::View;
  }
  auto compute = dyn_cast<ComputeOpInterface>(local.op);
  bool isCall = !compute || compute.getCost() == Cost::Contraction || isa<IndexingOpInterface>(local.op);
  return isCall ? Form::Call : Form::Kernel;
}

bool reduces(Operation *op) {
  auto rule = dyn_cast<ShardingRuleOpInterface>(op);
  auto isReduction = [](const Factor &factor) { return factor.kind == FactorKind::Reduction; };
  return rule && llvm::any_of(rule.getShardingRule().factors, isReduction);
}

// State: for each op and value the time at which it is computed or read. Call number c takes place at time 2 c + 1, the kernel before it at
// time 2 c.
class Pricing {
public:
  Pricing(const LocalProgram &program, const dist::DeviceRates &rates) : program(program), rates(rates) {
    for (const LocalOp &op : program.ops) {
      forms.push_back(formOf(op));
      anchors.push_back(forms.back() == Form::Call || (forms.back() == Form::Kernel && reduces(op.op)));
      calls += forms.back() == Form::Call;
    }
  }

  ProgramPrice run() {
    findTimes();
    findReaders();
    ProgramPrice price;
    for (const LocalOp &op : program.ops) {
      price.bytesSent += op.bytes;
      price.sendPs += op.timePs;
    }
    price.computePs = computePs();
    price.peakBytes = peakBytes();
    return price;
  }

private:
  static constexpr int64_t kNever = INT64_MAX;

  // Finds when ops run. A call, and a reduction, stands where the program has it; a write comes as soon as its value is there and nobody
  // reads the old one any more; other ops come when they are needed.
  void findTimes() {
    times.assign(program.ops.size(), kNever);
    SmallVector<int64_t> ready(program.ops.size(), 0); // the time after which an op has its operands
    llvm::DenseMap<Attribute, int64_t> lastRead;       // by variable
    int64_t call = 0;
    for (size_t op = 0; op < program.ops.size(); ++op) {
      for (unsigned operand : program.ops[op].operands) {
        if (std::optional<unsigned> maker = program.makers[operand]) {
          ready[op] = std::max(ready[op], ready[*maker]);
        }
      }
      if (anchors[op]) {
        bool isCall = forms[op] == Form::Call;
        times[op] = 2 * call + isCall;
        ready[op] = times[op] + isCall;
        call += isCall;
        for (unsigned operand : program.ops[op].operands) {
          visitRead(operand, [&](unsigned value) {
            std::optional<unsigned> maker = program.makers[value];
            if (auto read = maker ? dyn_cast_or_null<nn::ReadOp>(program.ops[*maker].op) : nn::ReadOp()) {
              int64_t &last = lastRead[read.getVariableAttr().getAttr()];
              last = std::max(last, times[op]);
            }
          });
        }
      }
    }
    for (size_t op = program.ops.size(); op-- > 0;) {
      if (forms[op] == Form::Write) {
        auto write = dyn_cast<nn::WriteOp>(program.ops[op].op);
        int64_t after = write ? lastRead.lookup(write.getVariableAttr().getAttr()) : 2 * calls;
        times[op] = std::max(ready[op], after + 1) / 2 * 2;
      }
      if (times[op] == kNever) { // its results are not needed by what is anchored
        times[op] = 2 * calls;
      }
      for (unsigned operand : program.ops[op].operands) {
        if (std::optional<unsigned> maker = program.makers[operand]; maker && !anchors[*maker]) {
          times[*maker] = std::min(times[*maker], times[op] / 2 * 2);
        }
      }
    }
  }

  // Returns the value whose bytes `value` is another name of.
  unsigned storageOf(unsigned value) const {
    std::optional<unsigned> maker = program.makers[value];
    while (maker && forms[*maker] == Form::Alias) {
      value = program.ops[*maker].operands.front();
      maker = program.makers[value];
    }
    return value;
  }

  // Visits the values that are read from memory where `value` is read: those that the views before it are of.
  void visitRead(unsigned value, llvm::function_ref<void(unsigned value)> visit) const {
    SmallVector<unsigned> pending = {value};
    llvm::DenseSet<unsigned> seen;
    while (!pending.empty()) {
      unsigned next = storageOf(pending.pop_back_val());
      std::optional<unsigned> maker = program.makers[next];
      if (!seen.insert(next).second) {
        continue;
      }
      if (maker && forms[*maker] == Form::View) {
        llvm::append_range(pending, program.ops[*maker].operands);
      } else {
        visit(next);
      }
    }
  }

  // Notes for each value that lies in memory when it is read last, and by which kernels and calls.
  void findReaders() {
    lastReads.assign(program.values.size(), -1);
    isKept.assign(program.values.size(), false);
    for (size_t op = 0; op < program.ops.size(); ++op) {
      for (unsigned operand : program.ops[op].operands) {
        if (forms[op] == Form::Kernel) {
          visitRead(operand, [&](unsigned value) { noteReader(value, op); });
        } else if (forms[op] == Form::Call || forms[op] == Form::Write) {
          noteStored(operand, op);
        } // others read when they are read
      }
    }
  }

  // Notes that an op reads a value from memory that may be a view: then a kernel of its own writes it.
  void noteStored(unsigned value, size_t reader) {
    value = storageOf(value);
    std::optional<unsigned> maker = program.makers[value];
    if (maker && forms[*maker] == Form::View && lastReads[value] < 0) {
      visitRead(value, [&](unsigned source) { noteReader(source, *maker); });
    }
    noteReader(value, reader);
  }

  void noteReader(unsigned value, size_t reader) {
    lastReads[value] = std::max(lastReads[value], times[reader]);
    isKept[value] = isKept[value] || forms[reader] == Form::Write;
    std::optional<CollectiveKind> kind = program.ops[reader].kind; // what others than slices move is not computing
    bool computes = forms[reader] != Form::Write && (!kind || kind == CollectiveKind::Slice);
    if (computes) {
      readers.insert({times[reader], value});
    }
  }

  // Returns when a value is computed; the time before all for what is there from the start.
  int64_t madeAt(unsigned value) const {
    std::optional<unsigned> maker = program.makers[value];
    return maker && forms[*maker] != Form::Source ? times[*maker] : -1;
  }

  // Whether a value lies in memory: something other than its own kernel reads it.
  bool isStored(unsigned value) const {
    int64_t made = madeAt(value);
    return lastReads[value] >= 0 && (made % 2 != 0 || lastReads[value] != made || isKept[value]);
  }

  int64_t bytesOf(unsigned value) const { return byteSize(program.values[value]); }

  int64_t computePs() const {
    struct Work {
      __int128 flops = 0, narrowFlops = 0, bytes = 0;
    };
    std::vector<Work> work(2 * calls + 2);
    for (size_t op = 0; op < program.ops.size(); ++op) {
      const LocalOp &local = program.ops[op];
      if (local.kind && *local.kind != CollectiveKind::Slice) {
        continue; // sendPs
      }
      Work &here = work[times[op]];
      (local.isNarrow && forms[op] == Form::Call ? here.narrowFlops : here.flops) += local.flops;
      for (unsigned result : local.results) {
        here.bytes += forms[op] != Form::Source && forms[op] != Form::Alias && isStored(result) ? bytesOf(result) : 0;
      }
    }
    for (auto [time, value] : readers) {
      std::optional<unsigned> maker = program.makers[value];
      bool isConstant = maker && isa_and_nonnull<nn::ConstantOp>(program.ops[*maker].op);
      bool isOwn = madeAt(value) == time && time % 2 == 0; // of the kernel that reads it
      work[time].bytes += isConstant || isOwn ? 0 : bytesOf(value);
    }
    int64_t total = 0;
    auto clamp = [](__int128 number) { return static_cast<int64_t>(std::min<__int128>(number, INT64_MAX)); };
    for (const Work &here : work) {
      int64_t time = rates.timePs(clamp(here.flops), clamp(here.narrowFlops), clamp(here.bytes));
      total = std::min(total, INT64_MAX - time) + time; // of a slow device a long program may take more
    }
    return total;
  }

  // Whether what an op makes may take the place of an operand that dies: element by element, or by the collective.
  bool worksInPlace(size_t op) const {
    return program.ops[op].kind == CollectiveKind::AllReduce || (forms[op] == Form::Kernel && !anchors[op]);
  }

  // What is written or returned lies where it is kept.
  int64_t peakBytes() const {
    struct Change {
      int64_t added = 0, replaced = 0, freed = 0; // replaced: added where freed bytes may be taken
    };
    std::vector<Change> changes(2 * calls + 2);
    for (unsigned value = 0; value < program.values.size(); ++value) {
      int64_t made = madeAt(value);
      if (made < 0 || !isStored(value) || storageOf(value) != value || isKept[value]) {
        continue;
      }
      (worksInPlace(*program.makers[value]) ? changes[made].replaced : changes[made].added) += bytesOf(value);
      changes[lastReads[value]].freed += bytesOf(value);
    }
    int64_t alive = 0, peak = 0;
    for (const Change &change : changes) {
      peak = std::max(peak, alive + change.added + std::max<int64_t>(0, change.replaced - change.freed));
      alive += change.added + change.replaced - change.freed;
    }
    return peak;
  }

  const LocalProgram &program;
  const dist::DeviceRates &rates;
  std::vector<bool> anchors;                      // of ops: they stand where the program has them
  std::vector<Form> forms;                        // of ops
  std::vector<int64_t> times;                     // of ops
  std::vector<int64_t> lastReads;                 // of values; -1: never
  std::vector<bool> isKept;                       // of values: written to a variable or returned
  std::set<std::pair<int64_t, unsigned>> readers; // times and values read
  int64_t calls = 0;
};

} // namespace

int64_t Price::memoryBytes() const {
  int64_t peak = 0;
  llvm::for_each(programs, [&](const ProgramPrice &program) { peak = std::max(peak, program.peakBytes); });
  return parameterBytes + stateBytes + inputOutputBytes + peak;
}

ProgramPrice priceProgram(const LocalProgram &program, const dist::DeviceRates &rates) {
  return Pricing(program, rates).run();
}

Price price(const LayoutProblem &problem, const Assignment &assignment, dist::Planner &planner, const dist::DeviceRates &rates) {
  Price price;
  llvm::DenseSet<unsigned> counted;
  auto bytesOf = [&](unsigned tensor) -> int64_t {
    const ProblemTensor &row = problem.tensors[tensor];
    return counted.insert(tensor).second ? byteSize(dist::localType(problem.mesh, row.type, row.given->layout)) : 0;
  };
  for (auto [variable, tensor] : problem.variables) {
    (variable.getTrainable() ? price.parameterBytes : price.stateBytes) += bytesOf(tensor);
  }
  for (const ProblemProgram &program : problem.programs) {
    for (BlockArgument argument : func::FuncOp(program.function).getArguments()) {
      price.inputOutputBytes += bytesOf(problem.values[problem.find(argument)].tensor);
    }
    for (unsigned index = 0; index < func::FuncOp(program.function).getNumResults(); ++index) {
      price.inputOutputBytes += bytesOf(problem.resultTensor(program, index));
    }
    price.programs.push_back(priceProgram(localProgram(problem, program, assignment, planner), rates));
  }
  return price;
}

} // namespace ashlar::layout
