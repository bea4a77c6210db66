// SPDX-License-Identifier: Apache-2.0
//
// Each convolution is a graph of one operation. The library's dims are batch, channels, spatial; that the channels are last, the strides
// say.

#include "runtime/kernels/cuda/convolution_plan.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/dtype.h"

#include <cstring>
#include <numeric>

namespace ashlar::rt {
namespace {

// The tensors in the order of the buffers, by kind.
constexpr ConvolutionTensor kOrder[3][3] = {{kX, kWeights, kY}, {kY, kWeights, kX}, {kX, kY, kWeights}};

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
std::vector<int64_t> shape(const ashlar_rt_conv_desc &desc, ConvolutionTensor id) {
  std::vector<int64_t> dims = spatial(desc, id == kX   ? &ashlar_rt_conv_dim::in
                                            : id == kY ? &ashlar_rt_conv_dim::out
                                                       : &ashlar_rt_conv_dim::kernel);
  int64_t channelsIn = desc.groups * desc.channels_in, channelsOut = desc.groups * desc.channels_out;
  dims.insert(dims.begin(), {id == kWeights ? channelsOut : desc.batch, id == kWeights ? desc.channels_in
                                                                        : id == kX     ? channelsIn
                                                                                       : channelsOut});
  return dims;
}

Status describe(CudnnDescriptor &tensor, const ashlar_rt_conv_desc &desc, ConvolutionTensor id, cudnnDataType_t type) {
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

const ConvolutionTensor (&tensorsOf(const ashlar_rt_conv_desc &desc))[3] {
  return kOrder[desc.kind - ASHLAR_RT_CONV_FORWARD];
}

int64_t elementsOf(const ashlar_rt_conv_desc &desc, ConvolutionTensor tensor) {
  const std::vector<int64_t> dims = shape(desc, tensor);
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

bool ConvolutionPlan::isOf(const ashlar_rt_conv_desc &other, uint32_t otherDtype) const {
  return dtype == otherDtype && std::memcmp(&desc, &other, sizeof(desc)) == 0;
}

// Describes everything but the engine.
Status ConvolutionPlan::layOut(cudnnHandle_t owner, const char *name) {
  handle = owner;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  if (!toCudnnType(dtype, type)) {
    return internal("{}: a convolution of {} on cuda", name, dtypeName(dtype));
  }
  auto finalize = [this](CudnnDescriptor &descriptor) { return dnn.check(descriptor.finalize(), "cannot describe a convolution"); };
  const Operation &kind = operationOf(desc);
  const std::pair<ConvolutionTensor, cudnnBackendAttributeName_t> parts[] = {{kX, kind.x}, {kWeights, kind.weights}, {kY, kind.y}};
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

Status ConvolutionPlan::choose(uint32_t relaxations, uint64_t mostBytes, const char *name) {
  const char *what = desc.kind == ASHLAR_RT_CONV_FORWARD ? "convolution"
                     : desc.kind == ASHLAR_RT_CONV_DATA  ? "data gradient"
                                                         : "weight gradient";
  return trials.choose(handle, relaxations, mostBytes, name,
                       fmt::format("the {} of batch {}, {} groups, channels {} to {} of {}", what, desc.batch, desc.groups,
                                   desc.channels_in, desc.channels_out, dtypeName(dtype)));
}

} // namespace ashlar::rt
