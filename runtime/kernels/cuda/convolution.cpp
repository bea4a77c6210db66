// SPDX-License-Identifier: Apache-2.0
//
// Each convolution is a graph of one operation. The library's dims are batch, channels, spatial; that the channels are last, the strides
// say.

#include "runtime/kernels/cuda/convolution.h"

#include "runtime/base/dtype.h"
#include "runtime/kernels/cuda/cudnn_descriptor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ashlar::rt {
namespace {

// Of every buffer, as far as engines ask.
constexpr int64_t kOperandAlignment = 16;

// The numbers by which a graph and the addresses of a run name the tensors.
enum TensorId : int64_t { kX = 1, kWeights = 2, kY = 3 };

// The tensors in the order of the buffers, by kind.
constexpr TensorId kOrder[3][3] = {{kX, kWeights, kY}, {kY, kWeights, kX}, {kX, kY, kWeights}};

const TensorId (&orderOf(const ashlar_rt_conv_desc &desc))[3] {
  return kOrder[desc.kind - ASHLAR_RT_CONV_FORWARD];
}

// An operation, its name in the library, and its attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weights, y, convolution, alpha, beta;
};

constexpr Operation kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
constexpr Operation kData = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
constexpr Operation kFilter = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};

const Operation &operationOf(const ashlar_rt_conv_desc &desc) {
  return desc.kind == ASHLAR_RT_CONV_FORWARD ? kForward : desc.kind == ASHLAR_RT_CONV_DATA ? kData : kFilter;
}

bool toCudnnType(uint32_t dtype, cudnnDataType_t &type) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    type = CUDNN_DATA_FLOAT;
    return true;
  case ASHLAR_RT_F16:
    type = CUDNN_DATA_HALF;
    return true;
  case ASHLAR_RT_BF16:
    type = CUDNN_DATA_BFLOAT16;
    return true;
  default:
    return false;
  }
}

// One number of each spatial dim, of which the library wants at least two.
using DimNumber = int64_t ashlar_rt_conv_dim::*;
std::vector<int64_t> spatial(const ashlar_rt_conv_desc &desc, DimNumber number) {
  std::vector<int64_t> numbers;
  for (size_t i = desc.spatial_dims < 3 ? 1 : 0; i < std::size(desc.dims); ++i) {
    numbers.push_back(desc.dims[i].*number);
  }
  return numbers;
}

// The shapes of the tensors: batch or outputs, channels, spatial dims.
std::vector<int64_t> shape(const ashlar_rt_conv_desc &desc, TensorId id) {
  std::vector<int64_t> dims = spatial(desc, id == kX   ? &ashlar_rt_conv_dim::in
                                            : id == kY ? &ashlar_rt_conv_dim::out
                                                       : &ashlar_rt_conv_dim::kernel);
  int64_t channelsIn = desc.groups * desc.channels_in, channelsOut = desc.groups * desc.channels_out;
  dims.insert(dims.begin(), {id == kWeights ? channelsOut : desc.batch, id == kWeights ? desc.channels_in
                                                                        : id == kX     ? channelsIn
                                                                                       : channelsOut});
  return dims;
}

int64_t elements(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Status describe(CudnnDescriptor &tensor, const ashlar_rt_conv_desc &desc, TensorId id, cudnnDataType_t type) {
  std::vector<int64_t> dims = shape(desc, id), strides(dims.size());
  int64_t stride = dims[1];
  for (size_t i = dims.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  strides[1] = 1;
  ASHLAR_RETURN_IF_ERROR(tensor.create(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<int64_t>(id)));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kOperandAlignment));
  ASHLAR_RETURN_IF_ERROR(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims));
  return tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
}

Status describe(CudnnDescriptor &convolution, const ashlar_rt_conv_desc &desc) {
  std::vector<int64_t> padding = spatial(desc, &ashlar_rt_conv_dim::low);
  ASHLAR_RETURN_IF_ERROR(convolution.create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, static_cast<int64_t>(padding.size())));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding));
  ASHLAR_RETURN_IF_ERROR(convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial(desc, &ashlar_rt_conv_dim::dilation)));
  return convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial(desc, &ashlar_rt_conv_dim::stride));
}

} // namespace

