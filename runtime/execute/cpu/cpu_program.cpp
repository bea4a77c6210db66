// SPDX-License-Identifier: Apache-2.0
//
// Resolves the instructions of a program, once for each slot, and runs them.

#include "runtime/execute/cpu/cpu_program.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/execute/cpu/insert.h"
#include "runtime/execute/slots.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
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
  const void *a;
  const void *b;
  const void *bias;
  void *out;
};

struct AttentionCall {
  Attention *attention;
  void *const *buffers;
};

void runAttentionParts(void *context, int64_t begin, int64_t end) {
  auto &call = *static_cast<AttentionCall *>(context);
  for (int64_t part = begin; part < end; ++part) {
    call.attention->runPart(static_cast<int>(part), call.buffers);
  }
}

void runGemmParts(void *context, int64_t begin, int64_t end) {
  auto &call = *static_cast<GemmCall *>(context);
  for (int64_t part = begin; part < end; ++part) {
    call.gemm->runPart(static_cast<int>(part), call.a, call.b, call.bias, call.out);
  }
}

struct ConvCall {
  Conv *conv;
  const void *a;
  const void *b;
  const void *scale;
  const void *bias;
  const void *residual;
  void *out;
};

void runConvParts(void *context, int64_t begin, int64_t end) {
  auto &call = *static_cast<ConvCall *>(context);
  for (int64_t part = begin; part < end; ++part) {
    call.conv->runPart(static_cast<int>(part), call.a, call.b, call.scale, call.bias, call.residual, call.out);
  }
}

// Runs a collective, or its start, or waits for one that was started.
Status communicate(const Step &step, ProgressThread &progress, std::vector<uint64_t> &started) {
  if (step.kind == ASHLAR_RT_WAIT) {
    return progress.wait(started[step.token]);
  }
  if (step.token != 0) {
    started[step.token] = progress.start(*step.collective, *step.beside);
    return Status();
  }
  if (step.isOrdered) {
    ASHLAR_RETURN_IF_ERROR(progress.drain());
  }
  return step.collective->run();
}

// Has a step of another slot read the ordered weights of the first one.
void shareWeights(bool areFixed, const Step &first, Step &step, int devices) {
  step.readsOrdered = first.readsOrdered;
  for (size_t i = 1; areFixed && i < static_cast<size_t>(devices) * step.numBuffers; i += step.numBuffers) {
    step.buffers[i] = first.buffers[i];
  }
}

// Finds the devices [begin, end) of this process that run an instruction.
void findDevices(const ashlar_rt_instr &instr, const Communicator &communicator, int &begin, int &end) {
  const int first = communicator.firstDevice(), devices = communicator.mesh().devicesPerProcess();
  const bool runsOnAll = instr.owner == 0;
  begin = runsOnAll ? 0 : std::clamp(static_cast<int>(instr.owner) - 1 - first, 0, devices);
  end = runsOnAll ? devices : std::clamp(static_cast<int>(instr.owner) - first, 0, devices);
}

// Returns how the weights of a call are fixed, ashlar_rt_weights.
uint32_t fixedWeights(const ashlar_rt_instr &instr) {
  return instr.kind == ASHLAR_RT_GEMM   ? static_cast<const ashlar_rt_gemm_desc *>(instr.desc)->fixed_weights
         : instr.kind == ASHLAR_RT_CONV ? static_cast<const ashlar_rt_conv_desc *>(instr.desc)->fixed_weights
                                        : 0;
}

bool isOrdered(const ashlar_rt_instr &instr) {
  return instr.num_buffers > 1 && fixedWeights(instr) != 0;
}

} // namespace

char *CpuSurroundings::address(const ashlar_rt_buffer &buffer, int device, uint64_t slot) const {
  const bool constant = buffer.space == ASHLAR_RT_CONSTANT;
  char *base = constant ? const_cast<char *>(reinterpret_cast<const char *>(image.constants)) : communicator.arena(device);
  return base + offsetInArena(variant, buffer, slot);
}

