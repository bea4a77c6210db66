// SPDX-License-Identifier: Apache-2.0
//
// A graph of cuDNN operations on tensors of four dims, put together one operation after the other. The first failure is kept until
// finish().

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_GRAPH_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_GRAPH_H

#include "runtime/kernels/cuda/cudnn_descriptor.h"

#include <array>
#include <deque>
#include <vector>

namespace ashlar::rt {

class CudnnGraph {
public:
  using Dims = std::array<int64_t, 4>;
  using Tensor = int64_t; // its number in the graph, and in the addresses of a run

  explicit CudnnGraph(const CudnnLibrary &dnn) : dnn(dnn), graph(dnn) {}
  CudnnGraph(const CudnnGraph &) = delete;

  // Adds a tensor in memory of the device; one that is in no memory; a number, which is read from the host at each run.
  Tensor memory(cudnnDataType_t type, const Dims &dims, const Dims &strides);
  Tensor inner(cudnnDataType_t type, const Dims &dims, const Dims &strides);
  Tensor number(float value);

  // Adds out = a b, in f32. In 16 bits an inner operand is rounded to its type.
  void multiply(Tensor a, Tensor b, Tensor out);
  // Adds an element-wise operation of one to three operands, computed in `type`. Operands repeat along dims of 1. `axis`: of GEN_INDEX.
  void apply(cudnnPointwiseMode_t mode, const std::vector<Tensor> &operands, Tensor out, cudnnDataType_t type = CUDNN_DATA_FLOAT,
             int64_t axis = -1);
  // Adds a reduction, in f32, along the dims of which `out` has 1.
  void reduce(cudnnReduceTensorOp_t mode, Tensor operand, Tensor out);
  // Adds another view of the elements of an operand: that of the dims and strides of `out`.
  void view(Tensor operand, Tensor out);

  // Finalizes the graph.
  Status finish(cudnnHandle_t handle);
  const CudnnDescriptor &descriptor() const { return graph; }

  // Appends each number of the graph and its address, which stays.
  void appendNumbers(std::vector<int64_t> &ids, std::vector<void *> &addresses);

private:
  struct Number {
    Tensor tensor;
    float value;
  };

  enum class Place { Memory, Inner, Host };

  Tensor add(cudnnDataType_t type, const Dims &dims, const Dims &strides, Place place);
  CudnnDescriptor &begin(std::deque<CudnnDescriptor> &list, cudnnBackendDescriptorType_t kind);
  void close(CudnnDescriptor &part);
  void set(CudnnDescriptor &operation, cudnnBackendAttributeName_t name, Tensor tensor);

  const CudnnLibrary &dnn;
  Status failure;
  std::deque<CudnnDescriptor> tensors, modes, operations;
  std::deque<Number> numbers;
  CudnnDescriptor graph;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CUDNN_GRAPH_H
