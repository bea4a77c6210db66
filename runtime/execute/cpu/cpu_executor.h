// SPDX-License-Identifier: Apache-2.0
//
// The executor of the cpu target.

#ifndef ASHLAR_RUNTIME_EXECUTE_CPU_CPU_EXECUTOR_H
#define ASHLAR_RUNTIME_EXECUTE_CPU_CPU_EXECUTOR_H

#include "runtime/comm/progress_thread.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/execute/cpu/ordered_weights.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/repeats.h"
#include "runtime/kernels/cpu/gemm.h"

namespace ashlar::rt {

class CpuProgram;
struct Step;

// Runs programs on the threads of a pool; the devices' arenas are the communicator's. Everything is done when a call returns.
class CpuExecutor final : public Executor {
public:
  // Resolves all programs and writes the mesh coordinates into the arenas. All arguments outlive the executor.
  Status create(const ashlar_rt_image &image, const ashlar_rt_variant &variant, Communicator &communicator, ThreadPool &pool,
                const ExecutorOptions &options);

  // Address of a tensor on this process' device number `device`; of a tensor in a slot, in the micro-batch's slot. Write a variable by
  // write(), which updates its ordered weights.
  char *address(const ashlar_rt_tensor &tensor, int device, uint64_t microBatch = 0) const;

  Status run(Program &program, uint64_t microBatch = 0) override;
  Status write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill, uint64_t microBatch = 0) override;
  Status read(const ashlar_rt_tensor &tensor, int device, void *data, uint64_t microBatch = 0) override;
  Status fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) override;
  Status createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) override;
  std::vector<HeldPart> held(uint64_t batchBytes) const override;
  Status close() override;

private:
  Status beginProgress();
  Status run(Step &step, CpuProgram &program, InstrCursor &cursor);
  Status runWatched(CpuProgram &program, uint64_t slot);
  // Waits for asynchronous collectives when the status is a failure. Returns the status.
  Status settle(Status status);

  ThreadPool *pool = nullptr;
  uint64_t variableChange = 1; // number of the last change of variables by init or from outside
  GemmWorkspace workspace;     // of the library calls of all programs: one runs at a time
  OrderStore ordered;          // of these calls
  ProgressThread progress;     // of collectives that are started; destroyed first
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CPU_CPU_EXECUTOR_H