void Step::move(const InstrCursor &cursor) {
  for (uint32_t i = 0; moving != nullptr && i < numBuffers; ++i) {
    if (moving->buffers[i].num_strides == 0 || (readsOrdered && i == 1)) {
      continue;
    }
    const int64_t shift = cursor.shiftOf(moving->buffers[i]);
    for (int device = begin; device < end; ++device) {
      const size_t place = static_cast<size_t>(device) * numBuffers + i;
      buffers[place] = static_cast<char *>(places[place]) + shift;
    }
  }
}

std::string CpuProgram::label(size_t instr) const {
  const Step &step = instances[0][instr];
  const char *kernel = step.gemm != nullptr        ? step.gemm->kernelName()
                       : step.conv != nullptr      ? step.conv->kernelName()
                       : step.attention != nullptr ? step.attention->kernelName()
                                                   : nullptr;
  return kernel != nullptr ? fmt::format("{} [{}]", source.instrs[instr].name, kernel) : source.instrs[instr].name;
}

Status CpuProgram::resolve(const CpuSurroundings &surroundings) {
  slots = slotsOf(surroundings.variant);
  whole = watchFor(surroundings, SpanKind::kProgram, /*index=*/0, /*sum=*/nullptr);
  for (uint32_t i = 0; i < source.num_instrs; ++i) {
    watches.push_back(watchFor(surroundings, SpanKind::kInstruction, i, &seconds[i]));
    besides.push_back(watchFor(surroundings, SpanKind::kBeside, i, &besideSeconds[i]));
  }
  for (uint64_t slot = 0; slot < (usesSlot(source) ? slots : 1); ++slot) {
    ASHLAR_RETURN_IF_ERROR(resolveInstance(surroundings, slot));
  }
  layOutTransfers(surroundings);
  return Status();
}

Stopwatch CpuProgram::watchFor(const CpuSurroundings &surroundings, SpanKind kind, uint32_t index, double *sum) const {
  const auto program = static_cast<uint16_t>(&source - surroundings.variant.programs);
  return {surroundings.options.profile ? sum : nullptr, surroundings.options.recorder, kind, program, index};
}

void CpuProgram::layOutTransfers(const CpuSurroundings &surroundings) {
  waits.reserve(source.num_sends + source.num_receives); // watches point into it
  for (uint32_t i = 0; i < source.num_sends; ++i) {
    double &waited = waits[addSend(surroundings.variant, source.sends[i])].seconds;
    sends.push_back({surroundings.communicator.prepareSend(source.sends[i]), watchFor(surroundings, SpanKind::kReclaim, i, &waited)});
    offers.push_back(watchFor(surroundings, SpanKind::kSend, i, /*sum=*/nullptr));
  }
  for (uint32_t i = 0; i < source.num_receives; ++i) {
    double &waited = waits[addReceive(surroundings.variant, source.receives[i])].seconds;
    receives.push_back(
        {surroundings.communicator.prepareReceive(source.receives[i]), watchFor(surroundings, SpanKind::kReceive, i, &waited)});
  }
}

Status CpuProgram::resolveInstance(const CpuSurroundings &surroundings, uint64_t slot) {
  instances.emplace_back();
  for (uint32_t i = 0; i < source.num_instrs; ++i) {
    if (slot > 0 && !usesSlot(source.instrs[i])) {
      instances.back().push_back(instances[0][i]);
      continue;
    }
    Step step;
    ASHLAR_RETURN_IF_ERROR(resolveStep(surroundings, i, slot, step));
    instances.back().push_back(step);
  }
  return Status();
}

