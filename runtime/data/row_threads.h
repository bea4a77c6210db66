// SPDX-License-Identifier: Apache-2.0
//
// Threads that share the rows of a batch. Unlike computing threads, they never spin: the cores belong to the step.

#ifndef ASHLAR_RUNTIME_DATA_ROW_THREADS_H
#define ASHLAR_RUNTIME_DATA_ROW_THREADS_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar::rt {

// Runs shares of some work on a fixed number of threads, the caller being number 0. Nothing is allocated by run().
class RowThreads {
public:
  // Does share `share`; `thread` is one of the numbers 0 .. threads - 1, which no other share has meanwhile.
  using Function = void (*)(void *context, int64_t share, size_t thread);

  // Starts threads - 1 threads. Throws std::system_error, with none started, when the system has no room for them.
  explicit RowThreads(size_t threads);
  ~RowThreads();
  RowThreads(const RowThreads &) = delete;
  RowThreads &operator=(const RowThreads &) = delete;

  // Does the shares 0 .. count - 1, each once, in any order. Returns when all are done. Used by one thread.
  void run(int64_t count, Function function, void *context);

private:
  void stop();
  void work(size_t thread);
  void takeShares(size_t thread);

  // Fixed while a run is under way.
  int64_t shares = 0;
  Function function = nullptr;
  void *context = nullptr;

  std::atomic<int64_t> nextShare{0};

  // Under `mutex`.
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t runs = 0;
  size_t busy = 0; // threads that have not seen the end of the run
  bool stopping = false;

  std::vector<std::thread> members;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_ROW_THREADS_H