Status sortConvolutionOperands(const ashlar_rt_instr &instr, const std::vector<CUdeviceptr> &addresses, ConvolutionOperands &operands) {
  const auto &desc = *static_cast<const ashlar_rt_conv_desc *>(instr.desc);
  if (instr.num_buffers != 3 || desc.has_scale != 0 || desc.has_bias != 0 || desc.has_residual != 0 ||
      desc.epilogue != ASHLAR_RT_EPILOGUE_NONE) {
    return internal("{}: a convolution on cuda has 3 buffers and nothing behind it, not {}, scale {}, bias {}, residual {}, epilogue {}",
                    instr.name, instr.num_buffers, desc.has_scale, desc.has_bias, desc.has_residual, desc.epilogue);
  }
  operands.dtype = instr.buffers[0].dtype;
  for (uint32_t i = 0; i < 3; ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    uint64_t needed = static_cast<uint64_t>(elements(shape(desc, orderOf(desc)[i]))) * dtypeBytes(operands.dtype);
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

// A distinct convolution and the engine that was chosen for it.
struct Convolutions::Plan {
  Plan(const CudnnLibrary &dnn, const ashlar_rt_conv_desc &desc, uint32_t dtype)
      : dnn(dnn), desc(desc), dtype(dtype), tensors{CudnnDescriptor(dnn), CudnnDescriptor(dnn), CudnnDescriptor(dnn)}, convolution(dnn),
        operation(dnn), graph(dnn), execution(dnn) {}

  Status finalize(CudnnDescriptor &descriptor) { return dnn.check(descriptor.finalize(), "cannot describe a convolution"); }

  // Describes everything but the engine.
  Status layOut(cudnnHandle_t handle, cudnnDataType_t type) {
    const Operation &kind = operationOf(desc);
    const std::pair<TensorId, cudnnBackendAttributeName_t> parts[] = {{kX, kind.x}, {kWeights, kind.weights}, {kY, kind.y}};
    ASHLAR_RETURN_IF_ERROR(describe(convolution, desc));
    ASHLAR_RETURN_IF_ERROR(finalize(convolution));
    ASHLAR_RETURN_IF_ERROR(operation.create(kind.type));
    for (size_t i = 0; i < std::size(parts); ++i) {
      ASHLAR_RETURN_IF_ERROR(describe(tensors[i], desc, parts[i].first, type));
      ASHLAR_RETURN_IF_ERROR(finalize(tensors[i]));
      ASHLAR_RETURN_IF_ERROR(operation.set(parts[i].second, tensors[i]));
    }
    ASHLAR_RETURN_IF_ERROR(operation.set(kind.convolution, convolution));
    ASHLAR_RETURN_IF_ERROR(operation.set(kind.alpha, CUDNN_TYPE_FLOAT, 1.0f));
    ASHLAR_RETURN_IF_ERROR(operation.set(kind.beta, CUDNN_TYPE_FLOAT, 0.0f));
    ASHLAR_RETURN_IF_ERROR(finalize(operation));
    ASHLAR_RETURN_IF_ERROR(graph.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    ASHLAR_RETURN_IF_ERROR(graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle));
    ASHLAR_RETURN_IF_ERROR(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation));
    return finalize(graph);
  }

  // Lists the engines that the library proposes, its best first.
  Status propose(cudnnBackendHeurMode_t mode, std::vector<CudnnDescriptor> &configurations) {
    CudnnDescriptor heuristic(dnn);
    ASHLAR_RETURN_IF_ERROR(heuristic.create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    ASHLAR_RETURN_IF_ERROR(heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
    ASHLAR_RETURN_IF_ERROR(heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode));
    int64_t count = 0;
    if (heuristic.finalize() != CUDNN_STATUS_SUCCESS ||
        dnn.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) !=
            CUDNN_STATUS_SUCCESS) {
      return Status(); // it knows none
    }
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int64_t i = 0; i < count; ++i) {
      configurations.emplace_back(dnn);
      ASHLAR_RETURN_IF_ERROR(configurations.back().create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      handles.push_back(configurations.back().get());
    }
    ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data()),
                                     "cannot list the engines of a convolution"));
    configurations.erase(configurations.begin() + count, configurations.end());
    return Status();
  }

  // Returns whether an engine gives the same bits each time, sums in f32 the products of the operands as they are, and passes on what is
  // not finite to the elements whose windows hold it.
  Status isExact(const CudnnDescriptor &configuration, bool &exact) {
    CudnnDescriptor engine(dnn);
    ASHLAR_RETURN_IF_ERROR(engine.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
    cudnnBackendDescriptor_t handle = engine.get();
    int64_t count = 0;
    ASHLAR_RETURN_IF_ERROR(dnn.check(
        dnn.cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
        "cannot ask for the engine of a convolution"));
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
                                     "cannot ask for the notes of an engine"));
    exact = std::none_of(notes, notes + count, [&](cudnnBackendNumericalNote_t note) {
      switch (note) {
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: // of f32: in tf32
        return dtype == ASHLAR_RT_F32 && desc.allow_tf32 == 0;
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
        return false;
      default: // not deterministic, in fewer bits, or in transforms of the operands
        return true;
      }
    });
    return Status();
  }

  // Takes the first engine that is exact, works on this device and has room in the workspace.
  Status choose(cudnnHandle_t handle, const char *name) {
    size_t proposed = 0, inexact = 0, large = 0;
    for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      std::vector<CudnnDescriptor> configurations;
      ASHLAR_RETURN_IF_ERROR(propose(mode, configurations));
      for (const CudnnDescriptor &configuration : configurations) {
        ++proposed;
        bool exact = false;
        ASHLAR_RETURN_IF_ERROR(isExact(configuration, exact));
        if (!exact) {
          ++inexact;
          continue;
        }
        CudnnDescriptor made(dnn);
        ASHLAR_RETURN_IF_ERROR(made.create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
        ASHLAR_RETURN_IF_ERROR(made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle));
        ASHLAR_RETURN_IF_ERROR(made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
        if (made.finalize() != CUDNN_STATUS_SUCCESS) {
          continue;
        }
        int64_t bytes = 0, count = 0;
        ASHLAR_RETURN_IF_ERROR(dnn.check(
            dnn.cudnnBackendGetAttribute(made.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
            "cannot ask for the workspace of a convolution"));
        if (bytes > static_cast<int64_t>(kConvolutionWorkspaceBytes)) {
          ++large;
          continue;
        }
        execution = std::move(made);
        return Status();
      }
    }
    return unavailable(
        "{}: cuDNN {} has no engine for batch {}, {} groups, channels {} to {} of {}: of {} engines {} are not exact and {} need "
        "more than {} bytes of workspace",
        name, dnn.cudnnGetVersion(), desc.batch, desc.groups, desc.channels_in, desc.channels_out, dtypeName(dtype), proposed, inexact,
        large, kConvolutionWorkspaceBytes);
  }

  const CudnnLibrary &dnn;
  ashlar_rt_conv_desc desc;
  uint32_t dtype;
  CudnnDescriptor tensors[3];
  CudnnDescriptor convolution, operation, graph, execution;
};