Status CpuProgram::resolveStep(const CpuSurroundings &surroundings, uint32_t index, uint64_t slot, Step &step) {
  const ashlar_rt_instr &instr = source.instrs[index];
  const int devices = surroundings.communicator.mesh().devicesPerProcess();
  step.kind = instr.kind;
  step.numBuffers = instr.num_buffers;
  addresses.emplace_back();
  for (int device = 0; device < devices; ++device) {
    for (uint32_t i = 0; i < instr.num_buffers; ++i) {
      addresses.back().push_back(surroundings.address(instr.buffers[i], device, slot));
    }
  }
  step.buffers = addresses.back().data();
  if (std::any_of(instr.buffers, instr.buffers + instr.num_buffers, [](const auto &buffer) { return buffer.num_strides != 0; })) {
    addresses.push_back(addresses.back());
    step.places = addresses.back().data();
    step.moving = &instr;
  }
  findDevices(instr, surroundings.communicator, step.begin, step.end);
  if (instr.kind == ASHLAR_RT_KERNEL) {
    const auto &desc = *static_cast<const ashlar_rt_kernel_desc *>(instr.desc);
    step.function = desc.function;
    step.extent = desc.extent;
    step.grain = desc.grain;
  } else if (instr.kind == ASHLAR_RT_GEMM) {
    return prepareGemm(surroundings, index, slot, step);
  } else if (instr.kind == ASHLAR_RT_CONV) {
    return prepareConv(surroundings, index, slot, step);
  } else if (instr.kind == ASHLAR_RT_ATTENTION) {
    return prepareAttention(surroundings, index, slot, step);
  } else if (instr.kind == ASHLAR_RT_COLLECTIVE) {
    return prepareCollective(surroundings, index, slot, step);
  } else if (instr.kind == ASHLAR_RT_WAIT) {
    step.token = surroundings.options.checkNumerics ? 0 : static_cast<const ashlar_rt_wait_desc *>(instr.desc)->token;
    if (step.token >= started.size()) {
      return internal("{}: nothing was started with token {}", instr.name, step.token);
    }
  } else if (instr.kind == ASHLAR_RT_INSERT) {
    step.insert = &instr;
    return checkInsert(instr);
  } else if (instr.kind == ASHLAR_RT_COPY) {
    step.copyBytes = instr.buffers[0].bytes;
  } else if (instr.kind != ASHLAR_RT_REPEAT) {
    return internal("{}: unknown kind of instruction {}", instr.name, instr.kind);
  }
  return Status();
}

Status CpuProgram::prepareGemm(const CpuSurroundings &surroundings, uint32_t index, uint64_t slot, Step &step) {
  const ashlar_rt_instr &instr = source.instrs[index];
  const auto &desc = *static_cast<const ashlar_rt_gemm_desc *>(instr.desc);
  step.hasBias = desc.addend == ASHLAR_RT_ADDEND_BIAS;
  if (instr.num_buffers != (step.hasBias ? 4u : 3u)) {
    return internal("{}: a matrix product {} bias has {} buffers", instr.name, step.hasBias ? "with" : "without", instr.num_buffers);
  }
  const int devices = surroundings.communicator.mesh().devicesPerProcess();
  if (slot > 0) { // it knows no addresses
    step.gemm = instances[0][index].gemm;
    shareWeights(desc.fixed_weights != 0, instances[0][index], step, devices);
    return Status();
  }
  gemms.emplace_back();
  ASHLAR_RETURN_IF_ERROR(Gemm::prepare(desc, surroundings.pool.threads(), gemms.back(), &surroundings.workspace));
  step.gemm = &gemms.back();
  return desc.fixed_weights != 0 ? keepWeights(surroundings, index, *step.gemm, step) : Status();
}

Status CpuProgram::prepareConv(const CpuSurroundings &surroundings, uint32_t index, uint64_t slot, Step &step) {
  const ashlar_rt_instr &instr = source.instrs[index];
  const auto &desc = *static_cast<const ashlar_rt_conv_desc *>(instr.desc);
  step.hasScale = desc.has_scale != 0;
  step.hasBias = desc.has_bias != 0;
  step.hasResidual = desc.has_residual != 0;
  uint32_t others = step.hasScale + step.hasBias + step.hasResidual;
  if (instr.num_buffers != 3u + others) {
    return internal("{}: a convolution with {} operands besides its own has {} buffers", instr.name, others, instr.num_buffers);
  }
  const int devices = surroundings.communicator.mesh().devicesPerProcess();
  if (slot > 0) { // it knows no addresses
    step.conv = instances[0][index].conv;
    shareWeights(desc.fixed_weights != 0, instances[0][index], step, devices);
    return Status();
  }
  convs.emplace_back();
  ASHLAR_RETURN_IF_ERROR(Conv::prepare(desc, surroundings.pool.threads(), convs.back(), &surroundings.workspace));
  step.conv = &convs.back();
  return desc.fixed_weights != 0 ? keepWeights(surroundings, index, *step.conv, step) : Status();
}

