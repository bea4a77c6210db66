// SPDX-License-Identifier: Apache-2.0
//
// The executor of the cpu target.

#ifndef ASHLAR_RUNTIME_LAUNCH_CPU_EXECUTOR_H
#define ASHLAR_RUNTIME_LAUNCH_CPU_EXECUTOR_H

#include "runtime/device/cpu/thread_pool.h"
#include "runtime/launch/executor.h"

namespace ashlar::rt {

class CpuProgram;

// Runs programs on the threads of a pool; the devices' arenas are those of the communicator. Everything is done when a call returns.
class CpuExecutor final : public Executor {
public:
  // Resolves all programs and writes the mesh coordinates into the arenas. All arguments outlive the executor.
  Status create(const ashlar_rt_image &image, const ashlar_rt_variant &variant, Communicator &communicator, ThreadPool &pool,
                const ExecutorOptions &options);

  // Address of a tensor on this process' device number `device`.
  char *address(const ashlar_rt_tensor &tensor, int device) const;

  Status run(Program &program) override;
  Status write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill) override;
  Status read(const ashlar_rt_tensor &tensor, int device, void *data) override;
  Status fetch(const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) override;
  Status createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) override;

private:
  Status resolve(CpuProgram &program);
  void resolveBuffers(const ashlar_rt_instr &instr, void **addresses) const;
  Status runWatched(CpuProgram &program);

  ThreadPool *pool = nullptr;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_CPU_EXECUTOR_H
