// SPDX-License-Identifier: Apache-2.0
//
// Estimates of local programs. Lowering is predicted by one coarse rule: library calls and collectives keep their order, and every other op
// joins the kernel that stands before the first of them that needs its result, as ordering and fusion arrange it (passes/lower).
// Longer than 500 lines: one class, whose parts all read the same times of ops and values.

#include "passes/layout/redistribute/estimate.h"

#include "dialects/nn/nn.h"
#include "dialects/support/aliases.h"
#include "dialects/support/element_type.h"
#include "dialects/support/op_interfaces.h"
#include "passes/analysis/schedule/overlap_schedule.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace ashlar::layout {

namespace {

// How an op runs.
enum class Form {
  Source, // a value that is there, or is made where it is used: a read, a constant
  Alias,  // another name of its operand
  View,   // elements of its operands in other places, read there by its users
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
  if (aliasesOperands(local.op)) {
    return Form::Alias;
  }
  if (local.op->hasTrait<MovesElements>()) {
    return Form::View;
  }
  return analysis::runsAlone(local.op) ? Form::Call : Form::Kernel;
}

// Whether the op, or its expansion, makes sums of elements: it has a factor that the result has not.
bool reduces(Operation *op) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded) {
    return false;
  }
  const ShardingRule rule = sharded.getShardingRule();
  auto isInResult = [&](int64_t factor) {
    return llvm::any_of(rule.results, [&](const TensorFactors &tensor) {
      return llvm::any_of(tensor, [&](const auto &dim) { return llvm::is_contained(dim, factor); });
    });
  };
  return llvm::any_of(llvm::enumerate(rule.factors), [&](auto item) {
    const FactorKind kind = item.value().kind;
    return kind == FactorKind::Reduction || (kind == FactorKind::Expanded && !isInResult(item.index()));
  });
}

// A unit of execution: a call, or a kernel.
struct Work {
  __int128 flops = 0, narrowFlops = 0, bytes = 0;
  int64_t runs = 1;                 // how often it runs
  int64_t timePs = 0;               // of these, in all runs
  std::optional<int64_t> owner;     // the only device that computes it
  std::optional<size_t> collective; // or the collective that it is
};

// State: for each op and value the time at which it is computed or read. Call number c takes place at time 2 c + 1, the kernels before it
// at time 2 c.
class Pricing {
public:
  Pricing(const LocalProgram &program, const analysis::DeviceRates &rates, int64_t handOverPs)
      : program(program), rates(rates), handOverPs(handOverPs) {
    for (const LocalOp &op : program.ops) {
      forms.push_back(formOf(op));
      anchors.push_back(forms.back() == Form::Call || (forms.back() == Form::Kernel && reduces(op.op)));
      calls += forms.back() == Form::Call;
    }
  }

  ProgramEstimate run() {
    findTimes();
    findKernels();
    findComputedAgain();
    findReaders();
    ProgramEstimate estimate;
    for (const LocalOp &op : program.ops) {
      estimate.bytesSent += op.bytes;
      estimate.sendPs += op.timePs;
    }
    std::vector<Work> works = listWorks();
    estimate.computePs = sumOf(works);
    addExposed(works, estimate);
    estimate.peakBytes = peakBytes();
    return estimate;
  }

  std::vector<OpTraffic> traffic() {
    findTimes();
    findKernels();
    findComputedAgain();
    findReaders();
    std::vector<OpTraffic> all(program.ops.size());
    std::vector<Work> works = listWorks();
    for (size_t op = 0; op < program.ops.size(); ++op) {
      OpTraffic &one = all[op];
      const Work &work = works[workOf[op]];
      one.isCall = forms[op] == Form::Call;
      one.isMemoryBound = rates.timePs(0, 0, clamp(work.bytes)) >= rates.timePs(clamp(work.flops), clamp(work.narrowFlops), 0);
      for (unsigned result : program.ops[op].results) {
        one.isWritten.push_back(isWritten(op, result) && !analysis::findUpdated(program.ops[op].op));
      }
      for (auto [operand, value] : reads[op]) {
        if (!isReadFree(workOf[op], value)) {
          one.reads.push_back({operand, bytesOf(value)});
        }
      }
      if (std::optional<unsigned> updated = analysis::findUpdated(program.ops[op].op);
          updated && isWritten(op, program.ops[op].results[0])) {
        for (auto [position, value] : llvm::enumerate(program.ops[op].operands)) {
          if (position != *updated) { // written as well as read
            one.reads.push_back({static_cast<unsigned>(position), bytesOf(value)});
          }
        }
      }
      one.bytesAgain = anchors[op] && forms[op] == Form::Kernel ? bytesBehind(op) : 0;
    }
    return all;
  }

private:
  static constexpr int64_t kNever = INT64_MAX;

