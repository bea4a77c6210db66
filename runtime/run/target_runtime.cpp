// SPDX-License-Identifier: Apache-2.0
//
// The row of the cpu target.

#include "runtime/run/target_runtime.h"

#include "runtime/base/host.h"
#include "runtime/execute/cpu/cpu_executor.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// Returns the threads of this rank, and sees to it that they have cores to run on: mpirun binds every rank to one core unless told
// otherwise, which suits one thread but not several.
Cores coresFor(const Options &options, const Job &job) {
  CoreSet bound = currentCores();
  allowAllCores();
  int granted = usableCores();
  int threads = options.threads > 0 ? options.threads : std::max(1, granted / job.ranksOnHost());
  bool mayLeave = isBoundByMpirun();
  if (threads <= bound.count() || !mayLeave) {
    bound.apply();
    threads = options.threads > 0 ? threads : std::min(threads, bound.count());
  }
  // Without mpirun's binding, cores that this process may not use were taken from all ranks alike, by taskset for instance.
  return {threads, mayLeave ? granted : bound.count(), /*ofData=*/1};
}

uint64_t arenaBytes(const ashlar_rt_variant &variant) {
  return variant.arena_bytes;
}

Status createCpuExecutor(const ExecutorParts &parts, std::unique_ptr<Executor> &executor) {
  auto cpu = std::make_unique<CpuExecutor>();
  Status status = cpu->create(parts.image, parts.variant, parts.communicator, parts.pool, parts.options);
  executor = std::move(cpu);
  return parts.communicator.agree(status);
}

constexpr TargetRuntime kCpu = {"cpu", /*hasThreads=*/true, /*hasGraphs=*/false, arenaBytes, coresFor, createCpuExecutor};

} // namespace

const TargetRuntime *findTargetRuntime(const ashlar_rt_image &image) {
  for (const TargetRuntime *target : {&kCpu, &ASHLAR_RT_COMPONENT(cuda)}) {
    if (target != nullptr && std::strcmp(target->name, image.target) == 0) {
      return target;
    }
  }
  return nullptr;
}

} // namespace ashlar::rt
