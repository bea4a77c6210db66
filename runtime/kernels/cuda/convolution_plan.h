// SPDX-License-Identifier: Apache-2.0
//
// One distinct convolution in cuDNN's graph API, and its chosen engine.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_PLAN_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_PLAN_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cuda/cudnn_engines.h"

#include <vector>

namespace ashlar::rt {

// The numbers by which a graph and the addresses of a run name the tensors.
enum ConvolutionTensor : int64_t { kX = 1, kWeights = 2, kY = 3 };

// Returns the tensors of a convolution in the order of its buffers.
const ConvolutionTensor (&tensorsOf(const ashlar_rt_conv_desc &desc))[3];

// Returns the number of elements of one of them.
int64_t elementsOf(const ashlar_rt_conv_desc &desc, ConvolutionTensor tensor);

// A convolution as a graph of one operation, and its engines.
class ConvolutionPlan {
public:
  ConvolutionPlan(const CudnnLibrary &dnn, const ashlar_rt_conv_desc &desc, uint32_t dtype)
      : dnn(dnn), desc(desc), dtype(dtype), tensors{CudnnDescriptor(dnn), CudnnDescriptor(dnn), CudnnDescriptor(dnn)}, convolution(dnn),
        operation(dnn), graph(dnn),
        trials(dnn, graph, kConvolutionWorkspaceBytes,
               dtype == ASHLAR_RT_F32 && desc.allow_tf32 == 0 ? EngineOperands::ExactF32 : EngineOperands::AsTheyAre) {}
  ConvolutionPlan(const ConvolutionPlan &) = delete;
  ConvolutionPlan &operator=(const ConvolutionPlan &) = delete;

  // Whether this is the plan of such a convolution.
  bool isOf(const ashlar_rt_conv_desc &other, uint32_t otherDtype) const;

  // Describes everything but the engine. Fails for a type that the library does not have; `name` is for the error.
  Status layOut(cudnnHandle_t owner, const char *name);

  // As those of CudnnEngines.
  Status choose(uint32_t relaxations, uint64_t mostBytes, const char *name);
  Status planAll() { return trials.planAll(); }
  const std::vector<EngineTrial> &engines() const { return trials.all(); }
  const EngineTrial *chosen() const { return trials.chosen(); }

private:
  const CudnnLibrary &dnn;
  cudnnHandle_t handle = nullptr;
  ashlar_rt_conv_desc desc;
  uint32_t dtype;
  CudnnDescriptor tensors[3];
  CudnnDescriptor convolution, operation, graph;
  CudnnEngines trials;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_CONVOLUTION_PLAN_H
