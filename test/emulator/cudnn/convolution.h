// SPDX-License-Identifier: Apache-2.0
//
// A convolution or one of its gradients, as an operation of cuDNN describes it. Tensors are (n, c, [d,] h, w), channels last in memory.

#ifndef ASHLAR_TEST_EMULATOR_CUDNN_CONVOLUTION_H
#define ASHLAR_TEST_EMULATOR_CUDNN_CONVOLUTION_H

#include "test/emulator/cudnn/descriptor.h"
#include "test/emulator/driver/device.h"

namespace ashlar::emulator {

struct Tensor {
  int64_t id, alignment;
  cudaDataType type;
  std::vector<int64_t> dims, strides;

  size_t bytes() const; // dense
};

enum Role { X, W, Y }; // a gradient has its tensor's

struct Convolution {
  Role result;       // y, or the gradient of x or w
  Tensor tensors[3]; // by role
  cudnnDataType_t compute;
  std::vector<int64_t> before, after, strides, dilations; // one a spatial dim
  float alpha, beta;
};

// The reasons to refuse TENSOR, CONVOLUTION and operation descriptors when they are finalized. Assume that nothing is missing.
cudnnStatus_t checkTensor(const Descriptor &descriptor);
cudnnStatus_t checkConvolution(const Descriptor &descriptor);
// Gives the operation its convolution.
cudnnStatus_t describeOperation(Descriptor &operation);

// Refuses convolutions that no engine is sure to take.
cudnnStatus_t checkSupport(const Convolution &convolution);

// Sets the result to alpha * sum + beta * result. Each sum is one chain of fused multiply-adds in f32, the last dim fastest: over the
// filter and its channels for y, over the filter and the channels of dy for dx, over batch and places of dy for dw. Addresses are by role.
// Throws Fault when a tensor is not in device memory.
void convolve(const Convolution &convolution, Algorithm algorithm, const CUdeviceptr (&addresses)[3]);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_CUDNN_CONVOLUTION_H
