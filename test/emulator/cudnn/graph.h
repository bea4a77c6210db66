// SPDX-License-Identifier: Apache-2.0
//
// A graph of several operations of cuDNN: products, element-wise operations, reductions and views of tensors with four dims.

#ifndef ASHLAR_TEST_EMULATOR_CUDNN_GRAPH_H
#define ASHLAR_TEST_EMULATOR_CUDNN_GRAPH_H

#include "test/emulator/cudnn/descriptor.h"
#include "test/emulator/driver/device.h"

#include <map>

namespace ashlar::emulator {

enum class Place { Memory, Inner, Host }; // of the device; nowhere; a number that the caller holds

struct GraphTensor {
  int64_t id, alignment;
  cudnnDataType_t type;
  std::vector<int64_t> dims, strides;
  Place place;

  size_t elements() const;
  size_t bytes() const; // in memory, up to the last element
};

struct GraphOperation {
  enum Kind { Multiply, Apply, Reduce, View } kind;
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;      // of Apply
  cudnnReduceTensorOp_t reduction = CUDNN_REDUCE_TENSOR_ADD; // of Reduce
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;                // of all but View
  int64_t axis = -1;                                         // of an Apply that counts
  std::vector<GraphTensor> operands;
  GraphTensor result;
};

struct OperationGraph {
  std::vector<GraphOperation> operations;

  // Returns the tensors of a place, each once, in the order in which operations name them.
  std::vector<GraphTensor> tensorsAt(Place place) const;
  bool isResult(int64_t id) const;
};

// Returns what cuDNN calls a type elsewhere; CUDA_R_64F for what is in no memory here.
cudaDataType elementType(cudnnDataType_t type);

// Whether a descriptor is one of these operations.
bool isGraphOperation(const Descriptor &descriptor);

// The reason to refuse such an operation when it is finalized. Assumes that nothing is missing.
cudnnStatus_t checkGraphOperation(const Descriptor &operation);

// Puts the operations of a graph together. Refuses a tensor that is read before it is computed, or computed twice.
cudnnStatus_t describeGraph(const std::vector<DescriptorPtr> &operations, OperationGraph &graph);

// Refuses graphs that no engine takes: all but attention and its gradients, as cuDNN's front end lays them out, in 16 bits, of widths that
// are multiples of 8 up to 128.
cudnnStatus_t checkSupport(const OperationGraph &graph);

// Whether it is that of gradients.
bool hasGradients(const OperationGraph &graph);

// Computes all operations in their order, in f32, and rounds each result to its type. Unordered: products are added up from another term on
// each time. `numbers` by the id of the tensor. Throws Fault when a tensor is not in device memory.
void evaluate(const OperationGraph &graph, Algorithm algorithm, const std::map<int64_t, CUdeviceptr> &addresses,
              const std::map<int64_t, float> &numbers);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_CUDNN_GRAPH_H
