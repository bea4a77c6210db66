// SPDX-License-Identifier: Apache-2.0
//
// The cpu target: devices are arenas of this process' window, instructions run on its threads.

#include "runtime/execute/cpu/cpu_executor.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/execute/cpu/cpu_program.h"
#include "runtime/execute/numerics.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace ashlar::rt {

namespace {

// Copies batches to where the input tensors lie.
class CpuFeed final : public Feed {
public:
  CpuFeed(Pipeline &pipeline, uint64_t slots) : pipeline(pipeline), slots(slots) {}

  Status next(uint64_t microBatch) override {
    batch = repeats && batch != nullptr ? batch : &pipeline.next();
    ASHLAR_RETURN_IF_ERROR(pipeline.check());
    for (const Target &target : targets) {
      std::memcpy(target.address + microBatch % slots * target.stride, batch->data(target.device, target.feature), target.bytes);
    }
    return Status();
  }

  struct Target {
    uint32_t device;
    uint32_t feature;
    char *address;   // in the first slot
    uint64_t stride; // from slot to slot
    size_t bytes;
  };

  Pipeline &pipeline;
  uint64_t slots;
  const Batch *batch = nullptr; // the last one
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
  const CpuSurroundings surroundings = {*image, *variant, *communicator, *pool, workspace, ordered, options};
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    ASHLAR_RETURN_IF_ERROR(checkInstrs(variant->programs[i]));
    auto program = std::make_unique<CpuProgram>(variant->programs[i]);
    program->addWeights(surroundings);
    programs.push_back(std::move(program));
  }
  ASHLAR_RETURN_IF_ERROR(ordered.reserve());
  for (const std::unique_ptr<Program> &program : programs) {
    ASHLAR_RETURN_IF_ERROR(static_cast<CpuProgram &>(*program).resolve(surroundings));
  }
  return beginProgress();
}

// What is started shares its channels with other collectives, which then keep the order of the program.
Status CpuExecutor::beginProgress() {
  std::set<const void *> channels;
  size_t most = 0;
  for (const std::unique_ptr<Program> &program : programs) {
    size_t started = 0;
    for (const Step &step : static_cast<CpuProgram &>(*program).steps(/*slot=*/0)) {
      if (step.kind == ASHLAR_RT_COLLECTIVE && step.token != 0) {
        channels.insert(step.collective->channel());
        ++started;
      }
    }
    most = std::max(most, started);
  }
  for (const std::unique_ptr<Program> &program : programs) {
    auto &cpu = static_cast<CpuProgram &>(*program);
    for (size_t instance = 0; instance < cpu.numInstances(); ++instance) {
      for (Step &step : cpu.steps(instance)) {
        step.isOrdered = step.kind == ASHLAR_RT_COLLECTIVE && channels.count(step.collective->channel()) != 0;
      }
    }
  }
  return most == 0 ? Status() : progress.begin(most);
}

char *CpuExecutor::address(const ashlar_rt_tensor &tensor, int device, uint64_t microBatch) const {
  return communicator->arena(device) + offsetInArena(*variant, tensor.buffer, microBatch % slotsOf(*variant));
}

Status CpuExecutor::write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill, uint64_t microBatch) {
  fill(address(tensor, device, microBatch));
  variableChange += tensor.role == ASHLAR_RT_VARIABLE;
  return Status();
}

Status CpuExecutor::read(const ashlar_rt_tensor &tensor, int device, void *data, uint64_t microBatch) {
  std::memcpy(data, address(tensor, device, microBatch), tensor.buffer.bytes);
  return Status();
}

Status CpuExecutor::fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) {
  if (tensor.buffer.space != ASHLAR_RT_ARENA) {
    return internal("tensor {} lies in a slot, so its micro-batch is unknown", tensor.name);
  }
  return communicator->fetch(stage, tensor.buffer.offset, tensor.buffer.bytes, sink);
}

