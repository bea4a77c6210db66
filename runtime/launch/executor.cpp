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

} // namespace

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
  for (uint32_t i = 0; i < variant->num_tensors; ++i) {
    const ashlar_rt_buffer &buffer = variant->tensors[i].buffer;
    if (buffer.space != ASHLAR_RT_ARENA || buffer.offset > variant->arena_bytes || variant->arena_bytes - buffer.offset < buffer.bytes) {
      return internal("tensor {} at {} + {} leaves the arena of {} bytes", variant->tensors[i].name, buffer.offset, buffer.bytes,
                      variant->arena_bytes);
    }
  }
  return Status();
}

Status Executor::checkBuffers(const ashlar_rt_instr &instr) const {
  for (uint32_t i = 0; i < instr.num_buffers; ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    bool constant = buffer.space == ASHLAR_RT_CONSTANT;
    uint64_t space = constant ? image->constants_bytes : variant->arena_bytes;
    if (buffer.offset > space || space - buffer.offset < buffer.bytes) {
      return internal("{}: buffer {} at {} + {} leaves the {} of {} bytes", instr.name, i, buffer.offset, buffer.bytes,
                      constant ? "constants" : "arena", space);
    }
  }
  if (instr.kind == ASHLAR_RT_COPY && (instr.num_buffers != 2 || instr.buffers[0].bytes != instr.buffers[1].bytes)) {
    return internal("{}: a copy needs two buffers of one size", instr.name);
  }
  return Status();
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
  for (uint32_t i = 0; i < variant->num_tensors; ++i) {
    if (name == variant->tensors[i].name) {
      return &variant->tensors[i];
    }
  }
  return nullptr;
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
    for (size_t i = 0; i < program.seconds.size() && program.runs != 0; ++i) {
      Row &row = rows[program.label(i)];
      row.seconds += program.seconds[i];
      row.calls += program.runs;
      total += program.seconds[i];
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
  }
  return table;
}

} // namespace ashlar::rt
