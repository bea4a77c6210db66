// SPDX-License-Identifier: Apache-2.0
//
// In place of the cuda executor, where the runtime is built without the CUDA toolkit.

#include "runtime/launch/cuda_executor.h"

namespace ashlar::rt {

uint64_t cudaHostBytes(const ashlar_rt_variant &) {
  return 0;
}

Status createCudaExecutor(const ashlar_rt_image &image, const ashlar_rt_variant &, Communicator &communicator, const ExecutorOptions &,
                          std::function<void(const Status &)>, std::unique_ptr<Executor> &) {
  return communicator.agree(unavailable("{} was compiled for cuda but linked with a runtime built without the CUDA toolkit; build Ashlar "
                                        "where the toolkit is found, and compile it again",
                                        image.model_name));
}

} // namespace ashlar::rt