  // Returns the bytes that the ops of a kernel read which depend on one of them.
  int64_t bytesBehind(size_t op) const {
    llvm::SmallSetVector<size_t, 8> behind;
    llvm::SmallSetVector<unsigned, 4> values;
    behind.insert(op);
    for (size_t next = 0; next < behind.size(); ++next) {
      for (unsigned result : program.ops[behind[next]].results) {
        for (size_t user : users[result]) {
          if (workOf[user] == workOf[op] && behind.insert(user)) {
            for (unsigned operand : program.ops[user].operands) {
              visitRead(operand, [&](unsigned value) {
                if (!isReadFree(workOf[op], value)) {
                  values.insert(value);
                }
              });
            }
          }
        }
      }
    }
    int64_t bytes = 0;
    for (unsigned value : values) {
      bytes += bytesOf(value);
    }
    return bytes;
  }

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
      if (times[op] == kNever) { // no anchored op needs its results
        times[op] = 2 * calls;
      }
      for (unsigned operand : program.ops[op].operands) {
        if (std::optional<unsigned> maker = program.makers[operand]; maker && !anchors[*maker]) {
          times[*maker] = std::min(times[*maker], times[op] / 2 * 2);
        }
      }
    }
  }

  // Whether the op is a collective. The copies of slices count as computation.
  bool isSent(size_t op) const {
    std::optional<CollectiveKind> kind = program.ops[op].kind;
    return kind && kind != CollectiveKind::Slice;
  }

  // Numbers calls and kernels in their order. Of the ops at one time those are a kernel that depend on each other.
  void findKernels() {
    llvm::EquivalenceClasses<size_t> kernels;
    auto isInKernel = [&](size_t op) { return forms[op] != Form::Call && forms[op] != Form::Source; };
    for (size_t op = 0; op < program.ops.size(); ++op) {
      kernels.insert(op);
      for (unsigned operand : program.ops[op].operands) {
        std::optional<unsigned> maker = program.makers[operand];
        bool isOne = maker && isInKernel(op) && isInKernel(*maker) && times[op] == times[*maker] &&
                     program.ops[op].owner == program.ops[*maker].owner && program.ops[op].runs == program.ops[*maker].runs;
        if (isOne) {
          kernels.unionSets(op, *maker);
        }
      }
    }
    llvm::MapVector<size_t, SmallVector<size_t>> members; // by leader
    for (size_t op = 0; op < program.ops.size(); ++op) {
      members[kernels.getLeaderValue(op)].push_back(op);
    }
    auto lists = members.takeVector();
    llvm::sort(lists, [&](const auto &a, const auto &b) {
      return std::pair(times[a.first], a.second.front()) < std::pair(times[b.first], b.second.front());
    });
    workOf.resize(program.ops.size());
    for (const SmallVector<size_t> &ops : llvm::make_second_range(lists)) {
      llvm::for_each(ops, [&](size_t op) { workOf[op] = workCount; });
      ++workCount;
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

  // Finds the values that their readers, all kernels, recompute element by element, as in lowering (passes/lower/fusion/compute_again.h):
  // their operands stay in memory instead.
  void findComputedAgain() {
    users.resize(program.values.size());
    for (size_t op = 0; op < program.ops.size(); ++op) {
      for (unsigned operand : program.ops[op].operands) {
        visitRead(operand, [&](unsigned value) { users[value].push_back(op); });
      }
    }
    for (size_t op = 0; op < program.ops.size(); ++op) {
      if (forms[op] == Form::Kernel && !anchors[op] && program.ops[op].results.size() == 1) {
        considerAgain(op);
      }
    }
  }

  void considerAgain(size_t op) {
    const unsigned value = program.ops[op].results.front();
    std::set<unsigned> outside; // kernels
    bool isInKernels = llvm::all_of(users[value], [&](size_t user) { return forms[user] == Form::Kernel; });
    for (size_t user : users[value]) {
      outside.insert(workOf[user]);
    }
    outside.erase(workOf[op]);
    std::optional<SmallVector<unsigned>> leaves = isInKernels && !outside.empty() ? leavesOf(op) : std::nullopt;
    if (!leaves) {
      return;
    }
    int64_t last = 0, kept = 0, gain = bytesOf(value) * (1 + static_cast<int64_t>(outside.size()));
    for (size_t user : users[value]) {
      last = std::max(last, times[user]);
    }
    for (unsigned leaf : *leaves) {
      std::optional<unsigned> maker = program.makers[leaf];
      bool isThere = !maker || forms[*maker] == Form::Source;
      kept += isThere || llvm::any_of(users[leaf], [&](size_t user) { return times[user] >= last; }) ? 0 : bytesOf(leaf);
      gain -= isInMemory(leaf) ? 0 : bytesOf(leaf);
      for (unsigned kernel : outside) {
        gain -= llvm::any_of(users[leaf], [&](size_t user) { return workOf[user] == kernel; }) ? 0 : bytesOf(leaf);
      }
    }
    if (gain > 0 && kept <= bytesOf(value)) {
      for (unsigned leaf : *leaves) {
        llvm::append_range(users[leaf], users[value]);
      }
      again[value] = std::move(*leaves);
    }
  }

  // Whether something outside of its kernel takes the value, or it is there from the start.
  bool isInMemory(unsigned value) const {
    std::optional<unsigned> maker = program.makers[value];
    return !again.contains(value) && (!maker || forms[*maker] == Form::Source ||
                                      llvm::any_of(users[value], [&](size_t user) { return workOf[user] != workOf[*maker]; }));
  }

  // Returns the operands of an op's result that are in memory, or are sums of the same kernel; nothing where it is no cheap arithmetic.
  std::optional<SmallVector<unsigned>> leavesOf(size_t root) const {
    constexpr size_t kMostOps = 8; // 16 instructions
    SmallVector<size_t> pending = {root};
    llvm::SmallSetVector<unsigned, 4> leaves;
    for (size_t next = 0; next < pending.size(); ++next) {
      const LocalOp &local = program.ops[pending[next]];
      auto compute = dyn_cast_or_null<ComputeOpInterface>(local.op);
      if (!local.op || pending.size() > kMostOps || !local.op->hasTrait<OpTrait::Elementwise>() || !compute ||
          compute.getCost() != Cost::Simple) {
        return std::nullopt;
      }
      for (unsigned operand : local.operands) {
        visitRead(operand, [&](unsigned value) {
          std::optional<unsigned> maker = program.makers[value];
          if (isInMemory(value) || (maker && anchors[*maker])) {
            leaves.insert(value);
          } else if (maker && !llvm::is_contained(pending, *maker)) {
            pending.push_back(*maker);
          }
        });
      }
    }
    return leaves.takeVector();
  }

  // Visits the values that are read from memory where `value` is read: the sources of the views before it.
  void visitRead(unsigned value, llvm::function_ref<void(unsigned value)> visit) const {
    SmallVector<unsigned> pending = {value};
    llvm::DenseSet<unsigned> seen;
    while (!pending.empty()) {
      unsigned next = storageOf(pending.pop_back_val());
      std::optional<unsigned> maker = program.makers[next];
      if (!seen.insert(next).second) {
        continue;
      }
      if (auto found = again.find(next); found != again.end()) {
        llvm::append_range(pending, found->second);
      } else if (maker && forms[*maker] == Form::View) {
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
    reads.resize(program.ops.size());
    for (size_t op = 0; op < program.ops.size(); ++op) {
      for (auto [position, operand] : llvm::enumerate(program.ops[op].operands)) {
        if (forms[op] == Form::Kernel) {
          visitRead(operand, [&, position = position](unsigned value) { noteReader(value, op, position); });
        } else if (forms[op] == Form::Call || forms[op] == Form::Write) {
          noteStored(operand, op, position);
        } // others read when they are read
      }
    }
  }

  // Notes that an op reads a value from memory that may be a view: then a kernel of its own writes it.
  void noteStored(unsigned value, size_t reader, unsigned position) {
    value = storageOf(value);
    std::optional<unsigned> maker = program.makers[value];
    if (maker && forms[*maker] == Form::View && lastReads[value] < 0) {
      visitRead(value, [&](unsigned source) { noteReader(source, *maker, 0); });
    }
    noteReader(value, reader, position);
  }

  // `position`: of the operand through which it is read.
  void noteReader(unsigned value, size_t reader, unsigned position) {
    lastReads[value] = std::max(lastReads[value], times[reader]);
    isKept[value] = isKept[value] || forms[reader] == Form::Write;
    if (forms[reader] != Form::Write && !isSent(reader) && !isUpdated(reader, position) && readers.insert({workOf[reader], value}).second) {
      reads[reader].push_back({position, value});
    }
  }

  // Returns when a value is computed; the time before all for values that exist from the start.
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

  // Whether the result of the op takes the bytes of this operand.
  bool isUpdated(size_t op, unsigned position) const { return analysis::findUpdated(program.ops[op].op) == position; }

  bool isWritten(size_t op, unsigned result) const { return forms[op] != Form::Source && forms[op] != Form::Alias && isStored(result); }

  // Returns the bytes that an op writes to a result: where that takes the bytes of an operand, those of the others.
  int64_t bytesWritten(size_t op, unsigned result) const {
    if (!isWritten(op, result) || !analysis::findUpdated(program.ops[op].op)) {
      return isWritten(op, result) ? bytesOf(result) : 0;
    }
    int64_t bytes = 0;
    for (auto [position, operand] : llvm::enumerate(program.ops[op].operands)) {
      bytes += isUpdated(op, position) ? 0 : bytesOf(operand);
    }
    return bytes;
  }

  static int64_t clamp(__int128 number) { return static_cast<int64_t>(std::min<__int128>(number, INT64_MAX)); }

  // Whether a call or kernel reads a value without reading memory: it is a constant, or made there.
  bool isReadFree(unsigned work, unsigned value) const {
    std::optional<unsigned> maker = program.makers[value];
    bool isConstant = maker && isa_and_nonnull<nn::ConstantOp>(program.ops[*maker].op);
    return isConstant || (maker && forms[*maker] != Form::Source && workOf[*maker] == work);
  }

  // Returns the work of each call and kernel.
  std::vector<Work> listWorks() const {
    std::vector<Work> works(workCount);
    for (size_t op = 0; op < program.ops.size(); ++op) {
      const LocalOp &local = program.ops[op];
      Work &here = works[workOf[op]];
      here.owner = local.owner;
      here.runs = local.runs;
      if (isSent(op)) {
        here.collective = op;
        continue;
      }
      const analysis::Work work = rates.atFullRate(local.work);
      here.flops += work.flops;
      (forms[op] == Form::Call ? here.narrowFlops : here.flops) += work.narrowFlops;
      for (unsigned result : local.results) {
        here.bytes += bytesWritten(op, result);
      }
    }
    for (auto [work, value] : readers) {
      works[work].bytes += isReadFree(work, value) ? 0 : bytesOf(value);
    }
    for (Work &work : works) {
      work.timePs = costOfRuns(rates.callPs({clamp(work.flops), clamp(work.narrowFlops), std::nullopt}, clamp(work.bytes)), work.runs);
    }
    keepLargestOwner(works);
    return works;
  }

  // All devices wait for ops of one device alone: the one with most of them counts.
  static void keepLargestOwner(std::vector<Work> &works) {
    std::map<int64_t, __int128> sums;
    for (const Work &work : works) {
      if (work.owner) {
        sums[*work.owner] += work.timePs;
      }
    }
    auto largest = llvm::max_element(sums, [](const auto &a, const auto &b) { return a.second < b.second; });
    for (Work &work : works) {
      work.timePs = work.owner && *work.owner != largest->first ? 0 : work.timePs;
    }
  }

  static int64_t sum(int64_t a, int64_t b) { return std::min(a, INT64_MAX - b) + b; } // of a slow device a long program may take more

  static int64_t sumOf(const std::vector<Work> &works) {
    int64_t total = 0;
    for (const Work &work : works) {
      total = sum(total, work.timePs);
    }
    return total;
  }

  // Adds the time of the program beyond its computation, with overlapped collectives where possible and faster.
  void addExposed(const std::vector<Work> &works, ProgramEstimate &estimate) const {
    const bool movesBeside = llvm::any_of(program.ops, [](const LocalOp &op) { return op.movesBeside; });
    estimate.exposedPs = estimate.sendPs;
    if (movesBeside && estimate.computePs <= analysis::kMostTimePs) {
      estimate.exposedPs = std::min(estimate.sendPs, analysis::scheduleOverlap(costedOps(works)).timePs - estimate.computePs);
    }
  }

  // Returns the calls and kernels in their order, with their dependences.
  std::vector<analysis::CostedOp> costedOps(const std::vector<Work> &works) const {
    std::vector<analysis::CostedOp> estimated(works.size());
    llvm::DenseMap<Attribute, SmallVector<unsigned>> readersOf; // of variables
    llvm::DenseSet<unsigned> kept;                              // values that become those of variables, whose bytes are there anyway
    for (const LocalOp &local : program.ops) {
      if (isa_and_nonnull<nn::WriteOp>(local.op)) {
        kept.insert(local.operands.begin(), local.operands.end());
      }
    }
    for (size_t op = 0; op < program.ops.size(); ++op) {
      analysis::CostedOp &here = estimated[workOf[op]];
      const LocalOp &local = program.ops[op];
      for (unsigned operand : local.operands) {
        std::optional<unsigned> maker = program.makers[operand];
        auto read = maker ? dyn_cast_or_null<nn::ReadOp>(program.ops[*maker].op) : nn::ReadOp();
        if (read) {
          readersOf[read.getVariableAttr().getAttr()].push_back(workOf[op]);
        }
        if (maker && forms[*maker] != Form::Source && workOf[*maker] != workOf[op]) {
          here.needs.push_back(workOf[*maker]);
          here.holdsOperand |= !kept.contains(operand);
        }
      }
      if (auto write = dyn_cast_or_null<nn::WriteOp>(local.op)) { // over a value that others read before
        llvm::append_range(here.needs, readersOf.lookup(write.getVariableAttr().getAttr()));
      }
      if (isSent(op)) {
        here.runsBeside = local.movesBeside;
        here.timePs = local.timePs + (local.movesBeside ? handOverPs : 0);
        for (unsigned value : llvm::concat<const unsigned>(local.results, local.operands)) {
          here.bytes += kept.contains(value) ? 0 : bytesOf(value);
        }
      }
    }
    for (auto [number, op] : llvm::enumerate(estimated)) {
      op.timePs = sum(op.timePs, works[number].timePs);
      llvm::sort(op.needs);
      op.needs.erase(llvm::unique(op.needs), op.needs.end());
      llvm::erase_if(op.needs, [&, number = number](unsigned need) { return need >= number; });
    }
    return estimated;
  }

  // Whether an op's result may overwrite an operand that dies: element by element, or by the collective.
  bool worksInPlace(size_t op) const {
    return program.ops[op].kind == CollectiveKind::AllReduce || (forms[op] == Form::Kernel && !anchors[op]) ||
           analysis::findUpdated(program.ops[op].op);
  }

  // Written or returned values lie where they are kept.
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
  const analysis::DeviceRates &rates;
  int64_t handOverPs;
  std::vector<bool> anchors;                                        // of ops: they stand where the program has them
  std::vector<Form> forms;                                          // of ops
  std::vector<int64_t> times;                                       // of ops
  std::vector<int64_t> lastReads;                                   // of values; -1: never
  std::vector<bool> isKept;                                         // of values: written to a variable or returned
  std::vector<SmallVector<size_t>> users;                           // of values: the ops that read them from where they are
  llvm::DenseMap<unsigned, SmallVector<unsigned>> again;            // values that readers compute: from which ones
  std::vector<unsigned> workOf;                                     // of ops: the number of their call or kernel
  std::set<std::pair<unsigned, unsigned>> readers;                  // calls and kernels, and values that they read
  std::vector<SmallVector<std::pair<unsigned, unsigned>, 2>> reads; // by op: operands and values that it is the first to read
  unsigned workCount = 0;
  int64_t calls = 0;
};

} // namespace

ProgramEstimate estimateProgram(const LocalProgram &program, const analysis::DeviceRates &rates, int64_t handOverPs) {
  return Pricing(program, rates, handOverPs).run();
}

std::vector<OpTraffic> trafficOf(const LocalProgram &program, const analysis::DeviceRates &rates) {
  return Pricing(program, rates, /*handOverPs=*/0).traffic();
}

} // namespace ashlar::layout
