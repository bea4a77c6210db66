// SPDX-License-Identifier: Apache-2.0
//
// Distinct convolutions have a plan each; a prepared one has addresses besides. The addresses are described last, in finish(): a plan that
// was chosen with more workspace than there is moves all of them.

#include "runtime/kernels/cuda/convolution.h"

#include "runtime/base/dtype.h"

#include <algorithm>
#include <cstdlib>

namespace ashlar::rt {

Status sortConvolutionOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, ConvolutionOperands &operands) {
  const auto &desc = *static_cast<const ashlar_rt_conv_desc *>(instr.desc);
  if (instr.num_buffers != 3 || desc.has_scale != 0 || desc.has_bias != 0 || desc.has_residual != 0 ||
      desc.epilogue != ASHLAR_RT_EPILOGUE_NONE) {
    return internal("{}: a convolution on cuda has 3 buffers and no epilogue, not {}, scale {}, bias {}, residual {}, epilogue {}",
                    instr.name, instr.num_buffers, desc.has_scale, desc.has_bias, desc.has_residual, desc.epilogue);
  }
  operands.dtype = instr.buffers[0].dtype;
  for (uint32_t i = 0; i < 3; ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    uint64_t needed = static_cast<uint64_t>(elementsOf(desc, tensorsOf(desc)[i])) * dtypeBytes(operands.dtype);
    if (buffer.bytes != needed || buffer.dtype != operands.dtype) {
      return internal("{}: buffer {} has {} bytes of {}, not {} of {}", instr.name, i, buffer.bytes, dtypeName(buffer.dtype), needed,
                      dtypeName(operands.dtype));
    }
  }
  operands.first = addresses[0];
  operands.second = addresses[1];
  operands.out = addresses[2];
  return Status();
}

// A plan, and the addresses that it runs on.
struct Convolutions::Prepared {
  const ConvolutionPlan *plan;
  ConvolutionOperands operands;
  const ConvolutionTensor (&tensors)[3]; // in the order of the operands
  CudnnDescriptor addresses;
  bool isDescribed = false;
};

Convolutions::Convolutions() = default;

Convolutions::~Convolutions() {
  prepared.clear();
  plans.clear();
  if (handle != nullptr) {
    dnn.cudnnDestroy(handle);
  }
}

Status Convolutions::create(CudaDevice &gpu, CUdeviceptr memory) {
  device = &gpu;
  workspace = memory;
  ASHLAR_RETURN_IF_ERROR(readRelaxations(std::getenv("ASHLAR_CUDNN_RELAX"), relaxations));
  ASHLAR_RETURN_IF_ERROR(CudnnLibrary::load(dnn, "a convolution"));
  return dnn.check(dnn.cudnnCreate(&handle), "cannot initialise cuDNN");
}

Status Convolutions::prepare(const ashlar_rt_conv_desc &desc, const ConvolutionOperands &operands, const char *name, size_t &number) {
  auto plan = std::find_if(plans.begin(), plans.end(), [&](const auto &each) { return each->isOf(desc, operands.dtype); });
  if (plan == plans.end()) {
    size_t free = kConvolutionWorkspaceBytes, total = 0;
    if ((relaxations & kMoreWorkspace) != 0) {
      ASHLAR_RETURN_IF_ERROR(device->memory(free, total));
      free -= free / kReservedShare;
    }
    auto made = std::make_unique<ConvolutionPlan>(dnn, desc, operands.dtype);
    last = made.get();
    plans.push_back(std::move(made));
    ASHLAR_RETURN_IF_ERROR(last->layOut(handle, name));
    ASHLAR_RETURN_IF_ERROR(last->choose(relaxations, std::max<uint64_t>(free, kConvolutionWorkspaceBytes), name));
    plan = plans.end() - 1;
    noteRelaxations(*last, name);
  }
  last = plan->get();
  if (last->chosen() == nullptr) {
    return internal("{}: this convolution was refused before", name);
  }
  number = prepared.size();
  prepared.push_back(std::make_unique<Prepared>(Prepared{last, operands, tensorsOf(desc), CudnnDescriptor(dnn)}));
  return Status();
}

void Convolutions::noteRelaxations(const ConvolutionPlan &plan, const char *name) {
  if (plan.chosen()->needs != 0) {
    warnings.push_back(fmt::format("cuDNN {}, {}: ASHLAR_CUDNN_RELAX takes {}", dnn.cudnnGetVersion(), name, plan.chosen()->text()));
  }
}

Status Convolutions::finish() {
  uint64_t most = 0;
  for (const auto &plan : plans) {
    most = std::max(most, plan->chosen() != nullptr ? static_cast<uint64_t>(plan->chosen()->workspaceBytes) : 0);
  }
  if (most > std::max<uint64_t>(extra, kConvolutionWorkspaceBytes)) {
    ASHLAR_RETURN_IF_ERROR(device->allocate(most, "the workspace of convolutions that ASHLAR_CUDNN_RELAX lets take more", workspace));
    extra = most;
  }
  for (const auto &each : prepared) {
    ASHLAR_RETURN_IF_ERROR(each->isDescribed ? Status() : describe(*each));
  }
  return Status();
}

Status Convolutions::describe(Prepared &each) const {
  auto address = [](CUdeviceptr at) { return reinterpret_cast<void *>(at); };
  const ConvolutionOperands &operands = each.operands;
  CudnnDescriptor &pack = each.addresses;
  ASHLAR_RETURN_IF_ERROR(pack.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                  std::vector<void *>{address(operands.first), address(operands.second), address(operands.out)}));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                  std::vector<int64_t>{each.tensors[0], each.tensors[1], each.tensors[2]}));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, address(workspace)));
  each.isDescribed = true;
  return dnn.check(pack.finalize(), "cannot describe the operands of a convolution");
}

Status Convolutions::enqueue(size_t number, CUstream stream) const {
  const Prepared &each = *prepared[number];
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnSetStream(handle, stream), "cuDNN takes no stream"));
  return dnn.check(dnn.cudnnBackendExecute(handle, each.plan->chosen()->execution.get(), each.addresses.get()),
                   "cuDNN failed to start a convolution");
}

} // namespace ashlar::rt
