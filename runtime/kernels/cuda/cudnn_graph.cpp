// SPDX-License-Identifier: Apache-2.0
//
// Tensors count from 1 in the order in which they are added.

#include "runtime/kernels/cuda/cudnn_graph.h"

#include <iterator>

namespace ashlar::rt {

CudnnDescriptor &CudnnGraph::begin(std::deque<CudnnDescriptor> &list, cudnnBackendDescriptorType_t kind) {
  CudnnDescriptor &part = list.emplace_back(dnn);
  failure.update(part.create(kind));
  return part;
}

void CudnnGraph::close(CudnnDescriptor &part) {
  if (failure.ok()) {
    failure = dnn.check(part.finalize(), "cannot describe a graph of cuDNN");
  }
}

void CudnnGraph::set(CudnnDescriptor &operation, cudnnBackendAttributeName_t name, Tensor tensor) {
  failure.update(operation.set(name, tensors[static_cast<size_t>(tensor - 1)]));
}

CudnnGraph::Tensor CudnnGraph::add(cudnnDataType_t type, const Dims &dims, const Dims &strides, Place place) {
  CudnnDescriptor &tensor = begin(tensors, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto id = static_cast<Tensor>(tensors.size());
  failure.update(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id));
  failure.update(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type));
  failure.update(tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kOperandAlignment));
  failure.update(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector<int64_t>(dims.begin(), dims.end())));
  failure.update(tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>(strides.begin(), strides.end())));
  if (place != Place::Memory) {
    failure.update(
        tensor.set(place == Place::Inner ? CUDNN_ATTR_TENSOR_IS_VIRTUAL : CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true));
  }
  close(tensor);
  return id;
}

CudnnGraph::Tensor CudnnGraph::memory(cudnnDataType_t type, const Dims &dims, const Dims &strides) {
  return add(type, dims, strides, Place::Memory);
}

CudnnGraph::Tensor CudnnGraph::inner(cudnnDataType_t type, const Dims &dims, const Dims &strides) {
  return add(type, dims, strides, Place::Inner);
}

CudnnGraph::Tensor CudnnGraph::number(float value) {
  const Tensor tensor = add(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::Host);
  numbers.push_back({tensor, value});
  return tensor;
}

void CudnnGraph::multiply(Tensor a, Tensor b, Tensor out) {
  CudnnDescriptor &mode = begin(modes, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  failure.update(mode.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  close(mode);
  CudnnDescriptor &operation = begin(operations, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
  failure.update(operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, mode));
  close(operation);
}

void CudnnGraph::apply(cudnnPointwiseMode_t kind, const std::vector<Tensor> &operands, Tensor out, cudnnDataType_t type, int64_t axis) {
  CudnnDescriptor &mode = begin(modes, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  failure.update(mode.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, kind));
  failure.update(mode.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type));
  if (kind == CUDNN_POINTWISE_GEN_INDEX) {
    failure.update(mode.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis));
  }
  close(mode);
  constexpr cudnnBackendAttributeName_t kPlaces[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  CudnnDescriptor &operation = begin(operations, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  failure.update(operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode));
  for (size_t i = 0; i < operands.size() && i < std::size(kPlaces); ++i) {
    set(operation, kPlaces[i], operands[i]);
  }
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
  failure.update(operation.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1.0f));
  failure.update(operation.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1.0f));
  close(operation);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t kind, Tensor operand, Tensor out) {
  CudnnDescriptor &mode = begin(modes, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  failure.update(mode.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT));
  failure.update(mode.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, kind));
  failure.update(mode.set(CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, false)); // the engines' notes tell
  close(mode);
  CudnnDescriptor &operation = begin(operations, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  failure.update(operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, mode));
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, operand);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
  close(operation);
}

void CudnnGraph::view(Tensor operand, Tensor out) {
  CudnnDescriptor &operation = begin(operations, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, operand);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out);
  close(operation);
}

Status CudnnGraph::finish(cudnnHandle_t handle) {
  ASHLAR_RETURN_IF_ERROR(failure);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const CudnnDescriptor &operation : operations) {
    handles.push_back(operation.get());
  }
  ASHLAR_RETURN_IF_ERROR(graph.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  ASHLAR_RETURN_IF_ERROR(graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle));
  ASHLAR_RETURN_IF_ERROR(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles));
  return dnn.check(graph.finalize(), "cannot describe a graph of cuDNN");
}

void CudnnGraph::appendNumbers(std::vector<int64_t> &ids, std::vector<void *> &addresses) {
  for (Number &each : numbers) {
    ids.push_back(each.tensor);
    addresses.push_back(&each.value);
  }
}

} // namespace ashlar::rt
