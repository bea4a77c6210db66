// SPDX-License-Identifier: Apache-2.0
//
// Plain loops over graphs. All tensors are there as f32, dense, the last dim fastest, rounded to their types; bools and integers are
// numbers.

#include "test/emulator/cudnn/graph.h"

#include "test/emulator/driver/elements.h"

#include <cmath>
#include <limits>

namespace ashlar::emulator {
namespace {

using Values = std::vector<float>;

// Calls f with each index of a shape, and its place among them.
template <class F> void forEachIndex(const std::vector<int64_t> &dims, F f) {
  std::vector<int64_t> index(dims.size(), 0);
  size_t count = 1;
  for (const int64_t dim : dims) {
    count *= size_t(dim);
  }
  for (size_t at = 0; at < count; ++at) {
    f(index, at);
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) {
      index[d] = 0;
    }
  }
}

size_t offsetOf(const std::vector<int64_t> &index, const std::vector<int64_t> &strides) {
  size_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    offset += size_t(index[d] * strides[d]);
  }
  return offset;
}

// The place of an index in a tensor that repeats along dims of 1.
size_t placeIn(const GraphTensor &tensor, const std::vector<int64_t> &index) {
  size_t place = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    place = place * size_t(tensor.dims[d]) + size_t(tensor.dims[d] == 1 ? 0 : index[d]);
  }
  return place;
}

float rounded(float value, cudnnDataType_t type) {
  const cudaDataType element = elementType(type);
  if (element == CUDA_R_64F || element == CUDA_R_32F) {
    return value;
  }
  std::byte bytes[sizeof(float)];
  storeElement(bytes, element, value);
  return loadElement(bytes, element);
}

class Run {
public:
  Run(Algorithm algorithm, const std::map<int64_t, CUdeviceptr> &addresses, const std::map<int64_t, float> &numbers)
      : algorithm(algorithm), addresses(addresses), numbers(numbers) {}

  void compute(const GraphOperation &operation) {
    std::vector<const Values *> operands;
    for (const GraphTensor &operand : operation.operands) {
      operands.push_back(&read(operand));
    }
    Values result(operation.result.elements());
    switch (operation.kind) {
    case GraphOperation::Multiply:
      multiply(operation, operands, result);
      break;
    case GraphOperation::Apply:
      apply(operation, operands, result);
      break;
    case GraphOperation::Reduce:
      reduce(operation, operands, result);
      break;
    case GraphOperation::View:
      view(operation, operands, result);
      break;
    }
    for (float &value : result) {
      value = rounded(value, operation.result.type);
    }
    if (operation.result.place == Place::Memory) {
      write(operation.result, result);
    }
    known[operation.result.id] = std::move(result);
  }

private:
  std::byte *dataOf(const GraphTensor &tensor) const {
    return Driver::get().mustResolve(addresses.at(tensor.id), tensor.bytes(), "a tensor of a graph is not in device memory");
  }

  const Values &read(const GraphTensor &tensor) {
    const auto [found, isNew] = known.try_emplace(tensor.id);
    Values &values = found->second;
    if (isNew && tensor.place == Place::Host) {
      values = {numbers.at(tensor.id)};
    } else if (isNew) {
      const std::byte *data = dataOf(tensor);
      const cudaDataType type = elementType(tensor.type);
      values.resize(tensor.elements());
      forEachIndex(tensor.dims, [&](const std::vector<int64_t> &index, size_t at) {
        values[at] = loadElement(data + offsetOf(index, tensor.strides) * elementBytes(type), type);
      });
    }
    return values;
  }

  void write(const GraphTensor &tensor, const Values &values) const {
    std::byte *data = dataOf(tensor);
    const cudaDataType type = elementType(tensor.type);
    forEachIndex(tensor.dims, [&](const std::vector<int64_t> &index, size_t at) {
      storeElement(data + offsetOf(index, tensor.strides) * elementBytes(type), type, values[at]);
    });
  }

