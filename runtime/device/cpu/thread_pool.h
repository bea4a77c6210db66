// SPDX-License-Identifier: Apache-2.0
//
// Threads of one process, for loops of independent units: generated kernels, matrix products, large collectives.

#ifndef ASHLAR_RUNTIME_DEVICE_CPU_THREAD_POOL_H
#define ASHLAR_RUNTIME_DEVICE_CPU_THREAD_POOL_H

#include "runtime/base/status.h"

#include <cstdint>
#include <memory>

namespace ashlar::rt {

// Runs independent units of a loop on a fixed number of threads, the caller being one of them. Between loops that follow each other closely
// the threads spin, so that starting a loop costs about a microsecond; later they sleep. One loop at a time per pool, started by one
// thread. Nothing is allocated by a loop.
class ThreadPool {
public:
  // The least bytes of a copy or a sum worth handing to a thread.
  static constexpr int64_t kCopyBytes = 128 << 10;

  // Work on the units [begin, end).
  using RangeFunction = void (*)(void *context, int64_t begin, int64_t end);

  // A pool of the calling thread alone.
  ThreadPool();
  // Starts threads - 1 threads. Assumes threads >= 1, and that the system has room for them.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  // Starts threads - 1 threads, once, in a pool of one; fails, with none started, when the system has no room for them.
  Status start(int threads);

  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  // Number of threads, the caller included.
  int threads() const { return threadCount; }

  // Cuts [0, extent) into at most threads() ranges that begin at multiples of `grain` (>= 1) and runs them at once. Returns when all are
  // done. The cut depends on extent, grain and threads() only.
  void parallelFor(int64_t extent, int64_t grain, RangeFunction function, void *context) {
    int64_t parts = threadCount == 1 ? 1 : extent / grain;
    if (parts <= 1) {
      if (extent > 0) {
        function(context, 0, extent);
      }
      return;
    }
    fork(extent, grain, parts < threadCount ? parts : threadCount, function, context);
  }

private:
  class Workers;

  void fork(int64_t extent, int64_t grain, int64_t parts, RangeFunction function, void *context);

  int threadCount = 1;
  std::unique_ptr<Workers> workers;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CPU_THREAD_POOL_H
