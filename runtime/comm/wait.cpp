// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a counter in the window, the slow part.

#include "runtime/comm/wait.h"

#include "runtime/base/clock.h"

#include <cerrno>
#include <csignal>

#include <sched.h>

namespace ashlar::rt {
namespace {

// Yields between two looks at the abort flag, and seconds between two looks at the peers' processes.
constexpr int kYieldsPerCheck = 64;
constexpr double kSecondsPerPeerCheck = 0.2;

} // namespace

int deadProcess(const Window &window) {
  for (int process = 0; process < window.shape().processes; ++process) {
    int64_t pid = window.line(/*set=*/0, process).pid.load(std::memory_order_relaxed);
    if (pid != 0 && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) {
      return process;
    }
  }
  return -1;
}

bool Waiter::waitLong(const std::atomic<uint64_t> &counter, uint64_t value) const {
  double nextPeerCheck = 0;
  for (int yields = 0; counter.load(std::memory_order_acquire) < value; ++yields) {
    if (yields % kYieldsPerCheck == kYieldsPerCheck - 1) {
      if (window->header().aborted.load(std::memory_order_relaxed) != 0) {
        return false;
      }
      double now = seconds();
      if (nextPeerCheck == 0) {
        nextPeerCheck = now + kSecondsPerPeerCheck;
      } else if (now > nextPeerCheck) {
        // A peer that finished its part may be gone rightly, so look at the counter once more.
        if (deadProcess(*window) >= 0 && counter.load(std::memory_order_acquire) < value) {
          int32_t running = 0;
          window->header().aborted.compare_exchange_strong(running, kPeerDied, std::memory_order_relaxed);
          return false;
        }
        nextPeerCheck = now + kSecondsPerPeerCheck;
      }
    }
    sched_yield();
  }
  return true;
}

} // namespace ashlar::rt