  void multiply(const GraphOperation &operation, const std::vector<const Values *> &operands, Values &result) const {
    const std::vector<int64_t> &dims = operation.operands[0].dims;
    const auto terms = size_t(dims.back()), rows = size_t(dims[dims.size() - 2]), columns = size_t(operation.result.dims.back());
    const size_t first = algorithm == Algorithm::Unordered ? size_t(Engine::get().draw() % terms) : 0;
    for (size_t row = 0; row < result.size() / columns; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        float sum = 0;
        for (size_t i = 0; i < terms; ++i) {
          const size_t term = (first + i) % terms;
          sum = std::fma((*operands[0])[row * terms + term], (*operands[1])[(row / rows * terms + term) * columns + column], sum);
        }
        result[row * columns + column] = sum;
      }
    }
  }

  static void apply(const GraphOperation &operation, const std::vector<const Values *> &operands, Values &result) {
    forEachIndex(operation.result.dims, [&](const std::vector<int64_t> &index, size_t at) {
      float values[3] = {};
      for (size_t i = 0; i < operands.size(); ++i) {
        values[i] = (*operands[i])[placeIn(operation.operands[i], index)];
      }
      result[at] = operation.mode == CUDNN_POINTWISE_GEN_INDEX ? float(index[size_t(operation.axis)]) : applied(operation.mode, values);
    });
  }

  static float applied(cudnnPointwiseMode_t mode, const float (&values)[3]) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return values[0] + values[1];
    case CUDNN_POINTWISE_SUB:
      return values[0] - values[1];
    case CUDNN_POINTWISE_MUL:
      return values[0] * values[1];
    case CUDNN_POINTWISE_DIV:
      return values[0] / values[1];
    case CUDNN_POINTWISE_EXP:
      return std::exp(values[0]);
    case CUDNN_POINTWISE_LOG:
      return std::log(values[0]);
    case CUDNN_POINTWISE_CMP_GE:
      return values[0] >= values[1] ? 1.0f : 0.0f;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return values[2] != 0 ? values[0] : values[1];
    default:
      return values[0];
    }
  }

  static void reduce(const GraphOperation &operation, const std::vector<const Values *> &operands, Values &result) {
    const bool isMaximum = operation.reduction == CUDNN_REDUCE_TENSOR_MAX;
    result.assign(result.size(), isMaximum ? -std::numeric_limits<float>::infinity() : 0.0f);
    forEachIndex(operation.operands[0].dims, [&](const std::vector<int64_t> &index, size_t at) {
      float &reduced = result[placeIn(operation.result, index)];
      const float value = (*operands[0])[at];
      reduced = isMaximum ? std::fmax(reduced, value) : reduced + value;
    });
  }

  // The elements where the operand's strides put them, read by those of the result.
  static void view(const GraphOperation &operation, const std::vector<const Values *> &operands, Values &result) {
    Values memory(result.size());
    forEachIndex(operation.operands[0].dims, [&](const std::vector<int64_t> &index, size_t at) {
      memory.at(offsetOf(index, operation.operands[0].strides)) = (*operands[0])[at];
    });
    forEachIndex(operation.result.dims,
                 [&](const std::vector<int64_t> &index, size_t at) { result[at] = memory.at(offsetOf(index, operation.result.strides)); });
  }

  Algorithm algorithm;
  const std::map<int64_t, CUdeviceptr> &addresses;
  const std::map<int64_t, float> &numbers;
  std::map<int64_t, Values> known;
};

} // namespace

void evaluate(const OperationGraph &graph, Algorithm algorithm, const std::map<int64_t, CUdeviceptr> &addresses,
              const std::map<int64_t, float> &numbers) {
  Run run(algorithm, addresses, numbers);
  for (const GraphOperation &operation : graph.operations) {
    run.compute(operation);
  }
}

} // namespace ashlar::emulator