Status CpuProgram::prepareAttention(const CpuSurroundings &surroundings, uint32_t index, uint64_t slot, Step &step) {
  const ashlar_rt_instr &instr = source.instrs[index];
  const auto &desc = *static_cast<const ashlar_rt_attention_desc *>(instr.desc);
  const uint32_t buffers = (desc.kind == ASHLAR_RT_ATTENTION_BACKWARD ? 9u : 5u) + (desc.mask != 0 ? 1u : 0u) +
                           (desc.positions != 0 ? 2u : 0u) + (desc.dropout != 0 ? 5u : 0u);
  if (instr.num_buffers != buffers) {
    return internal("{}: an attention has {} buffers, not {}", instr.name, instr.num_buffers, buffers);
  }
  if (slot > 0) { // it knows no addresses
    step.attention = instances[0][index].attention;
    return Status();
  }
  attentions.emplace_back();
  ASHLAR_RETURN_IF_ERROR(Attention::prepare(desc, surroundings.pool.threads(), attentions.back(), &surroundings.workspace));
  step.attention = &attentions.back();
  return Status();
}

void CpuProgram::addWeights(const CpuSurroundings &surroundings) {
  repeatOf.assign(source.num_instrs, -1);
  for (uint32_t i = 0; i < source.num_instrs; ++i) { // inner repeats come behind the ones around them
    const ashlar_rt_instr &instr = source.instrs[i];
    const auto *repeat = instr.kind == ASHLAR_RT_REPEAT ? static_cast<const ashlar_rt_repeat_desc *>(instr.desc) : nullptr;
    std::fill_n(repeatOf.begin() + i + 1, repeat != nullptr ? repeat->num_instrs : 0, i);
  }
  for (uint32_t i = 0; i < source.num_instrs; ++i) {
    const ashlar_rt_instr &instr = source.instrs[i];
    for (int device = 0; isOrdered(instr) && device < surroundings.communicator.mesh().devicesPerProcess(); ++device) {
      surroundings.ordered.add(surroundings.address(instr.buffers[1], device, /*slot=*/0), instr, keeperOf(i));
    }
  }
}

const ashlar_rt_instr *CpuProgram::keeperOf(uint32_t index) const {
  const bool isKept = fixedWeights(source.instrs[index]) == ASHLAR_RT_WEIGHTS_KEPT && repeatOf[index] >= 0;
  return isKept ? &source.instrs[repeatOf[index]] : nullptr;
}

template <typename Call> Status CpuProgram::keepWeights(const CpuSurroundings &surroundings, uint32_t index, const Call &call, Step &step) {
  const ashlar_rt_instr &instr = source.instrs[index];
  if (fixedWeights(instr) == ASHLAR_RT_WEIGHTS_KEPT && repeatOf[index] < 0) {
    return internal("{}: no repeat keeps its weights", instr.name);
  }
  for (int device = 0; device < surroundings.communicator.mesh().devicesPerProcess(); ++device) {
    void *&buffer = step.buffers[device * step.numBuffers + 1];
    OrderedWeights &weights = *surroundings.ordered.find(buffer, instr, keeperOf(index));
    if (weights.order == nullptr) {
      weights.pieces = call.orderedPieces();
      weights.order = [&call, from = static_cast<const char *>(buffer), to = weights.ordered](int piece, int64_t shift) {
        call.order(piece, reinterpret_cast<const float *>(from + shift), static_cast<float *>(to));
      };
    }
    if (std::find(orderedWeights.begin(), orderedWeights.end(), &weights) == orderedWeights.end()) {
      orderedWeights.push_back(&weights);
    }
    buffer = weights.ordered;
  }
  step.readsOrdered = true;
  return Status();
}

