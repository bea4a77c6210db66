// SPDX-License-Identifier: Apache-2.0
//
// The differences between targets before the executor: one row a target. Nothing else depends on the target.

#ifndef ASHLAR_RUNTIME_RUN_TARGET_RUNTIME_H
#define ASHLAR_RUNTIME_RUN_TARGET_RUNTIME_H

#include "runtime/abi/components.h"
#include "runtime/comm/launch/job.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/execute/executor.h"
#include "runtime/run/options.h"

namespace ashlar::rt {

// The cores of a rank.
struct Cores {
  int threads; // of this rank
  int onHost;  // cores that the ranks of the host share
  int ofData;  // threads that prepare batches, by default
};

struct TargetRuntime {
  const char *name; // as images have it
  bool hasThreads;  // that the user may count (--threads)
  bool hasGraphs;   // of captured programs, which the user may turn off (--no-graph)

  // Returns the bytes of host memory that the window holds for each device.
  uint64_t (*hostBytes)(const ashlar_rt_variant &variant);

  // Returns the threads of this rank, and sees to it that they have cores to run on. To be called once all ranks are connected.
  Cores (*cores)(const Options &options, const Job &job);

  // Opens this rank's devices and lays out all programs. All ranks call it.
  Status (*createExecutor)(const ExecutorParts &parts, std::unique_ptr<Executor> &executor);
};

// The row of the cuda target: a component, which is there where the program needs it.
extern "C" [[gnu::weak]] const TargetRuntime ASHLAR_RT_COMPONENT(cuda);

// Returns the row of the image's target; null when this runtime does not know it.
const TargetRuntime *findTargetRuntime(const ashlar_rt_image &image);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_TARGET_RUNTIME_H
