// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a counter in the window: spin a little while every rank has a core to itself, then yield; give up when a rank has aborted
// or died.

#ifndef ASHLAR_RUNTIME_COMM_WAIT_H
#define ASHLAR_RUNTIME_COMM_WAIT_H

#include "runtime/comm/window.h"

namespace ashlar::rt {

// Returns the first process of the window's host, counted on the host, that ended without a word; -1 when all are there.
int deadProcess(const Window &window);

// Waits on counters of one window on behalf of one process.
class Waiter {
public:
  Waiter() = default;

  // `oversubscribed`: more ranks than cores, so spinning only keeps the peer from running.
  Waiter(Window &window, bool oversubscribed) : window(&window), spins(oversubscribed ? 0 : kSpins) {}

  // Returns true once `counter` >= `value`, false when the job is being aborted.
  bool wait(const std::atomic<uint64_t> &counter, uint64_t value) const {
    for (int spin = 0; counter.load(std::memory_order_acquire) < value; ++spin) {
      if (spin >= spins) {
        return waitLong(counter, value);
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return true;
  }

private:
  static constexpr int kSpins = 4000; // some 50 us: longer than any collective takes when the peer is running

  bool waitLong(const std::atomic<uint64_t> &counter, uint64_t value) const;

  Window *window = nullptr;
  int spins = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_WAIT_H
