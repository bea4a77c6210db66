// SPDX-License-Identifier: Apache-2.0
//
// In place of the cuda executor, where the runtime is built without the CUDA toolkit.

#include "runtime/execute/cuda/cuda_executor.h"

namespace ashlar::rt {

uint64_t cudaHostBytes(const ashlar_rt_variant &) {
  return 0;
}

Status createCudaExecutor(const ExecutorParts &parts, std::unique_ptr<Executor> &) {
  return parts.communicator.agree(
      unavailable("{} was compiled for cuda but linked with a runtime built without the CUDA toolkit; build Ashlar "
                  "where the toolkit is found, and compile it again",
                  parts.image.model_name));
}

} // namespace ashlar::rt
