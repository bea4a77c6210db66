// SPDX-License-Identifier: Apache-2.0
//
// The executor of the cuda target. In a runtime that was built without the CUDA toolkit createCudaExecutor() fails.

#ifndef ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_EXECUTOR_H
#define ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_EXECUTOR_H

#include "runtime/execute/executor.h"

namespace ashlar::rt {

// Bytes of host memory that a device's arena in the window needs: tensors go through it to rank 0, the largest ones in parts.
uint64_t cudaHostBytes(const ashlar_rt_variant &variant);

// Opens this rank's device, connects it with the other ranks' devices, and lays out all programs.
Status createCudaExecutor(const ExecutorParts &parts, std::unique_ptr<Executor> &executor);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_EXECUTOR_H