void CpuProgram::orderWeights(ThreadPool &pool, uint64_t change) {
  for (OrderedWeights *weights : orderedWeights) {
    if (weights->keeper == nullptr && weights->change != change) {
      weights->run(pool, /*shift=*/0);
      weights->change = change;
    }
  }
  weightsOrdered = change;
}

void CpuProgram::orderKept(const InstrCursor &cursor, ThreadPool &pool) {
  for (const OrderedWeights *weights : orderedWeights) {
    if (weights->keeper == &source.instrs[cursor.instr()]) {
      weights->run(pool, cursor.shiftOf(weights->instr->buffers[1]));
    }
  }
}

Status CpuProgram::prepareCollective(const CpuSurroundings &surroundings, uint32_t index, uint64_t slot, Step &step) {
  const InstrInSlot placed(source.instrs[index], surroundings.variant, slot);
  const ashlar_rt_instr &instr = placed.get();
  collectives.emplace_back();
  ASHLAR_RETURN_IF_ERROR(surroundings.communicator.prepare(instr, surroundings.image.constants, collectives.back()));
  step.collective = collectives.back().get();
  // What every instruction wrote is looked at right behind it: then nothing runs beside others.
  step.token = surroundings.options.checkNumerics ? 0 : static_cast<const ashlar_rt_collective_desc *>(instr.desc)->token;
  step.beside = &besides[index];
  started.resize(std::max<size_t>(started.size(), step.token + 1));
  return Status();
}

Status CpuProgram::receive(uint64_t microBatch, uint64_t slot) {
  for (const Waiting<SendingEnd> &send : sends) {
    ASHLAR_RETURN_IF_ERROR(send.watch.time([&] { return send.end->reclaim(slot); }));
  }
  for (const Waiting<ReceivingEnd> &receive : receives) {
    ASHLAR_RETURN_IF_ERROR(receive.watch.time([&] { return receive.end->receive(microBatch); }));
  }
  return Status();
}

Status CpuProgram::offer(uint64_t slot) {
  for (size_t i = 0; i < sends.size(); ++i) {
    ASHLAR_RETURN_IF_ERROR(offers[i].time([&] { return sends[i].end->offer(slot); }));
  }
  return Status();
}

Status CpuProgram::reclaimAll() {
  for (const Waiting<SendingEnd> &send : sends) {
    for (uint64_t slot = 0; slot < slots; ++slot) {
      ASHLAR_RETURN_IF_ERROR(send.end->reclaim(slot));
    }
  }
  return Status();
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
      GemmCall call{step.gemm, buffers[0], buffers[1], step.hasBias ? buffers[2] : nullptr, buffers[step.numBuffers - 1]};
      pool.parallelFor(step.gemm->parts(), /*grain=*/1, runGemmParts, &call);
    }
    return Status();
  case ASHLAR_RT_CONV:
    for (int device = step.begin; device < step.end; ++device, buffers += step.numBuffers) {
      ConvCall call{step.conv,
                    buffers[0],
                    buffers[1],
                    step.hasScale ? buffers[2] : nullptr,
                    step.hasBias ? buffers[2 + step.hasScale] : nullptr,
                    step.hasResidual ? buffers[step.numBuffers - 2] : nullptr,
                    buffers[step.numBuffers - 1]};
      pool.parallelFor(step.conv->parts(), /*grain=*/1, runConvParts, &call);
    }
    return Status();
  case ASHLAR_RT_ATTENTION:
    for (int device = step.begin; device < step.end; ++device, buffers += step.numBuffers) {
      AttentionCall call{step.attention, buffers};
      pool.parallelFor(step.attention->parts(), /*grain=*/1, runAttentionParts, &call);
    }
    return Status();
  case ASHLAR_RT_INSERT:
    for (int device = step.begin; device < step.end; ++device, buffers += step.numBuffers) {
      runInsert(*step.insert, buffers, pool);
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

} // namespace ashlar::rt
