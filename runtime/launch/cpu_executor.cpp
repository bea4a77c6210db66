// SPDX-License-Identifier: Apache-2.0
//
// The cpu target: devices are arenas of this process' window, instructions run on its threads.

#include "runtime/launch/cpu_executor.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/clock.h"
#include "runtime/kernels/cpu/gemm.h"
#include "runtime/launch/numerics.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <set>

namespace ashlar::rt {

// One instruction with its addresses: `buffers` holds numBuffers of them for each device in turn.
struct Step {
  uint32_t kind = 0;
  uint32_t numBuffers = 0;
  void **buffers = nullptr;
  int begin = 0; // devices [begin, end) of this process run it
  int end = 0;
  ashlar_rt_kernel_fn function = nullptr;
  int64_t extent = 0;
  int64_t grain = 1;
  Gemm *gemm = nullptr;
  bool hasBias = false;
  Collective *collective = nullptr;
  bool isOrdered = false;          // a collective, not started, that waits for those that are
  uint32_t token = 0;              // of a collective that is started, or of what waits for it
  double *besideSeconds = nullptr; // of a collective that is started: where its time is added up
  size_t copyBytes = 0;
};

namespace {

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
  std::vector<uint64_t> started; // by token: the number that the thread beside gave

  // What the steps point to.
  std::deque<std::vector<void *>> addresses;
  std::deque<Gemm> gemms;
  std::vector<std::unique_ptr<Collective>> collectives;
};

namespace {

// Runs a collective, or its start, or waits for one that was started.
Status communicate(const Step &step, ProgressThread &progress, std::vector<uint64_t> &started) {
  if (step.kind == ASHLAR_RT_WAIT) {
    return progress.wait(started[step.token]);
  }
  if (step.token != 0) {
    started[step.token] = progress.start(*step.collective, step.besideSeconds);
    return Status();
  }
  if (step.isOrdered) {
    ASHLAR_RETURN_IF_ERROR(progress.drain());
  }
  return step.collective->run();
}

Status runStep(const Step &step, ThreadPool &pool, ProgressThread &progress, std::vector<uint64_t> &started) {
  void **buffers = step.buffers + static_cast<size_t>(step.begin) * step.numBuffers;
  switch (step.kind) {
  case ASHLAR_RT_KERNEL:
    for (int device = step.begin; device < step.end; ++device, buffers += step.numBuffers) {
      KernelCall call{step.function, buffers};
      pool.parallelFor(step.extent, step.grain, runKernelRange, &call);
    }
    return Status();
  case ASHLAR_RT_GEMM:
    for (int device = step.begin; device < step.end; ++device, buffers += step.numBuffers) {
      auto floats = [&](uint32_t i) { return static_cast<float *>(buffers[i]); };
      GemmCall call{step.gemm, floats(0), floats(1), step.hasBias ? floats(2) : nullptr, floats(step.numBuffers - 1)};
      pool.parallelFor(step.gemm->parts(), /*grain=*/1, runGemmParts, &call);
    }
    return Status();
  case ASHLAR_RT_COPY:
    for (int device = step.begin; device < step.end; ++device, buffers += step.numBuffers) {
      std::memmove(buffers[1], buffers[0], step.copyBytes);
    }
    return Status();
  default:
    return communicate(step, progress, started);
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
  return beginProgress();
}

// What is started shares its channels with other collectives, which then keep the order of the program.
Status CpuExecutor::beginProgress() {
  std::set<const void *> channels;
  size_t most = 0;
  for (const std::unique_ptr<Program> &program : programs) {
    size_t started = 0;
    for (const Step &step : static_cast<CpuProgram &>(*program).steps) {
      if (step.kind == ASHLAR_RT_COLLECTIVE && step.token != 0) {
        channels.insert(step.collective->channel());
        ++started;
      }
    }
    most = std::max(most, started);
  }
  for (const std::unique_ptr<Program> &program : programs) {
    for (Step &step : static_cast<CpuProgram &>(*program).steps) {
      step.isOrdered = step.kind == ASHLAR_RT_COLLECTIVE && channels.count(step.collective->channel()) != 0;
    }
  }
  return most == 0 ? Status() : progress.begin(most);
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

std::vector<HeldPart> CpuExecutor::held(uint64_t batchBytes) const {
  return {{"tensors", static_cast<uint64_t>(devices) * roundUp(variant->arena_bytes, kPageBytes)},
          {"constants", constantBytes()},
          {"batches", batchBytes},
          {"matrix products", workspace.bytes()},
          {"meetings of ranks", communicator->controlBytes()},
          {"messages between hosts", communicator->stagingBytes()}};
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
    findDevices(instr, step.begin, step.end);
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
      ASHLAR_RETURN_IF_ERROR(Gemm::prepare(desc, pool->threads(), program.gemms.back(), &workspace));
      step.gemm = &program.gemms.back();
    } else if (instr.kind == ASHLAR_RT_COLLECTIVE) {
      program.collectives.emplace_back();
      ASHLAR_RETURN_IF_ERROR(communicator->prepare(instr, image->constants, program.collectives.back()));
      step.collective = program.collectives.back().get();
      // What every instruction wrote is looked at right behind it: then nothing runs beside others.
      step.token = options.checkNumerics ? 0 : static_cast<const ashlar_rt_collective_desc *>(instr.desc)->token;
      step.besideSeconds = options.profile ? &program.besideSeconds[i] : nullptr;
      program.started.resize(std::max<size_t>(program.started.size(), step.token + 1));
    } else if (instr.kind == ASHLAR_RT_WAIT) {
      step.token = options.checkNumerics ? 0 : static_cast<const ashlar_rt_wait_desc *>(instr.desc)->token;
      if (step.token >= program.started.size()) {
        return internal("{}: nothing was started with token {}", instr.name, step.token);
      }
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

void CpuExecutor::findDevices(const ashlar_rt_instr &instr, int &begin, int &end) const {
  int first = communicator->firstDevice();
  bool runsOnAll = instr.owner == 0;
  begin = runsOnAll ? 0 : std::clamp(static_cast<int>(instr.owner) - 1 - first, 0, devices);
  end = runsOnAll ? devices : std::clamp(static_cast<int>(instr.owner) - first, 0, devices);
}

Status CpuExecutor::run(Program &base) {
  auto &program = static_cast<CpuProgram &>(base);
  ++program.runs;
  if (options.profile || options.checkNumerics) {
    return runWatched(program);
  }
  for (const Step &step : program.steps) {
    ASHLAR_RETURN_IF_ERROR(run(step, program));
  }
  return Status();
}

Status CpuExecutor::run(const Step &step, CpuProgram &program) {
  Status status = runStep(step, *pool, progress, program.started);
  if (!status.ok()) { // the ranks are to agree on it next, over what the thread beside may still be using
    (void)progress.drain();
  }
  return status;
}

Status CpuExecutor::runWatched(CpuProgram &program) {
  int device = 0;
  auto load = [&](const ashlar_rt_buffer &buffer, Status &) -> const void * { return communicator->arena(device) + buffer.offset; };
  for (device = 0; options.checkNumerics && device < devices; ++device) {
    ASHLAR_RETURN_IF_ERROR(checkInputs(program, *variant, communicator->firstDevice() + device, load));
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    double before = seconds();
    ASHLAR_RETURN_IF_ERROR(run(program.steps[i], program));
    program.seconds[i] += seconds() - before;
    for (device = program.steps[i].begin; options.checkNumerics && device < program.steps[i].end; ++device) {
      ASHLAR_RETURN_IF_ERROR(checkNumerics(program, i, communicator->firstDevice() + device, load));
    }
  }
  return Status();
}

} // namespace ashlar::rt
