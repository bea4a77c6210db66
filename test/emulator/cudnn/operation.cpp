// SPDX-License-Identifier: Apache-2.0
//
// What cuDNN says of the parts of an operation: which are wrong, and which no engine is sure to take.

#include "test/emulator/cudnn/convolution.h"
#include "test/emulator/cudnn/graph.h"

#include "test/emulator/driver/elements.h"

#include <algorithm>
#include <utility>

namespace ashlar::emulator {
namespace {

Tensor tensorOf(const Descriptor &descriptor) {
  return {descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID), descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          elementType(descriptor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
          descriptor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), descriptor.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)};
}

// The attributes of an operation.
struct Names {
  cudnnBackendDescriptorType_t kind;
  Role result;
  cudnnBackendAttributeName_t parameters, tensors[3], alpha, beta;
};

constexpr Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

// Returns why the dims of x, w and y do not go together, or null.
const char *whyNotShapes(const Convolution &convolution) {
  const std::vector<int64_t> &x = convolution.tensors[X].dims, &w = convolution.tensors[W].dims, &y = convolution.tensors[Y].dims;
  const size_t spatial = convolution.before.size();
  if (x.size() != spatial + 2 || w.size() != spatial + 2 || y.size() != spatial + 2) {
    return "x, w and y must have two dims more than the convolution";
  }
  if (x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0) {
    return "the channels do not divide into groups";
  }
  if (y[0] != x[0] || y[1] != w[0]) {
    return "y has not the batch of x and the channels of w";
  }
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t room =
        x[i + 2] + convolution.before[i] + convolution.after[i] - (w[i + 2] - 1) * convolution.dilations[i] - 1; // to move the filter
    if (room < 0 || y[i + 2] != room / convolution.strides[i] + 1) {
      return "the spatial dims of y do not follow from x, w, paddings, strides and dilations";
    }
  }
  return nullptr;
}

bool isChannelsLast(const Tensor &tensor) {
  int64_t stride = tensor.strides[1] == 1 ? tensor.dims[1] : 0;
  for (size_t i = tensor.dims.size() - 1; i > 1; --i) {
    if (tensor.strides[i] != stride) {
      return false;
    }
    stride *= tensor.dims[i];
  }
  return tensor.strides[0] == stride && stride != 0;
}

bool isAtLeast(const std::vector<int64_t> &values, int64_t least) {
  return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value >= least; });
}

} // namespace

cudnnStatus_t checkTensor(const Descriptor &descriptor) {
  const Tensor tensor = tensorOf(descriptor);
  const auto type = descriptor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const bool isInner = descriptor.isSet(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  const bool isInteger = isInner && (type == CUDNN_DATA_INT32 || type == CUDNN_DATA_BOOLEAN);
  if (!isInteger && elementBytes(tensor.type) == 0) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a tensor must be f32, f16 or bf16");
  }
  if (isInner && descriptor.isSet(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor is nowhere and a number of the caller");
  }
  if (tensor.alignment <= 0 || (!isInteger && tensor.alignment % elementBytes(tensor.type) != 0)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the alignment of a tensor is no multiple of its element's bytes");
  }
  if (tensor.dims.size() != tensor.strides.size() || !isAtLeast(tensor.dims, 1) || !isAtLeast(tensor.strides, 1)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the dims and strides of a tensor must be as many, and positive");
  }
  return tensor.dims.size() == 4 || tensor.dims.size() == 5
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "tensors are played with 4 or 5 dims");
}

cudnnStatus_t checkConvolution(const Descriptor &descriptor) {
  const auto spatial = descriptor.value<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  for (const auto &[name, least] : {std::pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0), std::pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0),
                                    std::pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1), std::pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1)}) {
    const auto values = descriptor.list<int64_t>(name);
    if (int64_t(values.size()) != spatial || !isAtLeast(values, least)) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "paddings, strides or dilations are not one a spatial dim, or too small");
    }
  }
  if (spatial != 2 && spatial != 3) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "convolutions are played with 2 or 3 spatial dims");
  }
  return descriptor.value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_NOT_SUPPORTED, "the mode must be CUDNN_CROSS_CORRELATION");
}

cudnnStatus_t describeOperation(Descriptor &operation) {
  const auto &names = *std::find_if(std::begin(kNames), std::end(kNames), [&](const Names &names) { return names.kind == operation.kind; });
  const Descriptor &parameters = operation.part(names.parameters);
  const Convolution convolution{
      names.result,
      {tensorOf(operation.part(names.tensors[X])), tensorOf(operation.part(names.tensors[W])), tensorOf(operation.part(names.tensors[Y]))},
      parameters.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE),
      parameters.list<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
      parameters.list<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
      parameters.list<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
      parameters.list<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS),
      operation.value<float>(names.alpha),
      operation.value<float>(names.beta)};
  const Tensor(&tensors)[3] = convolution.tensors;
  if (tensors[X].id == tensors[W].id || tensors[X].id == tensors[Y].id || tensors[W].id == tensors[Y].id) {
    return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors of an operation have one unique id");
  }
  if (const char *reason = whyNotShapes(convolution)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, reason);
  }
  operation.convolution = std::make_shared<const Convolution>(convolution);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t checkSupport(const Convolution &convolution) {
  for (const Tensor &tensor : convolution.tensors) {
    if (tensor.type != convolution.tensors[X].type) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "x, w and y must be of one type");
    }
    if (!isChannelsLast(tensor)) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "the strides of a tensor are not those of channels last, dense");
    }
  }
  if (convolution.compute != CUDNN_DATA_FLOAT) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "the compute type must be CUDNN_DATA_FLOAT");
  }
  return convolution.before == convolution.after
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_NOT_SUPPORTED_PADDING, "the padding after a dim must be that before it");
}

} // namespace ashlar::emulator