// A plan, and the addresses that it runs on.
struct Convolutions::Prepared {
  const Plan *plan;
  CudnnDescriptor addresses;
};

Convolutions::Convolutions() = default;

Convolutions::~Convolutions() {
  prepared.clear();
  plans.clear();
  if (handle != nullptr) {
    dnn.cudnnDestroy(handle);
  }
}

Status Convolutions::create(CUdeviceptr memory) {
  workspace = memory;
  ASHLAR_RETURN_IF_ERROR(CudnnLibrary::load(dnn));
  return dnn.check(dnn.cudnnCreate(&handle), "cannot initialise cuDNN");
}

Status Convolutions::prepare(const ashlar_rt_conv_desc &desc, const ConvolutionOperands &operands, const char *name, size_t &number) {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  if (!toCudnnType(operands.dtype, type)) {
    return internal("{}: a convolution of {} on cuda", name, dtypeName(operands.dtype));
  }
  auto isSame = [&](const auto &plan) { return plan->dtype == operands.dtype && std::memcmp(&plan->desc, &desc, sizeof(desc)) == 0; };
  auto plan = std::find_if(plans.begin(), plans.end(), isSame);
  if (plan == plans.end()) {
    auto made = std::make_unique<Plan>(dnn, desc, operands.dtype);
    ASHLAR_RETURN_IF_ERROR(made->layOut(handle, type));
    ASHLAR_RETURN_IF_ERROR(made->choose(handle, name));
    plan = plans.insert(plans.end(), std::move(made));
  }
  const TensorId(&order)[3] = orderOf(desc);
  auto address = [](CUdeviceptr at) { return reinterpret_cast<void *>(at); };
  CudnnDescriptor pack(dnn);
  ASHLAR_RETURN_IF_ERROR(pack.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                  std::vector<void *>{address(operands.first), address(operands.second), address(operands.out)}));
  ASHLAR_RETURN_IF_ERROR(
      pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::vector<int64_t>{order[0], order[1], order[2]}));
  ASHLAR_RETURN_IF_ERROR(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, address(workspace)));
  ASHLAR_RETURN_IF_ERROR(dnn.check(pack.finalize(), "cannot describe the operands of a convolution"));
  number = prepared.size();
  prepared.push_back(std::make_unique<Prepared>(Prepared{plan->get(), std::move(pack)}));
  return Status();
}

Status Convolutions::enqueue(size_t number, CUstream stream) const {
  const Prepared &each = *prepared[number];
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnSetStream(handle, stream), "cuDNN takes no stream"));
  return dnn.check(dnn.cudnnBackendExecute(handle, each.plan->execution.get(), each.addresses.get()),
                   "cuDNN failed to start a convolution");
}

} // namespace ashlar::rt
