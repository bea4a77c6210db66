// SPDX-License-Identifier: Apache-2.0
//
// Distinct attentions have a plan each; a prepared one has addresses besides, which are described last, in finish(): an engine that was
// chosen with more workspace than there is moves its part of it.

#include "runtime/kernels/cuda/attention.h"

#include "runtime/base/dtype.h"

#include <algorithm>
#include <cstdlib>

namespace ashlar::rt {

Status checkAttentionOperands(const ashlar_rt_instr &instr) {
  const auto &desc = *static_cast<const ashlar_rt_attention_desc *>(instr.desc);
  const int64_t rows = desc.batch * desc.heads * desc.rows, keys = desc.batch * desc.key_heads * desc.keys;
  const int64_t query = rows * desc.width, key = keys * desc.width, value = keys * desc.value_width, out = rows * desc.value_width;
  std::vector<int64_t> elements = {query, key, value};
  if (desc.mask != 0) {
    elements.push_back((desc.mask_strides[0] == 0 ? 1 : desc.batch) * (desc.mask_strides[1] == 0 ? 1 : desc.heads) * desc.rows * desc.keys);
  }
  const size_t logSum = elements.size() + 1;
  elements.insert(elements.end(), {out, rows});
  if (desc.kind == ASHLAR_RT_ATTENTION_BACKWARD) {
    elements.insert(elements.end(), {out, query, key, value});
  }
  if (instr.num_buffers != elements.size()) {
    return internal("{}: an attention on cuda has {} buffers, not {}", instr.name, instr.num_buffers, elements.size());
  }
  for (size_t i = 0; i < elements.size(); ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    const uint32_t dtype = i == logSum ? static_cast<uint32_t>(ASHLAR_RT_F32) : desc.dtype;
    const uint64_t needed = static_cast<uint64_t>(elements[i]) * dtypeBytes(dtype);
    if (buffer.bytes != needed || buffer.dtype != dtype) {
      return internal("{}: buffer {} has {} bytes of {}, not {} of {}", instr.name, i, buffer.bytes, dtypeName(buffer.dtype), needed,
                      dtypeName(dtype));
    }
  }
  return Status();
}

// A plan, and the addresses that it runs on.
struct Attentions::Prepared {
  AttentionPlan *plan;
  std::vector<CUdeviceptr> buffers;
  CudnnDescriptor addresses;
  bool isDescribed = false;
};

Attentions::Attentions() = default;

Attentions::~Attentions() {
  prepared.clear();
  plans.clear();
  if (handle != nullptr) {
    dnn.cudnnDestroy(handle);
  }
}

Status Attentions::create(CudaDevice &gpu, CUdeviceptr memory) {
  device = &gpu;
  workspace = memory;
  ASHLAR_RETURN_IF_ERROR(readRelaxations(std::getenv("ASHLAR_CUDNN_RELAX"), relaxations));
  ASHLAR_RETURN_IF_ERROR(CudnnLibrary::load(dnn, "an attention"));
  return dnn.check(dnn.cudnnCreate(&handle), "cannot initialise cuDNN");
}

Status Attentions::prepare(const ashlar_rt_attention_desc &desc, const std::vector<CUdeviceptr> &buffers, const char *name,
                           size_t &number) {
  auto plan = std::find_if(plans.begin(), plans.end(), [&](const auto &each) { return each->isOf(desc); });
  if (plan == plans.end()) {
    size_t free = kMatmulWorkspaceBytes, total = 0;
    if ((relaxations & kMoreWorkspace) != 0) {
      ASHLAR_RETURN_IF_ERROR(device->memory(free, total));
      free -= free / kReservedShare;
    }
    auto made = std::make_unique<AttentionPlan>(dnn, desc);
    last = made.get();
    plans.push_back(std::move(made));
    ASHLAR_RETURN_IF_ERROR(last->layOut(handle, name));
    ASHLAR_RETURN_IF_ERROR(last->choose(relaxations, std::max<uint64_t>(free, kMatmulWorkspaceBytes), name));
    plan = plans.end() - 1;
    if (const EngineTrial &chosen = *last->chosen(); chosen.needs != 0) {
      const bool isAllowed = (chosen.needs & ~relaxations) == 0;
      warnings.push_back(fmt::format("cuDNN {}, {}: {} {}", dnn.cudnnGetVersion(), name,
                                     isAllowed ? "ASHLAR_CUDNN_RELAX takes" : "the gradients' last bits are others in each run by",
                                     chosen.text()));
    }
  }
  last = plan->get();
  if (last->chosen() == nullptr) {
    return internal("{}: this attention was refused before", name);
  }
  if (buffers.size() != last->operands()) {
    return internal("{}: {} buffers of an attention with {}", name, buffers.size(), last->operands());
  }
  number = prepared.size();
  prepared.push_back(std::make_unique<Prepared>(Prepared{last, buffers, CudnnDescriptor(dnn)}));
  return Status();
}

Status Attentions::finish() {
  uint64_t most = 0;
  for (const auto &plan : plans) {
    most = std::max(most, plan->chosen() != nullptr ? static_cast<uint64_t>(plan->chosen()->workspaceBytes) : 0);
  }
  if (most > std::max<uint64_t>(extra, kMatmulWorkspaceBytes)) {
    ASHLAR_RETURN_IF_ERROR(device->allocate(most, "the workspace of attention that ASHLAR_CUDNN_RELAX lets take more", extraWorkspace));
    extra = most;
  }
  for (const auto &each : prepared) {
    ASHLAR_RETURN_IF_ERROR(each->isDescribed ? Status() : describe(*each));
  }
  return Status();
}

Status Attentions::describe(Prepared &each) const {
  std::vector<int64_t> ids;
  std::vector<void *> addresses;
  each.plan->list(each.buffers, workspace, ids, addresses);
  const bool isLarge = static_cast<uint64_t>(each.plan->chosen()->workspaceBytes) > kMatmulWorkspaceBytes;
  void *engine = reinterpret_cast<void *>(isLarge ? extraWorkspace : workspace + each.plan->engineOffset());
  CudnnDescriptor &pack = each.addresses;
  ASHLAR_RETURN_IF_ERROR(pack.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, engine));
  each.isDescribed = true;
  return dnn.check(pack.finalize(), "cannot describe the operands of an attention");
}

Status Attentions::enqueue(size_t number, CUstream stream) const {
  const Prepared &each = *prepared[number];
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnSetStream(handle, stream), "cuDNN takes no stream"));
  return dnn.check(dnn.cudnnBackendExecute(handle, each.plan->chosen()->execution.get(), each.addresses.get()),
                   "cuDNN failed to start an attention");
}

} // namespace ashlar::rt
