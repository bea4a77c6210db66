// SPDX-License-Identifier: Apache-2.0
//
// A program laid out on a GPU. After create() every instruction is one or two calls of a library, with arguments that are there already.

#include "runtime/execute/cuda/cuda_program.h"

#include <algorithm>
#include <climits>
#include <map>
#include <vector>

namespace ashlar::rt {
namespace {

constexpr int64_t kMostThreads = 1024; // of a block, on every chip

// The time in which a stream works, by what it does one after the other.
class BusyTime {
public:
  void add(double begin, double end) {
    before.push_back(before.empty() ? 0 : before.back() + ends.back() - begins.back());
    begins.push_back(begin);
    ends.push_back(end);
  }

  // Returns how long it has worked until then.
  double until(double time) const {
    const auto begun = static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), time) - begins.begin());
    return begun == 0 ? 0 : before[begun - 1] + std::min(time, ends[begun - 1]) - begins[begun - 1];
  }

private:
  std::vector<double> begins, ends, before; // the last: how long it has worked until it begins
};

} // namespace

Status CudaProgram::plan(const ashlar_rt_variant &variant) {
  ASHLAR_RETURN_IF_ERROR(unrolled.unroll(source));
  for (uint64_t slot = 0; slot < (usesSlot(source) ? slotsOf(variant) : 1); ++slot) {
    ASHLAR_RETURN_IF_ERROR(planInstance(variant, slot));
  }
  return Status();
}

Status CudaProgram::planInstance(const ashlar_rt_variant &variant, uint64_t slot) {
  Instance &added = instances.emplace_back(context.device.driver());
  std::vector<ashlar_rt_instr> instrs;
  std::vector<bool> communicates;
  ashlar_rt_program placed = unrolled.get();
  for (uint32_t i = 0; i < placed.num_instrs; ++i) {
    const ashlar_rt_instr &instr = added.instrs.emplace_back(placed.instrs[i], variant, slot).get();
    instrs.push_back(instr);
    added.numbers.push_back(0);
    bool isCollective = instr.kind == ASHLAR_RT_COLLECTIVE;
    if (isCollective) {
      ASHLAR_RETURN_IF_ERROR(context.seat->layOut(instr, added.numbers.back()));
    }
    communicates.push_back(isCollective && context.seat->communicates(added.numbers.back()));
  }
  if (slot == 0) {
    placed.instrs = instrs.data();
    placements = schedule(placed, communicates);
  }
  for (size_t i = 1; i < placements.size(); ++i) {
    // Those of two iterations stay apart: the compiler planned the workspace for those that follow each other in the program.
    if (placements[i].joins && unrolled.sourceOf(i) == unrolled.sourceOf(i - 1) + 1) {
      context.seat->join(added.numbers[i]);
    }
  }
  return Status();
}

Status CudaProgram::create(bool profile) {
  for (Instance &each : instances) {
    ASHLAR_RETURN_IF_ERROR(createInstance(each));
  }
  ASHLAR_RETURN_IF_ERROR(context.matmuls.settle());
  return createEvents(profile);
}

Status CudaProgram::createInstance(Instance &made) {
  const ashlar_rt_program &program = unrolled.get();
  for (uint32_t i = 0; i < program.num_instrs; ++i) {
    const ashlar_rt_instr &instr = program.instrs[i];
    Step step;
    if (&made != &instances[0] && !usesSlot(instr) && instr.kind != ASHLAR_RT_COLLECTIVE) {
      step = instances[0].steps[i];
    } else {
      step.kind = instr.kind;
      step.number = made.numbers[i];
      if (runsOn(instr, context.host->firstDevice())) {
        ASHLAR_RETURN_IF_ERROR(createStep(made.instrs[i].get(), step));
      } else {
        step.kind = ASHLAR_RT_KERNEL; // in a grid of no blocks
      }
    }
    made.steps.push_back(step);
  }
  return Status();
}

// Runs follow each other on the streams, so an event serves all instances.
Status CudaProgram::createEvents(bool profile) {
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement &placement = placements[i];
    Step shared;
    shared.stream = placement.communicates ? context.communication : context.compute;
    if (placement.signals) {
      ASHLAR_RETURN_IF_ERROR(context.device.createEvent(shared.signal));
    }
    if (profile) {
      ASHLAR_RETURN_IF_ERROR(context.device.createEvent(shared.begin, /*timing=*/true));
      ASHLAR_RETURN_IF_ERROR(context.device.createEvent(shared.end, /*timing=*/true));
    }
    for (Instance &each : instances) {
      Step &step = each.steps[i];
      step.stream = shared.stream;
      step.signal = shared.signal;
      step.begin = shared.begin;
      step.end = shared.end;
      step.waitsFor = placement.waitsFor >= 0 ? each.steps[static_cast<size_t>(placement.waitsFor)].signal : nullptr;
    }
    joined = placement.communicates ? shared.signal : joined;
  }
  return joined != nullptr ? context.device.createEvent(start) : Status();
}

