// SPDX-License-Identifier: Apache-2.0
//
// The cpu target: devices are arenas of this process' window, instructions run on its threads.

#include "runtime/launch/cpu_executor.h"

#include "runtime/base/clock.h"
#include "runtime/kernels/cpu/gemm.h"
#include "runtime/launch/numerics.h"

#include <cstring>
#include <deque>

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

class CpuProgram final : public Program {
public:
  using Program::Program;

  std::string label(size_t instr) const override {
    const Gemm *gemm = steps[instr].gemm;
    return gemm != nullptr ? fmt::format("{} [{}]", source.instrs[instr].name, gemm->kernelName()) : source.instrs[instr].name;
  }

  std::vector<Step> steps;

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

// Copies batches to where the input tensors lie.
class CpuFeed final : public Feed {
public:
  explicit CpuFeed(Pipeline &pipeline) : pipeline(pipeline) {}

  Status next() override {
    const Batch &batch = pipeline.next();
    ASHLAR_RETURN_IF_ERROR(pipeline.check());
    for (const Target &target : targets) {
      std::memcpy(target.address, batch.data(target.device, target.feature), target.bytes);
    }
    return Status();
  }

  struct Target {
    uint32_t device;
    uint32_t feature;
    char *address;
    size_t bytes;
  };

  Pipeline &pipeline;
  std::vector<Target> targets;
};

} // namespace

Status CpuExecutor::create(const ashlar_rt_image &source, const ashlar_rt_variant &chosen, Communicator &seat, ThreadPool &threads,
                           const ExecutorOptions &how) {
  ASHLAR_RETURN_IF_ERROR(setUp(source, chosen, seat, how));
  pool = &threads;
  for (int device = 0; device < devices; ++device) {
    std::vector<int64_t> at = seat.mesh().coordinates(seat.firstDevice() + device);
    std::memcpy(seat.arena(device) + variant->coordinates_offset, at.data(), at.size() * sizeof(int64_t));
  }
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    auto program = std::make_unique<CpuProgram>(variant->programs[i]);
    ASHLAR_RETURN_IF_ERROR(resolve(*program));
    programs.push_back(std::move(program));
  }
  return Status();
}

char *CpuExecutor::address(const ashlar_rt_tensor &tensor, int device) const {
  return communicator->arena(device) + tensor.buffer.offset;
}

Status CpuExecutor::write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill) {
  fill(address(tensor, device));
  return Status();
}

Status CpuExecutor::read(const ashlar_rt_tensor &tensor, int device, void *data) {
  std::memcpy(data, address(tensor, device), tensor.buffer.bytes);
  return Status();
}

Status CpuExecutor::fetch(const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) {
  return communicator->fetch(tensor.buffer.offset, tensor.buffer.bytes, sink);
}

Status CpuExecutor::createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) {
  auto result = std::make_unique<CpuFeed>(pipeline);
  for (int device = 0; device < devices; ++device) {
    for (uint32_t feature = 0; feature < pipeline.numFeatures(); ++feature) {
      const ashlar_rt_tensor &tensor = variant->tensors[pipeline.featureTensor(feature)];
      result->targets.push_back(
          CpuFeed::Target{static_cast<uint32_t>(device), feature, address(tensor, device), pipeline.featureBytes(feature)});
    }
  }
  feed = std::move(result);
  return Status();
}

Status CpuExecutor::resolve(CpuProgram &program) {
  for (uint32_t i = 0; i < program.source.num_instrs; ++i) {
    const ashlar_rt_instr &instr = program.source.instrs[i];
    ASHLAR_RETURN_IF_ERROR(checkBuffers(instr));
    Step step;
    step.kind = instr.kind;
    step.numBuffers = instr.num_buffers;
    program.addresses.emplace_back(static_cast<size_t>(devices) * instr.num_buffers);
    step.buffers = program.addresses.back().data();
    resolveBuffers(instr, step.buffers);
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
      step.copyBytes = instr.buffers[0].bytes;
    } else {
      return internal("{}: unknown kind of instruction {}", instr.name, instr.kind);
    }
    program.steps.push_back(step);
  }
  return Status();
}

void CpuExecutor::resolveBuffers(const ashlar_rt_instr &instr, void **addresses) const {
  for (int device = 0; device < devices; ++device) {
    for (uint32_t i = 0; i < instr.num_buffers; ++i) {
      const ashlar_rt_buffer &buffer = instr.buffers[i];
      bool constant = buffer.space == ASHLAR_RT_CONSTANT;
      char *base = constant ? const_cast<char *>(reinterpret_cast<const char *>(image->constants)) : communicator->arena(device);
      addresses[static_cast<size_t>(device) * instr.num_buffers + i] = base + buffer.offset;
    }
  }
}

Status CpuExecutor::run(Program &base) {
  auto &program = static_cast<CpuProgram &>(base);
  ++program.runs;
  if (options.profile || options.checkNumerics) {
    return runWatched(program);
  }
  for (const Step &step : program.steps) {
    ASHLAR_RETURN_IF_ERROR(runStep(step, *pool, devices));
  }
  return Status();
}

Status CpuExecutor::runWatched(CpuProgram &program) {
  int device = 0;
  auto load = [&](const ashlar_rt_buffer &buffer, Status &) -> const void * { return communicator->arena(device) + buffer.offset; };
  for (device = 0; options.checkNumerics && device < devices; ++device) {
    ASHLAR_RETURN_IF_ERROR(checkInputs(program, *variant, communicator->firstDevice() + device, load));
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    double before = seconds();
    ASHLAR_RETURN_IF_ERROR(runStep(program.steps[i], *pool, devices));
    program.seconds[i] += seconds() - before;
    for (device = 0; options.checkNumerics && device < devices; ++device) {
      ASHLAR_RETURN_IF_ERROR(checkNumerics(program, i, communicator->firstDevice() + device, load));
    }
  }
  return Status();
}

} // namespace ashlar::rt