Status CpuExecutor::createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) {
  auto result = std::make_unique<CpuFeed>(pipeline, slotsOf(*variant));
  for (int device = 0; device < devices; ++device) {
    for (uint32_t feature = 0; feature < pipeline.numFeatures(); ++feature) {
      const ashlar_rt_tensor &tensor = variant->tensors[pipeline.featureTensor(feature)];
      const uint64_t stride = tensor.buffer.space == ASHLAR_RT_SLOT ? variant->slot_bytes : 0;
      result->targets.push_back(
          CpuFeed::Target{static_cast<uint32_t>(device), feature, address(tensor, device), stride, pipeline.featureBytes(feature)});
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
          {"ordered weights", ordered.bytes()},
          {"synchronization buffers", communicator->controlBytes()},
          {"messages between hosts", communicator->stagingBytes()},
          {"trace", options.recorder != nullptr ? options.recorder->bytes() : 0}};
}

Status CpuExecutor::run(Program &base, uint64_t microBatch) {
  auto &program = static_cast<CpuProgram &>(base);
  const uint64_t slot = microBatch % slotsOf(*variant);
  const bool records = options.recorder != nullptr && options.recorder->records();
  if (records) {
    options.recorder->setMicroBatch(microBatch);
  }
  ++program.runs;
  ASHLAR_RETURN_IF_ERROR(settle(program.receive(microBatch, slot)));
  if (program.weightsOrdered != variableChange) {
    program.orderWeights(*pool, variableChange);
  }
  variableChange += program.source.id.role == ASHLAR_RT_INIT;
  return program.whole.time([&] {
    if (options.profile || options.checkNumerics || records) {
      ASHLAR_RETURN_IF_ERROR(runWatched(program, slot));
    } else {
      std::vector<Step> &steps = program.steps(slot);
      for (InstrCursor cursor(program.source); cursor.next();) {
        ASHLAR_RETURN_IF_ERROR(run(steps[cursor.instr()], program, cursor));
      }
    }
    return program.offer(slot);
  });
}

Status CpuExecutor::run(Step &step, CpuProgram &program, InstrCursor &cursor) {
  step.move(cursor);
  if (step.kind == ASHLAR_RT_REPEAT) {
    const bool holds = step.numBuffers == 0 || *static_cast<const uint8_t *>(step.buffers[0]) != 0; // the same on all devices
    if (holds) {
      program.orderKept(cursor, *pool);
    } else {
      ++program.skips[cursor.instr()];
      cursor.skip();
    }
    return Status();
  }
  return settle(runStep(step, *pool, progress, program.started));
}

Status CpuExecutor::settle(Status status) {
  if (!status.ok()) { // the ranks are to agree on it next, over what the thread beside may still be using
    (void)progress.drain();
  }
  return status;
}

Status CpuExecutor::runWatched(CpuProgram &program, uint64_t slot) {
  int device = 0;
  InstrCursor cursor(program.source);
  auto load = [&](const ashlar_rt_buffer &buffer, Status &) -> const void * {
    return communicator->arena(device) + offsetInArena(*variant, buffer, slot) + cursor.shiftOf(buffer);
  };
  for (device = 0; options.checkNumerics && device < devices; ++device) {
    ASHLAR_RETURN_IF_ERROR(checkInputs(program, *variant, communicator->firstDevice() + device, load));
  }
  std::vector<Step> &steps = program.steps(slot);
  while (cursor.next()) {
    const uint32_t i = cursor.instr();
    ASHLAR_RETURN_IF_ERROR(program.watch(i).time([&] { return run(steps[i], program, cursor); }));
    for (device = steps[i].begin; options.checkNumerics && device < steps[i].end; ++device) {
      ASHLAR_RETURN_IF_ERROR(checkNumerics(program, i, communicator->firstDevice() + device, load));
    }
  }
  return Status();
}

Status CpuExecutor::close() {
  for (const std::unique_ptr<Program> &program : programs) {
    ASHLAR_RETURN_IF_ERROR(static_cast<CpuProgram &>(*program).reclaimAll());
  }
  return Status();
}

} // namespace ashlar::rt