Status CudaProgram::createStep(const ashlar_rt_instr &instr, Step &step) {
  addresses.emplace_back();
  for (uint32_t i = 0; i < instr.num_buffers; ++i) {
    addresses.back().push_back(context.memory.address(instr.buffers[i]));
  }
  switch (instr.kind) {
  case ASHLAR_RT_KERNEL:
    return createKernel(instr, step);
  case ASHLAR_RT_GEMM: {
    MatmulOperands operands;
    ASHLAR_RETURN_IF_ERROR(sortMatmulOperands(instr, addresses.back(), operands));
    return context.matmuls.prepare(*static_cast<const ashlar_rt_gemm_desc *>(instr.desc), operands, instr.name, step.number);
  }
  case ASHLAR_RT_CONV: {
    ConvolutionOperands operands;
    ASHLAR_RETURN_IF_ERROR(sortConvolutionOperands(instr, addresses.back(), operands));
    return context.convolutions.prepare(*static_cast<const ashlar_rt_conv_desc *>(instr.desc), operands, instr.name, step.number);
  }
  case ASHLAR_RT_ATTENTION:
    ASHLAR_RETURN_IF_ERROR(checkAttentionOperands(instr));
    return context.attentions.prepare(*static_cast<const ashlar_rt_attention_desc *>(instr.desc), addresses.back(), instr.name,
                                      step.number);
  case ASHLAR_RT_COPY:
    step.copy = StridedCopy{addresses.back()[0], addresses.back()[1], instr.buffers[0].bytes};
    return Status();
  case ASHLAR_RT_COLLECTIVE:
  case ASHLAR_RT_WAIT: // what has to wait for a collective follows from its buffers
    return Status();
  default:
    return internal("{}: unknown kind of instruction {}", instr.name, instr.kind);
  }
}

Status CudaProgram::createKernel(const ashlar_rt_instr &instr, Step &step) {
  const auto &desc = *static_cast<const ashlar_rt_kernel_desc *>(instr.desc);
  if (desc.entry == nullptr || desc.extent < 0 || desc.extent > INT_MAX || desc.grain < 1 || desc.grain > kMostThreads) {
    return internal("{}: kernel {} with {} blocks of {} threads", instr.name, desc.entry != nullptr ? desc.entry : "without a name",
                    desc.extent, desc.grain);
  }
  ASHLAR_RETURN_IF_ERROR(context.device.findKernel(desc.entry, step.kernel));
  step.grid = static_cast<unsigned>(desc.extent);
  step.block = static_cast<unsigned>(desc.grain);
  parameters.emplace_back();
  for (CUdeviceptr &address : addresses.back()) {
    parameters.back().push_back(&address);
  }
  step.parameters = parameters.back().data();
  return Status();
}

Status CudaProgram::record(CUevent event, CUstream stream) const {
  const DriverLibrary &cuda = context.device.driver();
  return event == nullptr ? Status() : cuda.check(cuda.cuEventRecord(event, stream), "cannot record an event");
}

Status CudaProgram::await(CUstream stream, CUevent event) const {
  const DriverLibrary &cuda = context.device.driver();
  return event == nullptr ? Status() : cuda.check(cuda.cuStreamWaitEvent(stream, event, /*flags=*/0), "cannot wait for an event");
}

Status CudaProgram::run(const Step &step) const {
  const DriverLibrary &cuda = context.device.driver();
  switch (step.kind) {
  case ASHLAR_RT_KERNEL:
    return step.grid == 0 ? Status()
                          : cuda.check(cuda.cuLaunchKernel(step.kernel, step.grid, 1, 1, step.block, 1, 1, /*sharedMemBytes=*/0,
                                                           step.stream, step.parameters, /*extra=*/nullptr),
                                       "cannot launch a kernel");
  case ASHLAR_RT_GEMM:
    return context.matmuls.enqueue(step.number, step.stream);
  case ASHLAR_RT_CONV:
    return context.convolutions.enqueue(step.number, step.stream);
  case ASHLAR_RT_ATTENTION:
    return context.attentions.enqueue(step.number, step.stream);
  case ASHLAR_RT_COPY:
    return step.copy.enqueue(cuda, step.stream);
  case ASHLAR_RT_WAIT:
    return Status();
  default:
    break;
  }
  bool watched = context.watchdog && context.seat->starts(step.number);
  if (watched) {
    ASHLAR_RETURN_IF_ERROR(context.watchdog->note(step.number, step.stream));
    context.watchdog->enter(step.number);
  }
  Status status = context.seat->enqueue(step.number, step.stream);
  if (watched) {
    context.watchdog->leave();
  }
  return status;
}

