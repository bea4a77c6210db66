// SPDX-License-Identifier: Apache-2.0
//
// The component of the cuda target: its row.

#include "runtime/base/host.h"
#include "runtime/execute/cuda/cuda_executor.h"
#include "runtime/run/target_runtime.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

// Busy threads of a rank on a GPU, one of which prepares batches; and of these the most: memory is what more of them would wait for.
constexpr int kThreadsBesideGpu = 4;
constexpr int kMostDataThreads = 8;

// What a rank on a GPU computes with: the GPU and one thread. Beside it are those that prepare batches, watch the other ranks and move data
// for NCCL, while it polls: bound to one core by mpirun, they would take turns.
Cores coresBesideGpu(const Options &, const Job &job) {
  int granted = grantedCores();
  if (usableCores() < kThreadsBesideGpu && isBoundByMpirun()) {
    allowAllCores();
  }
  const int share = usableCores() / job.ranksOnHost() - kThreadsBesideGpu + 1;
  return {1, granted, std::clamp(share, 1, kMostDataThreads)};
}

} // namespace

const TargetRuntime ASHLAR_RT_COMPONENT(cuda) = {"cuda",        /*hasThreads=*/false, /*hasGraphs=*/true,
                                                 cudaHostBytes, coresBesideGpu,       createCudaExecutor};

} // namespace ashlar::rt
