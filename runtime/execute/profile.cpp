// SPDX-License-Identifier: Apache-2.0
//
// See profile.h. Operations are counted of library calls, from their sizes; bytes are those of all buffers, each once for a read and once
// for a write. A module is each beginning of an instruction's path that ends before a "/" or a ".".

#include "runtime/execute/profile.h"

#include "runtime/execute/operations.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace ashlar::rt {
namespace {

constexpr size_t kInstructions = 20; // lines, unless all are wanted
constexpr double kLeastShare = 0.01; // of a module, unless all are wanted

// A sum over instructions, of all runs.
struct Sum {
  double seconds = 0;
  uint64_t calls = 0;
  double bytes = 0, operations = 0, operationSeconds = 0; // the last: of those whose operations are counted

  void add(const Sum &other) {
    seconds += other.seconds;
    calls += other.calls;
    bytes += other.bytes;
    operations += other.operations;
    operationSeconds += other.operationSeconds;
  }
};

double bytesOf(const ashlar_rt_instr &instr) {
  if (instr.kind == ASHLAR_RT_INSERT) { // of its target the rows alone
    return 2.0 * static_cast<double>(instr.buffers[0].bytes) + static_cast<double>(instr.buffers[1].bytes);
  }
  double bytes = 0;
  for (uint32_t i = 0; i < instr.num_buffers; ++i) {
    const uint32_t access = instr.accesses != nullptr ? instr.accesses[i] : 0;
    bytes += static_cast<double>(instr.buffers[i].bytes) *
             ((access & ASHLAR_RT_READ) / ASHLAR_RT_READ + (access & ASHLAR_RT_WRITE) / ASHLAR_RT_WRITE);
  }
  return bytes;
}

// Returns what an instruction is: "gemm", and of a generated kernel how it loops: "rows" of "default_1_rows_5".
std::string_view whatIs(std::string_view name) {
  name = name.substr(0, name.find(' '));
  const size_t number = name.rfind('_');
  const bool isNumbered = number + 1 < name.size() && name.find_first_not_of("0123456789", number + 1) == name.npos;
  return isNumbered ? name.substr(name.rfind('_', number - 1) + 1).substr(0, number - name.rfind('_', number - 1) - 1) : name;
}

std::string_view pathOf(std::string_view name) {
  const size_t space = name.find(' ');
  return space == name.npos ? std::string_view() : name.substr(space + 1);
}

const char *kindOf(const ashlar_rt_instr &instr) {
  switch (instr.kind) {
  case ASHLAR_RT_GEMM:
    return "products";
  case ASHLAR_RT_CONV:
    return "convolutions";
  case ASHLAR_RT_ATTENTION:
    return "attention";
  case ASHLAR_RT_COLLECTIVE:
    return static_cast<const ashlar_rt_collective_desc *>(instr.desc)->kind == ASHLAR_RT_SLICE ? "copies" : "collectives";
  case ASHLAR_RT_COPY:
    return "copies";
  case ASHLAR_RT_INSERT:
    return "inserts";
  case ASHLAR_RT_WAIT:
    return "waiting";
  case ASHLAR_RT_REPEAT:
    return "weights put in order";
  default:
    const std::string_view what = whatIs(instr.name);
    return what == "loop"                        ? "element-wise"
           : what == "rows" || what == "columns" ? "rows and reductions"
           : what == "scatter"                   ? "scatters"
                                                 : "other kernels";
  }
}

// "  62.1 %   1234.56 us   53 calls   12.3 MB   85.2 GFLOP/s", of one run.
std::string columns(const Sum &sum, double total, uint64_t runs) {
  const double perRun = 1 / static_cast<double>(runs);
  std::string text = fmt::format("  {:5.1f} %  {:10.2f} us  {:6} calls  {:9.2f} MB", total > 0 ? 100 * sum.seconds / total : 0,
                                 1e6 * sum.seconds * perRun, sum.calls / runs, 1e-6 * sum.bytes * perRun);
  text += sum.seconds > 0 && sum.bytes > 0 ? fmt::format("  {:7.1f} GB/s", 1e-9 * sum.bytes / sum.seconds) : std::string(14, ' ');
  text += sum.operationSeconds > 0 ? fmt::format("  {:7.1f} GFLOP/s", 1e-9 * sum.operations / sum.operationSeconds) : std::string(17, ' ');
  return text;
}

// Sums by name.
using Sums = std::map<std::string, Sum>;

// Returns names and sums, the longest first.
std::vector<std::pair<std::string, Sum>> longestFirst(const Sums &sums) {
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
  return sorted;
}

// A module and those in it, in the order in which the program comes to them.
class Module {
public:
  // Adds what an instruction of the path took, `begin` of which leads to this module.
  void add(std::string_view path, const Sum &one, size_t begin = 0) {
    sum.add(one);
    if (begin >= path.size()) {
      return;
    }
    const size_t end = std::min(path.find_first_of("/.", begin), path.size());
    const std::string name(path.substr(0, end));
    auto inner = std::find_if(modules.begin(), modules.end(), [&](const auto &module) { return module->name == name; });
    if (inner == modules.end()) {
      modules.push_back(std::make_unique<Module>());
      modules.back()->name = name;
      inner = std::prev(modules.end());
    }
    (*inner)->add(path, one, end + 1);
  }

