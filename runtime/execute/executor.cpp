// SPDX-License-Identifier: Apache-2.0
//
// What the executors of all targets share: looking things up, checking the image, measuring.

#include "runtime/execute/executor.h"

#include "runtime/base/clock.h"
#include "runtime/execute/profile.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ashlar::rt {
namespace {

// Runs before a benchmark that are not measured: the first lays things out, the second may capture.
constexpr int kWarmUpRuns = 3;

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

Status Executor::checkInstrs(const ashlar_rt_program &program) const {
  return visitInstrs(program, [&](const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts) { return checkInstr(instr, counts); });
}

Status Executor::checkInstr(const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts) const {
  const bool runs = std::find(counts.begin(), counts.end(), 0) == counts.end(); // else no rows are there
  for (uint32_t i = 0; i < instr.num_buffers; ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    const bool constant = buffer.space == ASHLAR_RT_CONSTANT, inSlot = buffer.space == ASHLAR_RT_SLOT;
    const uint64_t space = constant ? image->constants_bytes : inSlot ? variant->slot_bytes : variant->arena_bytes;
    const SweptBytes bytes = sweep(buffer, counts);
    if (buffer.num_strides > counts.size()) {
      return internal("{}: buffer {} moves in {} repeats but is in {}", instr.name, i, buffer.num_strides, counts.size());
    }
    if (runs && (bytes.low < 0 || bytes.high < bytes.low || static_cast<uint64_t>(bytes.high) > space)) {
      return internal("{}: buffer {} at {} + {} leaves the {} of {} bytes", instr.name, i, bytes.low, bytes.high - bytes.low,
                      constant ? "constants"
                      : inSlot ? "slot"
                               : "arena",
                      space);
    }
  }
  if (instr.kind == ASHLAR_RT_REPEAT && instr.num_buffers != 0 && (instr.num_buffers != 1 || instr.buffers[0].bytes != 1)) {
    return internal("{}: a repeat has one condition of a byte, or none", instr.name);
  }
  if (instr.kind == ASHLAR_RT_COPY && (instr.num_buffers != 2 || instr.buffers[0].bytes != instr.buffers[1].bytes)) {
    return internal("{}: a copy needs two buffers of one size", instr.name);
  }
  return Status();
}

uint64_t Executor::constantBytes() const {
  std::map<uint64_t, uint64_t> read; // bytes by offset
  auto add = [&](const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts) {
    for (uint32_t b = 0; b < instr.num_buffers; ++b) {
      if (instr.buffers[b].space == ASHLAR_RT_CONSTANT) {
        const SweptBytes swept = sweep(instr.buffers[b], counts);
        uint64_t &most = read[static_cast<uint64_t>(swept.low)];
        most = std::max(most, static_cast<uint64_t>(swept.high - swept.low));
      }
    }
    return Status();
  };
  for (uint32_t p = 0; p < variant->num_programs; ++p) {
    (void)visitInstrs(variant->programs[p], add); // was checked
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

Program *Executor::find(ashlar_rt_program_role role) {
  for (const std::unique_ptr<Program> &program : programs) {
    if (program->source.id.role == role) {
      return program.get();
    }
  }
  return nullptr;
}

const ashlar_rt_tensor *Executor::tensor(const std::string &name) const {
  return findTensor(*variant, name.c_str());
}

Status Executor::note(const ashlar_rt_tensor &tensor, uint64_t microBatch, size_t place) {
  return read(tensor, /*device=*/0, notes[place], microBatch);
}

Status Executor::recall(size_t place, char (&data)[kNoteBytes]) {
  std::memcpy(data, notes[place], kNoteBytes);
  return Status();
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

std::string Executor::profile(bool all) const {
  std::string text;
  for (const std::unique_ptr<Program> &program : programs) {
    text += profileText(*program, devices, all);
  }
  return text;
}

} // namespace ashlar::rt
