// SPDX-License-Identifier: Apache-2.0
//
// The executor of the cuda target. A runtime that was built without the CUDA toolkit has none: createCudaExecutor() then says so.

#ifndef ASHLAR_RUNTIME_LAUNCH_CUDA_EXECUTOR_H
#define ASHLAR_RUNTIME_LAUNCH_CUDA_EXECUTOR_H

#include "runtime/launch/executor.h"

namespace ashlar::rt {

// Bytes of host memory that a device's arena in the window needs: tensors go through it to rank 0, the largest ones in parts.
uint64_t cudaHostBytes(const ashlar_rt_variant &variant);

// Opens this rank's device, connects it with those of the other ranks, and lays out all programs. All ranks call it. `fail` is called by
// another thread when this one is stuck in a library while the job cannot go on; it prints and ends the other ranks. All
// arguments outlive the executor.
Status createCudaExecutor(const ashlar_rt_image &image, const ashlar_rt_variant &variant, Communicator &communicator,
                          const ExecutorOptions &options, std::function<void(const Status &)> fail, std::unique_ptr<Executor> &executor);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_CUDA_EXECUTOR_H
