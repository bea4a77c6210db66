// SPDX-License-Identifier: Apache-2.0
//
// Threads of one process. A loop is a new value of `generation`, published after its description; a worker that has done its range counts
// down `remaining`.

#include "runtime/device/cpu/thread_pool.h"

#include "runtime/base/host.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ashlar::rt {
namespace {

// How often a thread looks for work, or for the end of it, before it gives up its core; some twenty microseconds.
constexpr int kSpins = 1500;

void pauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// One loop, cut into `parts` ranges that begin at multiples of the grain.
struct Loop {
  int64_t extent = 0;
  int64_t grain = 1;
  int64_t parts = 0;
  ThreadPool::RangeFunction function = nullptr;
  void *context = nullptr;

  void run(int64_t part) const {
    if (part < parts) {
      int64_t grains = (extent + grain - 1) / grain;
      function(context, grains * part / parts * grain, std::min(extent, grains * (part + 1) / parts * grain));
    }
  }
};

} // namespace

// Threads 1 .. n-1 of a pool.
class ThreadPool::Workers {
public:
  explicit Workers(int threads) : spins(threads > usableCores() ? 0 : kSpins) {
    try {
      for (int i = 1; i < threads; ++i) {
        members.emplace_back([this, i] { work(i); });
      }
    } catch (const std::system_error &) {
      stop();
      throw;
    }
  }

  ~Workers() { stop(); }

  void run(const Loop &next) {
    loop = next;
    remaining.store(static_cast<int>(members.size()), std::memory_order_relaxed);
    publish();
    loop.run(/*part=*/0);
    for (int spin = 0; remaining.load(std::memory_order_acquire) != 0; ++spin) {
      if (spin < spins) {
        pauseCore();
      } else {
        std::this_thread::yield();
      }
    }
  }

private:
  void stop() {
    stopping = true;
    publish();
    for (std::thread &member : members) {
      member.join();
    }
  }

  void publish() {
    // Under the lock, so that a worker which has found nothing and is about to sleep does not miss it.
    {
      std::lock_guard<std::mutex> lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
  }

  void work(int index) {
    for (uint64_t seen = 0;; ++seen) {
      for (int spin = 0; spin < spins && generation.load(std::memory_order_acquire) == seen; ++spin) {
        pauseCore();
      }
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
      }
      if (stopping) {
        return;
      }
      loop.run(index);
      remaining.fetch_sub(1, std::memory_order_release);
    }
  }

  Loop loop;
  int spins;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> generation{0};
  std::atomic<int> remaining{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> members;
};

ThreadPool::ThreadPool() = default;

ThreadPool::ThreadPool(int threads) : threadCount(threads) {
  if (threads > 1) {
    workers = std::make_unique<Workers>(threads);
  }
}

Status ThreadPool::start(int threads) {
  try {
    workers = threads > 1 ? std::make_unique<Workers>(threads) : nullptr;
  } catch (const std::system_error &error) {
    return unavailable("cannot start {} threads: {}; lower --threads, or raise the limits on processes and memory (ulimit -u, ulimit -v)",
                       threads - 1, error.code().message());
  }
  threadCount = threads;
  return Status();
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::fork(int64_t extent, int64_t grain, int64_t parts, RangeFunction function, void *context) {
  workers->run(Loop{extent, grain, parts, function, context});
}

} // namespace ashlar::rt
