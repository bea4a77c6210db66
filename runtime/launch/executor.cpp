// SPDX-License-Identifier: Apache-2.0
//
// Runs the programs of one variant on the devices of this process.

#include "runtime/launch/executor.h"

#include "runtime/base/clock.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ashlar::rt {
namespace {

// One instruction with its addresses: `buffers` holds numBuffers of them for each device in turn.
struct Step {
  uint32_t kind = 0;
  uint32_t numBuffers = 0;
  void **buffers = nullptr;
  ashlar_rt_kernel_fn function = nullptr;
  int64_t extent = 0;
  int64_t grain = 1;
  Gemm *gemm = nullptr;
  bool hasBias = false;
  Collective *collective = nullptr;
  size_t copyBytes = 0;
};

struct KernelCall {
  ashlar_rt_kernel_fn function;
  void *const *buffers;
};

void runKernelRange(void *context, int64_t begin, int64_t end) {
  auto &call = *static_cast<KernelCall *>(context);
  call.function(call.buffers, begin, end);
}

struct GemmCall {
  Gemm *gemm;
  const float *a;
  const float *b;
  const float *bias;
  float *out;
};

void runGemmParts(void *context, int64_t begin, int64_t end) {
  auto &call = *static_cast<GemmCall *>(context);
  for (int64_t part = begin; part < end; ++part) {
    call.gemm->runPart(static_cast<int>(part), call.a, call.b, call.bias, call.out);
  }
}

} // namespace

class Program {
public:
  const ashlar_rt_program *source = nullptr;
  std::vector<Step> steps;
  std::vector<double> seconds; // by step; only when profiling
  uint64_t runs = 0;

  // What the steps point to.
  std::deque<std::vector<void *>> addresses;
  std::deque<Gemm> gemms;
  GemmWorkspace gemmWorkspace; // of all of them: one runs at a time
  std::vector<std::unique_ptr<Collective>> collectives;
};

namespace {

Status runStep(const Step &step, ThreadPool &pool, int devices) {
  void **buffers = step.buffers;
  switch (step.kind) {
  case ASHLAR_RT_KERNEL:
    for (int device = 0; device < devices; ++device, buffers += step.numBuffers) {
      KernelCall call{step.function, buffers};
      pool.parallelFor(step.extent, step.grain, runKernelRange, &call);
    }
    return Status();
  case ASHLAR_RT_GEMM:
    for (int device = 0; device < devices; ++device, buffers += step.numBuffers) {
      auto floats = [&](uint32_t i) { return static_cast<float *>(buffers[i]); };
      GemmCall call{step.gemm, floats(0), floats(1), step.hasBias ? floats(2) : nullptr, floats(step.numBuffers - 1)};
      pool.parallelFor(step.gemm->parts(), /*grain=*/1, runGemmParts, &call);
    }
    return Status();
  case ASHLAR_RT_COPY:
    for (int device = 0; device < devices; ++device, buffers += step.numBuffers) {
      std::memmove(buffers[1], buffers[0], step.copyBytes);
    }
    return Status();
  default:
    return step.collective->run();
  }
}

} // namespace

Executor::Executor() = default;
Executor::~Executor() = default;

Status Executor::create(const ashlar_rt_image &source, const ashlar_rt_variant &chosen, Communicator &seat, ThreadPool &threads,
                        bool measured) {
  image = &source;
  variant = &chosen;
  communicator = &seat;
  pool = &threads;
  profile = measured;
  devices = seat.mesh().devicesPerProcess();
  uint64_t coordinateBytes = variant->num_axes * sizeof(int64_t);
  if (variant->coordinates_offset > variant->arena_bytes || variant->arena_bytes - variant->coordinates_offset < coordinateBytes) {
    return internal("coordinates at {} do not fit the arena of {} bytes", variant->coordinates_offset, variant->arena_bytes);
  }
  for (int device = 0; device < devices; ++device) {
    std::vector<int64_t> at = seat.mesh().coordinates(seat.firstDevice() + device);
    std::memcpy(seat.arena(device) + variant->coordinates_offset, at.data(), at.size() * sizeof(int64_t));
  }
  for (uint32_t i = 0; i < variant->num_tensors; ++i) {
    const ashlar_rt_buffer &buffer = variant->tensors[i].buffer;
    if (buffer.space != ASHLAR_RT_ARENA || buffer.offset > variant->arena_bytes || variant->arena_bytes - buffer.offset < buffer.bytes) {
      return internal("tensor {} at {} + {} leaves the arena of {} bytes", variant->tensors[i].name, buffer.offset, buffer.bytes,
                      variant->arena_bytes);
    }
  }
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    programs.emplace_back();
    ASHLAR_RETURN_IF_ERROR(resolve(variant->programs[i], programs.back()));
  }
  return Status();
}

