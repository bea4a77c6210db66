// SPDX-License-Identifier: Apache-2.0
//
// One distinct attention, or the gradients of one, as a graph of cuDNN's operations, and its chosen engine.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_ATTENTION_PLAN_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_ATTENTION_PLAN_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cuda/cudnn_engines.h"
#include "runtime/kernels/cuda/cudnn_graph.h"

#include <cuda.h>

#include <string>
#include <vector>

namespace ashlar::rt {

class AttentionPlan {
public:
  AttentionPlan(const CudnnLibrary &dnn, const ashlar_rt_attention_desc &desc)
      : dnn(dnn), desc(desc), graph(dnn), trials(dnn, graph.descriptor(), kMatmulWorkspaceBytes, EngineOperands::RoundedInside) {}
  AttentionPlan(const AttentionPlan &) = delete;
  AttentionPlan &operator=(const AttentionPlan &) = delete;

  // Whether this is the plan of such an attention.
  bool isOf(const ashlar_rt_attention_desc &other) const;

  // Describes everything but the engine. Fails for types, widths and masks that the compiler expands on this target; `name` is for the
  // error.
  Status layOut(cudnnHandle_t owner, const char *name);

  // As those of CudnnEngines. Gradients take an engine that adds d_q in another order each time where the library has no other one.
  Status choose(uint32_t relaxations, uint64_t mostBytes, const char *name);
  Status planAll() { return trials.planAll(); }
  const std::vector<EngineTrial> &engines() const { return trials.all(); }
  const EngineTrial *chosen() const { return trials.chosen(); }

  // Lists the tensors of a run and their addresses: `buffers` in the order of the descriptor, and the sums of gradients, which lie in front
  // of the engine's part of the workspace.
  void list(const std::vector<CUdeviceptr> &buffers, CUdeviceptr workspace, std::vector<int64_t> &ids, std::vector<void *> &addresses);

  // How many buffers there are.
  size_t operands() const { return tensors.size(); }

  // Where the engine's part of the workspace begins.
  uint64_t engineOffset() const { return deviceAttentionMemory(desc).engine; }

private:
  // Tensors that both graphs begin with.
  struct Scores {
    CudnnGraph::Tensor query, key, scale, scores, mask; // mask: 0 for none
  };

  CudnnGraph::Dims strides(ashlar_rt_attention_tensor tensor, int64_t rows, int64_t columns) const;
  CudnnGraph::Tensor operand(ashlar_rt_attention_tensor tensor, int64_t rows, int64_t columns);
  CudnnGraph::Tensor transposed(ashlar_rt_attention_tensor tensor, int64_t rows, int64_t columns);
  CudnnGraph::Tensor dense(int64_t rows, int64_t columns);
  CudnnGraph::Tensor inner(cudnnDataType_t type, int64_t rows, int64_t columns);
  CudnnGraph::Tensor scoreLike(cudnnDataType_t type = CUDNN_DATA_FLOAT);
  CudnnGraph::Tensor rowLike();
  CudnnGraph::Tensor maskTensor();
  CudnnGraph::Tensor hideKeys(CudnnGraph::Tensor scores);
  Scores addScores();
  void setTensors(const Scores &first, CudnnGraph::Tensor value, const std::vector<CudnnGraph::Tensor> &others);
  void addForward();
  void addBackward();

  const CudnnLibrary &dnn;
  ashlar_rt_attention_desc desc;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  cudnnHandle_t handle = nullptr;
  CudnnGraph graph;
  CudnnEngines trials;
  std::vector<CudnnGraph::Tensor> tensors;  // in the order of the buffers
  CudnnGraph::Tensor means = 0, dqSums = 0; // of gradients, in the workspace
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_ATTENTION_PLAN_H
