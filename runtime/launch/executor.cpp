// SPDX-License-Identifier: Apache-2.0
//
// What the executors of all targets share: looking things up, checking the image, measuring.

#include "runtime/launch/executor.h"

#include "runtime/base/clock.h"

#include <algorithm>
#include <map>

namespace ashlar::rt {
namespace {

// Runs before a benchmark that are not measured: the first lays things out, the second may capture.
constexpr int kWarmUpRuns = 3;

// Time of collectives beside other instructions: what they took, what was waited for at their ends, and what the schedule expects.
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

// Returns what ran beside other instructions of a program, by label, and the sum.
std::map<std::string, Beside> besideOthers(const Program &program, Beside &sum) {
  std::map<uint32_t, double> waited; // by token
  for (uint32_t i = 0; i < program.source.num_instrs; ++i) {
    if (const ashlar_rt_instr &instr = program.source.instrs[i]; instr.kind == ASHLAR_RT_WAIT) {
      waited[static_cast<const ashlar_rt_wait_desc *>(instr.desc)->token] = program.seconds[i];
    }
  }
  std::map<std::string, Beside> found;
  for (uint32_t i = 0; i < program.source.num_instrs; ++i) {
    const ashlar_rt_instr &instr = program.source.instrs[i];
    const auto *desc = instr.kind == ASHLAR_RT_COLLECTIVE ? static_cast<const ashlar_rt_collective_desc *>(instr.desc) : nullptr;
    if (desc != nullptr && desc->token != 0) {
      Beside one{1, program.besideSeconds[i], waited[desc->token], 1e-9 * static_cast<double>(desc->duration_ns),
                 1e-9 * static_cast<double>(desc->hidden_ns)};
      found[program.label(i)].add(one);
      sum.add(one);
    }
  }
  return found;
}

} // namespace

size_t Program::addReceive(const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer) {
  waits.push_back({fmt::format("receive {} from stage {}", variant.tensors[transfer.tensor].name, transfer.stage)});
  return waits.size() - 1;
}

size_t Program::addSend(const ashlar_rt_variant &variant, const ashlar_rt_transfer &transfer) {
  waits.push_back({fmt::format("wait until stage {} has {}", transfer.stage, variant.tensors[transfer.tensor].name)});
  return waits.size() - 1;
}

Status Executor::setUp(const ashlar_rt_image &source, const ashlar_rt_variant &chosen, Communicator &seat, const ExecutorOptions &how) {
  image = &source;
  variant = &chosen;
  communicator = &seat;
  options = how;
  devices = seat.mesh().devicesPerProcess();
  uint64_t coordinateBytes = variant->num_axes * sizeof(int64_t);
  if (variant->coordinates_offset > variant->arena_bytes || variant->arena_bytes - variant->coordinates_offset < coordinateBytes) {
    return internal("coordinates at {} do not fit the arena of {} bytes", variant->coordinates_offset, variant->arena_bytes);
  }
  ASHLAR_RETURN_IF_ERROR(checkTensors());
  return checkTransfers(Stages(*variant));
}

Status Executor::checkTensors() const {
  const uint64_t arenaBytes = variant->arena_bytes, slots = slotsOf(*variant);
  if (variant->slots_offset > arenaBytes || (arenaBytes - variant->slots_offset) / slots < variant->slot_bytes) {
    return internal("{} slots of {} bytes at {} leave the arena of {} bytes", slots, variant->slot_bytes, variant->slots_offset,
                    arenaBytes);
  }
  for (uint32_t i = 0; i < variant->num_tensors; ++i) {
    const ashlar_rt_tensor &tensor = variant->tensors[i];
    const ashlar_rt_buffer &buffer = tensor.buffer;
    const bool inSlot = buffer.space == ASHLAR_RT_SLOT;
    const uint64_t space = inSlot ? variant->slot_bytes : arenaBytes;
    if ((buffer.space != ASHLAR_RT_ARENA && !inSlot) || buffer.offset > space || space - buffer.offset < buffer.bytes) {
      return internal("tensor {} at {} + {} leaves the {} of {} bytes", tensor.name, buffer.offset, buffer.bytes, inSlot ? "slot" : "arena",
                      space);
    }
    if (inSlot && (tensor.role == ASHLAR_RT_VARIABLE || tensor.role == ASHLAR_RT_STATE)) {
      return internal("tensor {} lasts from step to step but lies in a slot", tensor.name);
    }
  }
  return Status();
}

Status Executor::checkBuffers(const ashlar_rt_instr &instr) const {
  for (uint32_t i = 0; i < instr.num_buffers; ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    const bool constant = buffer.space == ASHLAR_RT_CONSTANT, inSlot = buffer.space == ASHLAR_RT_SLOT;
    const uint64_t space = constant ? image->constants_bytes : inSlot ? variant->slot_bytes : variant->arena_bytes;
    if (buffer.offset > space || space - buffer.offset < buffer.bytes) {
      return internal("{}: buffer {} at {} + {} leaves the {} of {} bytes", instr.name, i, buffer.offset, buffer.bytes,
                      constant ? "constants"
                      : inSlot ? "slot"
                               : "arena",
                      space);
    }
  }
  if (instr.kind == ASHLAR_RT_COPY && (instr.num_buffers != 2 || instr.buffers[0].bytes != instr.buffers[1].bytes)) {
    return internal("{}: a copy needs two buffers of one size", instr.name);
  }
  return Status();
}

uint64_t Executor::constantBytes() const {
  std::map<uint64_t, uint64_t> read; // bytes by offset
  for (uint32_t p = 0; p < variant->num_programs; ++p) {
    const ashlar_rt_program &program = variant->programs[p];
    for (uint32_t i = 0; i < program.num_instrs; ++i) {
      for (uint32_t b = 0; b < program.instrs[i].num_buffers; ++b) {
        const ashlar_rt_buffer &buffer = program.instrs[i].buffers[b];
        if (buffer.space == ASHLAR_RT_CONSTANT) {
          read[buffer.offset] = std::max(read[buffer.offset], buffer.bytes);
        }
      }
    }
  }
  uint64_t bytes = 0;
  for (const auto &each : read) {
    bytes += each.second;
  }
  return bytes;
}

Status Executor::checkMemory(uint64_t batchBytes) const {
  uint64_t bytes = 0;
  std::string parts;
  for (const HeldPart &part : held(batchBytes)) {
    bytes += part.bytes;
    parts += part.bytes == 0 ? "" : fmt::format("{}{} {}", parts.empty() ? "" : ", ", part.name, part.bytes);
  }
  if (image->memory_limit == 0 || bytes <= image->memory_limit) {
    return Status();
  }
  return invalid(
      "this rank holds {} bytes ({}) but the program was compiled with --memory of {} bytes, for one thread a rank and the hosts of "
      "the job's machine; run it with fewer --threads, or compile it for more memory",
      bytes, parts, image->memory_limit);
}

Program *Executor::find(const std::string &name) {
  for (const std::unique_ptr<Program> &program : programs) {
    if (name == program->source.name) {
      return program.get();
    }
  }
  return nullptr;
}

const ashlar_rt_tensor *Executor::tensor(const std::string &name) const {
  return findTensor(*variant, name.c_str());
}

Status Executor::benchmark(Program &program, uint64_t count, Benchmark &result) {
  result.seconds.clear();
  for (int i = 0; i < kWarmUpRuns; ++i) {
    ASHLAR_RETURN_IF_ERROR(run(program));
  }
  ASHLAR_RETURN_IF_ERROR(wait());
  for (uint64_t i = 0; i < count; ++i) {
    double begin = seconds();
    ASHLAR_RETURN_IF_ERROR(run(program));
    ASHLAR_RETURN_IF_ERROR(wait());
    result.seconds.push_back(seconds() - begin);
  }
  return Status();
}

std::string Executor::profileTable(size_t top) const {
  struct Row {
    double seconds = 0;
    uint64_t calls = 0;
  };
  std::string table;
  for (const std::unique_ptr<Program> &each : programs) {
    const Program &program = *each;
    std::map<std::string, Row> rows;
    double total = 0;
    auto add = [&](const std::string &label, double seconds) {
      Row &row = rows[label];
      row.seconds += seconds;
      row.calls += program.runs;
      total += seconds;
    };
    for (size_t i = 0; i < program.seconds.size() && program.runs != 0; ++i) {
      add(program.label(i), program.seconds[i]);
    }
    for (size_t i = 0; i < program.waits.size() && program.runs != 0; ++i) {
      add(program.waits[i].label, program.waits[i].seconds);
    }
    if (rows.empty()) {
      continue;
    }
    std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
    table += fmt::format("profile of {}: {} runs, {:.3f} s\n", program.source.name, program.runs, total);
    for (size_t i = 0; i < std::min(top, sorted.size()); ++i) {
      const Row &row = sorted[i].second;
      table += fmt::format("  {:5.1f} %  {:10.2f} us  {:8} calls  {}\n", total > 0 ? 100 * row.seconds / total : 0,
                           1e6 * row.seconds / static_cast<double>(row.calls), row.calls, sorted[i].first);
    }
    Beside sum;
    const std::map<std::string, Beside> beside = besideOthers(program, sum);
    if (sum.count != 0) {
      table += "  beside computation, in one run:\n" + sum.text("collectives", program.runs);
    }
    for (const auto &[name, one] : beside) {
      table += one.text(name, program.runs);
    }
  }
  return table;
}

} // namespace ashlar::rt
