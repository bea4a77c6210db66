// SPDX-License-Identifier: Apache-2.0
//
// A thread that runs collectives while the thread that started them computes. It does one after the other, in the order in which they were
// started, the order of the program, which is the same on every rank.

#ifndef ASHLAR_RUNTIME_COMM_PROGRESS_THREAD_H
#define ASHLAR_RUNTIME_COMM_PROGRESS_THREAD_H

#include "runtime/base/recorder.h"
#include "runtime/comm/collective.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace ashlar::rt {

// Makes the calling thread one that overlaps computing threads: its naps are short, and it runs as soon as they are over.
void runBeside();

// One thread starts and waits. Nothing is allocated by either.
class ProgressThread {
public:
  ProgressThread() = default;

  // Comes back when the collective that is being run ends; those behind it are left out.
  ~ProgressThread();
  ProgressThread(const ProgressThread &) = delete;
  ProgressThread &operator=(const ProgressThread &) = delete;

  // Starts the thread, with room for `most` (>= 1) collectives at a time. Fails when the system has no room for a thread.
  Status begin(size_t most);

  // Has the collective run, and notes the time that takes with `watch`. Both outlive the run. Returns its number, from 1 on. Assumes that
  // fewer than `most` are neither done nor waited for.
  uint64_t start(Collective &collective, const Stopwatch &watch);

  // Waits until number `number` and all before it are done; fails when one of them failed. Collectives started later are then dropped.
  Status wait(uint64_t number);

  // Waits for all.
  Status drain() { return wait(started); }

private:
  struct Entry {
    Collective *collective;
    const Stopwatch *watch;
  };

  void loop();

  std::thread thread;
  std::mutex mutex;
  std::condition_variable hasWork, hasDone;
  std::vector<Entry> ring; // number n is at (n - 1) % size
  uint64_t started = 0;    // numbers up to this one exist
  uint64_t done = 0;
  uint64_t known = 0; // that the starting thread knows to be done
  bool ends = false;
  Status status; // of the first one that failed
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_PROGRESS_THREAD_H