Program *Executor::find(const std::string &name) {
  for (Program &program : programs) {
    if (name == program.source->name) {
      return &program;
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

char *Executor::address(const ashlar_rt_tensor &tensor, int device) const {
  return communicator->arena(device) + tensor.buffer.offset;
}

Status Executor::resolve(const ashlar_rt_program &source, Program &program) {
  program.source = &source;
  for (uint32_t i = 0; i < source.num_instrs; ++i) {
    const ashlar_rt_instr &instr = source.instrs[i];
    Step step;
    step.kind = instr.kind;
    step.numBuffers = instr.num_buffers;
    program.addresses.emplace_back(static_cast<size_t>(devices) * instr.num_buffers);
    step.buffers = program.addresses.back().data();
    ASHLAR_RETURN_IF_ERROR(resolveBuffers(instr, step.buffers));
    if (instr.kind == ASHLAR_RT_KERNEL) {
      const auto &desc = *static_cast<const ashlar_rt_kernel_desc *>(instr.desc);
      step.function = desc.function;
      step.extent = desc.extent;
      step.grain = desc.grain;
    } else if (instr.kind == ASHLAR_RT_GEMM) {
      const auto &desc = *static_cast<const ashlar_rt_gemm_desc *>(instr.desc);
      step.hasBias = desc.has_bias != 0;
      if (instr.num_buffers != (step.hasBias ? 4u : 3u)) {
        return internal("{}: a matrix product {} bias has {} buffers", instr.name, step.hasBias ? "with" : "without", instr.num_buffers);
      }
      program.gemms.emplace_back();
      ASHLAR_RETURN_IF_ERROR(Gemm::prepare(desc, pool->threads(), program.gemms.back(), &program.gemmWorkspace));
      step.gemm = &program.gemms.back();
    } else if (instr.kind == ASHLAR_RT_COLLECTIVE) {
      program.collectives.emplace_back();
      ASHLAR_RETURN_IF_ERROR(communicator->prepare(instr, image->constants, program.collectives.back()));
      step.collective = program.collectives.back().get();
    } else if (instr.kind == ASHLAR_RT_COPY) {
      if (instr.num_buffers != 2 || instr.buffers[0].bytes != instr.buffers[1].bytes) {
        return internal("{}: a copy needs two buffers of one size", instr.name);
      }
      step.copyBytes = instr.buffers[0].bytes;
    } else {
      return internal("{}: unknown kind of instruction {}", instr.name, instr.kind);
    }
    program.steps.push_back(step);
  }
  program.seconds.assign(program.steps.size(), 0);
  return Status();
}

Status Executor::resolveBuffers(const ashlar_rt_instr &instr, void **&addresses) {
  for (int device = 0; device < devices; ++device) {
    for (uint32_t i = 0; i < instr.num_buffers; ++i) {
      const ashlar_rt_buffer &buffer = instr.buffers[i];
      bool constant = buffer.space == ASHLAR_RT_CONSTANT;
      uint64_t space = constant ? image->constants_bytes : variant->arena_bytes;
      if (buffer.offset > space || space - buffer.offset < buffer.bytes) {
        return internal("{}: buffer {} at {} + {} leaves the {} of {} bytes", instr.name, i, buffer.offset, buffer.bytes,
                        constant ? "constants" : "arena", space);
      }
      char *base = constant ? const_cast<char *>(reinterpret_cast<const char *>(image->constants)) : communicator->arena(device);
      addresses[static_cast<size_t>(device) * instr.num_buffers + i] = base + buffer.offset;
    }
  }
  return Status();
}

Status Executor::run(Program &program) {
  ++program.runs;
  if (!profile) {
    for (const Step &step : program.steps) {
      ASHLAR_RETURN_IF_ERROR(runStep(step, *pool, devices));
    }
    return Status();
  }
  double before = seconds();
  for (size_t i = 0; i < program.steps.size(); ++i) {
    ASHLAR_RETURN_IF_ERROR(runStep(program.steps[i], *pool, devices));
    double after = seconds();
    program.seconds[i] += after - before;
    before = after;
  }
  return Status();
}

std::string Executor::profileTable(size_t top) const {
  struct Row {
    double seconds = 0;
    uint64_t calls = 0;
  };
  std::string table;
  for (const Program &program : programs) {
    std::map<std::string, Row> rows;
    double total = 0;
    for (size_t i = 0; i < program.steps.size() && program.runs != 0; ++i) {
      const ashlar_rt_instr &instr = program.source->instrs[i];
      std::string name = instr.name;
      if (instr.kind == ASHLAR_RT_GEMM) {
        name += fmt::format(" [{}]", program.steps[i].gemm->kernelName());
      }
      rows[name].seconds += program.seconds[i];
      rows[name].calls += program.runs;
      total += program.seconds[i];
    }
    if (rows.empty()) {
      continue;
    }
    std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
    std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
    table += fmt::format("profile of {}: {} runs, {:.3f} s\n", program.source->name, program.runs, total);
    for (size_t i = 0; i < std::min(top, sorted.size()); ++i) {
      const Row &row = sorted[i].second;
      table += fmt::format("  {:5.1f} %  {:10.2f} us  {:8} calls  {}\n", total > 0 ? 100 * row.seconds / total : 0,
                           1e6 * row.seconds / static_cast<double>(row.calls), row.calls, sorted[i].first);
    }
  }
  return table;
}

} // namespace ashlar::rt
