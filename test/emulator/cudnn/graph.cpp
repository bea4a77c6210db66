// SPDX-License-Identifier: Apache-2.0
//
// From descriptors to a graph, and what is refused on the way.

#include "test/emulator/cudnn/graph.h"

#include "test/emulator/driver/elements.h"

#include <algorithm>
#include <set>

namespace ashlar::emulator {
namespace {

GraphTensor tensorOf(const Descriptor &descriptor) {
  const bool isInner = descriptor.isSet(CUDNN_ATTR_TENSOR_IS_VIRTUAL), isNumber = descriptor.isSet(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return {descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          descriptor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          descriptor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          descriptor.list<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
          descriptor.list<int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          isInner    ? Place::Inner
          : isNumber ? Place::Host
                     : Place::Memory};
}

// How many operands an element-wise operation has; 0 for one that is not played.
size_t operandsOf(cudnnPointwiseMode_t mode) {
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
  case CUDNN_POINTWISE_LOG:
  case CUDNN_POINTWISE_IDENTITY:
  case CUDNN_POINTWISE_GEN_INDEX:
    return 1;
  case CUDNN_POINTWISE_ADD:
  case CUDNN_POINTWISE_SUB:
  case CUDNN_POINTWISE_MUL:
  case CUDNN_POINTWISE_DIV:
  case CUDNN_POINTWISE_CMP_GE:
    return 2;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return 3;
  default:
    return 0;
  }
}

GraphOperation operationOf(const Descriptor &descriptor) {
  GraphOperation operation;
  auto take = [&](std::initializer_list<cudnnBackendAttributeName_t> operands, cudnnBackendAttributeName_t result) {
    for (const cudnnBackendAttributeName_t name : operands) {
      if (descriptor.attributes.count(name) != 0) {
        operation.operands.push_back(tensorOf(descriptor.part(name)));
      }
    }
    operation.result = tensorOf(descriptor.part(result));
  };
  switch (descriptor.kind) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
    operation.kind = GraphOperation::Multiply;
    operation.compute = descriptor.part(CUDNN_ATTR_OPERATION_MATMUL_DESC).value<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE);
    take({CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC}, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    break;
  }
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
    const Descriptor &mode = descriptor.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    operation.kind = GraphOperation::Apply;
    operation.mode = mode.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    operation.compute = mode.value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
    const auto axis = mode.list<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    operation.axis = axis.empty() ? -1 : axis[0];
    take({CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
         CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    break;
  }
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
    const Descriptor &mode = descriptor.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    operation.kind = GraphOperation::Reduce;
    operation.reduction = mode.value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    operation.compute = mode.value<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE);
    take({CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    break;
  }
  default:
    operation.kind = GraphOperation::View;
    take({CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  }
  return operation;
}

bool repeatsTo(const std::vector<int64_t> &from, const std::vector<int64_t> &to) {
  for (size_t d = 0; d < to.size(); ++d) {
    if (from[d] != 1 && from[d] != to[d]) {
      return false;
    }
  }
  return true;
}

// Returns why the shapes of an operation do not go together, or null.
const char *whyNotShapes(const GraphOperation &operation) {
  const std::vector<int64_t> &result = operation.result.dims;
  for (const GraphTensor &operand : operation.operands) {
    if (operand.dims.size() != result.size()) {
      return "operands and result have other numbers of dims";
    }
  }
  const std::vector<int64_t> &first = operation.operands[0].dims;
  switch (operation.kind) {
  case GraphOperation::Multiply: {
    const std::vector<int64_t> &second = operation.operands[1].dims;
    const size_t rank = result.size();
    const bool fits = std::equal(first.begin(), first.end() - 1, result.begin()) &&
                      std::equal(second.begin(), second.end() - 2, result.begin()) && first[rank - 1] == second[rank - 2] &&
                      second[rank - 1] == result[rank - 1];
    return fits ? nullptr : "the dims of a product do not go together";
  }
  case GraphOperation::Apply:
    return std::all_of(operation.operands.begin(), operation.operands.end(),
                       [&](const GraphTensor &operand) { return repeatsTo(operand.dims, result); })
               ? nullptr
               : "an operand does not repeat to the result";
  case GraphOperation::Reduce:
    return repeatsTo(result, first) ? nullptr : "a reduction has dims that are neither whole nor 1";
  case GraphOperation::View:
    return operation.operands[0].elements() == operation.result.elements() ? nullptr : "a view has another number of elements";
  }
  return nullptr;
}

} // namespace

cudaDataType elementType(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT      ? CUDA_R_32F
         : type == CUDNN_DATA_HALF     ? CUDA_R_16F
         : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                       : CUDA_R_64F;
}

size_t GraphTensor::elements() const {
  size_t count = 1;
  for (const int64_t dim : dims) {
    count *= size_t(dim);
  }
  return count;
}

size_t GraphTensor::bytes() const {
  size_t last = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    last += size_t((dims[d] - 1) * strides[d]);
  }
  return (last + 1) * elementBytes(elementType(type));
}

std::vector<GraphTensor> OperationGraph::tensorsAt(Place place) const {
  std::vector<GraphTensor> found;
  auto add = [&](const GraphTensor &tensor) {
    if (tensor.place == place &&
        std::none_of(found.begin(), found.end(), [&](const GraphTensor &other) { return other.id == tensor.id; })) {
      found.push_back(tensor);
    }
  };
  for (const GraphOperation &operation : operations) {
    std::for_each(operation.operands.begin(), operation.operands.end(), add);
    add(operation.result);
  }
  return found;
}

bool OperationGraph::isResult(int64_t id) const {
  return std::any_of(operations.begin(), operations.end(), [&](const GraphOperation &operation) { return operation.result.id == id; });
}

bool isGraphOperation(const Descriptor &descriptor) {
  return descriptor.kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR || descriptor.kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
         descriptor.kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || descriptor.kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

cudnnStatus_t checkGraphOperation(const Descriptor &descriptor) {
  const GraphOperation operation = operationOf(descriptor);
  if (operation.kind == GraphOperation::Apply) {
    if (operandsOf(operation.mode) == 0) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "element-wise operations of mode " + std::to_string(operation.mode) + " are not played");
    }
    if (operation.operands.size() != operandsOf(operation.mode)) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "an element-wise operation has another number of operands");
    }
    const bool counts = operation.mode == CUDNN_POINTWISE_GEN_INDEX;
    if (counts != (operation.axis >= 0) || operation.axis >= int64_t(operation.result.dims.size())) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "an operation counts along no dim, or has an axis and does not count");
    }
  }
  if (operation.kind == GraphOperation::Reduce && operation.reduction != CUDNN_REDUCE_TENSOR_ADD &&
      operation.reduction != CUDNN_REDUCE_TENSOR_MAX) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "reductions are played to a sum or a maximum");
  }
  if (const char *reason = whyNotShapes(operation)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, reason);
  }
  return operation.result.place == Place::Host ? refuse(CUDNN_STATUS_BAD_PARAM, "a result is a number that the caller holds")
                                               : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t describeGraph(const std::vector<DescriptorPtr> &operations, OperationGraph &graph) {
  std::set<int64_t> computed;
  for (const DescriptorPtr &descriptor : operations) {
    if (!isGraphOperation(*descriptor)) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a graph of several operations has a convolution");
    }
    graph.operations.push_back(operationOf(*descriptor));
    const GraphOperation &operation = graph.operations.back();
    for (const GraphTensor &operand : operation.operands) {
      if (operand.place == Place::Inner && computed.count(operand.id) == 0) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "an inner tensor is read before it is computed");
      }
    }
    if (!computed.insert(operation.result.id).second) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor is computed twice");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

} // namespace ashlar::emulator