  // Appends a line for each module in this one, in turn with those in it. One that has nothing but another one is left to that.
  void print(std::string &text, const Sum &whole, uint64_t runs, bool all, size_t depth = 0) const {
    for (const std::unique_ptr<Module> &outer : modules) {
      const Module *module = outer.get();
      while (module->modules.size() == 1 && module->modules.front()->sum.calls == module->sum.calls) {
        module = module->modules.front().get();
      }
      if (all || module->sum.seconds >= kLeastShare * whole.seconds) {
        text += fmt::format("{}  {:{}}{}\n", columns(module->sum, whole.seconds, runs), "", 2 * depth, module->name);
        module->print(text, whole, runs, all, depth + 1);
      }
    }
  }

private:
  std::string name;
  Sum sum;
  std::vector<std::unique_ptr<Module>> modules;
};

// Time of asynchronous collectives: what they took, what was waited for at their ends, and what the schedule expects.
struct Beside {
  uint64_t count = 0;
  double seconds = 0, waited = 0, expected = 0, expectedHidden = 0;

  void add(const Beside &other) {
    count += other.count;
    seconds += other.seconds;
    waited += other.waited;
    expected += other.expected;
    expectedHidden += other.expectedHidden;
  }

  // "3 all_reduce fc1.weight: 1200.00 us, 96 % hidden; expected 1100.00 us, 97 % hidden", of one run.
  std::string text(const std::string &name, uint64_t runs) const {
    auto percent = [](double part, double whole) { return whole > 0 ? 100 * std::max(0.0, part) / whole : 100; };
    const double perRun = 1e6 / static_cast<double>(runs);
    return fmt::format("  {:3} {}: {:.2f} us, {:.0f} % hidden; expected {:.2f} us, {:.0f} % hidden\n", count, name, perRun * seconds,
                       percent(seconds - waited, seconds), 1e6 * expected, percent(expectedHidden, expected));
  }
};

// Returns how often each instruction ran in all runs of the program.
std::vector<uint64_t> callsOf(const Program &program) {
  const std::vector<uint64_t> times = timesOf(program.source);
  std::vector<uint64_t> calls;
  for (uint64_t each : times) {
    calls.push_back(program.runs * each);
  }
  for (uint32_t i = 0; i < program.source.num_instrs; ++i) {
    if (const uint64_t skips = program.skips[i]; skips != 0) {
      const auto &desc = *static_cast<const ashlar_rt_repeat_desc *>(program.source.instrs[i].desc);
      for (uint32_t inside = i + 1; inside <= i + desc.num_instrs; ++inside) {
        calls[inside] -= skips * (times[inside] / times[i]);
      }
    }
  }
  return calls;
}

// Returns what ran beside other instructions of a program, by label, and the sum.
std::map<std::string, Beside> besideOthers(const Program &program, Beside &sum) {
  std::map<uint32_t, double> waited; // by token
  for (uint32_t i = 0; i < program.source.num_instrs; ++i) {
    if (const ashlar_rt_instr &instr = program.source.instrs[i]; instr.kind == ASHLAR_RT_WAIT) {
      waited[static_cast<const ashlar_rt_wait_desc *>(instr.desc)->token] = program.seconds[i];
    }
  }
  const std::vector<uint64_t> times = timesOf(program.source);
  std::map<std::string, Beside> found;
  for (uint32_t i = 0; i < program.source.num_instrs; ++i) {
    const ashlar_rt_instr &instr = program.source.instrs[i];
    const auto *desc = instr.kind == ASHLAR_RT_COLLECTIVE ? static_cast<const ashlar_rt_collective_desc *>(instr.desc) : nullptr;
    if (desc != nullptr && desc->token != 0) {
      const double perRun = 1e-9 * static_cast<double>(times[i]);
      Beside one{times[i], program.besideSeconds[i], waited[desc->token], perRun * static_cast<double>(desc->duration_ns),
                 perRun * static_cast<double>(desc->hidden_ns)};
      found[program.label(i)].add(one);
      sum.add(one);
    }
  }
  return found;
}

std::string besideText(const Program &program) {
  Beside sum;
  const std::map<std::string, Beside> beside = besideOthers(program, sum);
  std::string text = sum.count != 0 ? "  overlapped with computation, in one run:\n" + sum.text("collectives", program.runs) : "";
  for (const auto &[name, one] : beside) {
    text += one.text(name, program.runs);
  }
  return text;
}

} // namespace