Status CudaProgram::enqueue(uint64_t slot) {
  if (joined != nullptr) { // the communication stream goes on where the compute stream is
    ASHLAR_RETURN_IF_ERROR(record(start, context.compute));
    ASHLAR_RETURN_IF_ERROR(await(context.communication, start));
  }
  for (const Step &step : instance(slot).steps) {
    ASHLAR_RETURN_IF_ERROR(await(step.stream, step.waitsFor));
    ASHLAR_RETURN_IF_ERROR(record(step.begin, step.stream));
    ASHLAR_RETURN_IF_ERROR(run(step));
    ASHLAR_RETURN_IF_ERROR(record(step.end, step.stream));
    ASHLAR_RETURN_IF_ERROR(record(step.signal, step.stream));
  }
  return await(context.compute, joined);
}

Status CudaProgram::capture(uint64_t slot) {
  return instance(slot).graph.capture(context.compute, [&] { return enqueue(slot); });
}

void CudaProgram::forgetCapture() {
  for (Instance &each : instances) {
    each.graph.reset();
  }
}

Status CudaProgram::enqueueAlone(size_t number, uint64_t slot) {
  const Step &step = instance(slot).steps[number];
  bool aside = step.stream != context.compute;
  if (aside) {
    ASHLAR_RETURN_IF_ERROR(record(start, context.compute));
    ASHLAR_RETURN_IF_ERROR(await(context.communication, start));
  }
  ASHLAR_RETURN_IF_ERROR(record(step.begin, step.stream));
  ASHLAR_RETURN_IF_ERROR(run(step));
  ASHLAR_RETURN_IF_ERROR(record(step.end, step.stream));
  if (aside) {
    ASHLAR_RETURN_IF_ERROR(record(joined, context.communication));
    ASHLAR_RETURN_IF_ERROR(await(context.compute, joined));
  }
  return Status();
}

Status CudaProgram::secondsBetween(CUevent from, CUevent to, double &result) const {
  const DriverLibrary &cuda = context.device.driver();
  float milliseconds = 0;
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventElapsedTime_v2(&milliseconds, from, to), "cannot measure an instruction"));
  result = 1e-3 * static_cast<double>(milliseconds);
  return Status();
}

Status CudaProgram::collectTimes() {
  const std::vector<Step> &steps = instances[0].steps;          // events are those of all
  std::vector<double> begins(steps.size()), ends(steps.size()); // after the first instruction began
  BusyTime computes;
  for (size_t i = 0; i < steps.size(); ++i) {
    ASHLAR_RETURN_IF_ERROR(secondsBetween(steps[0].begin, steps[i].begin, begins[i]));
    ASHLAR_RETURN_IF_ERROR(secondsBetween(steps[0].begin, steps[i].end, ends[i]));
    if (steps[i].stream == context.compute) {
      computes.add(begins[i], ends[i]);
    }
  }
  std::map<uint32_t, double> exposed; // by token, of its last collective: what no instruction of the compute stream covered
  for (size_t i = 0; i < steps.size(); ++i) {
    const uint32_t number = unrolled.sourceOf(i);
    const ashlar_rt_instr &instr = source.instrs[number];
    if (instr.kind == ASHLAR_RT_WAIT) {
      seconds[number] += exposed[static_cast<const ashlar_rt_wait_desc *>(instr.desc)->token];
      continue;
    }
    const auto *desc = instr.kind == ASHLAR_RT_COLLECTIVE ? static_cast<const ashlar_rt_collective_desc *>(instr.desc) : nullptr;
    if (desc == nullptr || desc->token == 0) {
      seconds[number] += ends[i] - begins[i];
      continue;
    }
    besideSeconds[number] += ends[i] - begins[i];
    exposed[desc->token] = ends[i] - begins[i] - (computes.until(ends[i]) - computes.until(begins[i]));
  }
  return Status();
}

} // namespace ashlar::rt