std::string profileText(const Program &program, int devices, bool all) {
  const uint64_t runs = program.runs;
  Sums kinds, instructions;
  Sum whole;
  Module model;
  auto add = [&](const char *kind, const std::string &label, std::string_view path, const Sum &one) {
    kinds[kind].add(one);
    instructions[label].add(one);
    whole.add(one);
    model.add(path.empty() ? "(no module)" : path, one);
  };
  const std::vector<uint64_t> callsOfInstr = callsOf(program);
  for (uint32_t i = 0; i < program.source.num_instrs && runs != 0; ++i) {
    const ashlar_rt_instr &instr = program.source.instrs[i];
    const uint64_t calls = callsOfInstr[i];
    const double times = static_cast<double>(calls) * (instr.owner == 0 ? devices : 1), operations = times * operationsOf(instr);
    const bool ordersNothing = instr.kind == ASHLAR_RT_REPEAT && program.seconds[i] == 0;
    if (calls != 0 && !ordersNothing) {
      add(kindOf(instr), program.label(i), pathOf(instr.name),
          {program.seconds[i], calls, times * bytesOf(instr), operations, operations > 0 ? program.seconds[i] : 0});
    }
  }
  for (const Waited &wait : program.waits) {
    if (runs != 0) {
      add("waiting", wait.label, "", {wait.seconds, runs});
    }
  }
  if (whole.calls == 0) {
    return "";
  }
  std::string text = fmt::format("profile of {}: {} runs, {:.3f} s\n by kind, in one run:\n", program.source.name, runs, whole.seconds);
  for (const auto &[name, sum] : longestFirst(kinds)) {
    text += columns(sum, whole.seconds, runs) + "  " + name + "\n";
  }
  text += " by module, in one run:\n";
  model.print(text, whole, runs, all);
  text += " by instruction, of all runs; the time is the mean of a call:\n";
  size_t lines = 0;
  for (const auto &[name, sum] : longestFirst(instructions)) {
    if (!all && lines++ == kInstructions) {
      text += fmt::format("  {} more; --profile=all prints them\n", instructions.size() - kInstructions);
      break;
    }
    text += fmt::format("  {:5.1f} %  {:10.2f} us  {:8} calls  {}\n", whole.seconds > 0 ? 100 * sum.seconds / whole.seconds : 0,
                        1e6 * sum.seconds / static_cast<double>(sum.calls), sum.calls, name);
  }
  return text + besideText(program);
}

} // namespace ashlar::rt
