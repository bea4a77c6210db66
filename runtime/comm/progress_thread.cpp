// SPDX-License-Identifier: Apache-2.0
//
// A ring of collectives between two threads. Both sleep when they have nothing to do: the cores are for kernels.

#include "runtime/comm/progress_thread.h"

#include <system_error>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

// By how much the kernel may prolong a nap of the thread; its default is 50 us, more than a nap.
constexpr unsigned long kTimerSlackNs = 1000;

// How long the thread wants to run at a time: the least that the kernel grants. A scheduler that goes by deadlines (Linux 6.12 and later)
// then lets it run as soon as its nap is over, where it would let the thread that computes on the core end its slice of milliseconds first.
constexpr uint64_t kSliceNs = 100 * 1000;

// As the system call takes it; the headers of libc have no name for it.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

// An older kernel takes no notice.
void askForShortSlices() {
  SchedulingAttributes attributes = {};
  attributes.size = sizeof(attributes);
  attributes.policy = SCHED_OTHER;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kSliceNs;
  syscall(SYS_sched_setattr, /*thread=*/0, &attributes, /*flags=*/0);
}

} // namespace

void runBeside() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  askForShortSlices();
}

ProgressThread::~ProgressThread() {
  if (!thread.joinable()) {
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    ends = true;
  }
  hasWork.notify_one();
  thread.join();
}

Status ProgressThread::begin(size_t most) {
  ring.resize(most);
  try {
    thread = std::thread([this] { loop(); });
  } catch (const std::system_error &error) {
    return unavailable("no thread to overlap communication with computation ({}); compile with --no-overlap", error.what());
  }
  return Status();
}

uint64_t ProgressThread::start(Collective &collective, const Stopwatch &watch) {
  uint64_t number = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    number = ++started;
    ring[(number - 1) % ring.size()] = Entry{&collective, &watch};
  }
  hasWork.notify_one();
  return number;
}

Status ProgressThread::wait(uint64_t number) {
  if (number <= known) {
    return Status();
  }
  std::unique_lock<std::mutex> lock(mutex);
  hasDone.wait(lock, [&] { return done >= number; });
  known = status.ok() ? done : known;
  return status;
}

void ProgressThread::loop() {
  runBeside();
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    hasWork.wait(lock, [&] { return ends || done < started; });
    if (ends) {
      return;
    }
    const Entry entry = ring[done % ring.size()];
    if (status.ok()) { // once the ranks are out of step no collective can be right
      lock.unlock();
      Status result = entry.watch->time([&] { return entry.collective->run(); });
      lock.lock();
      status = result;
    }
    ++done;
    hasDone.notify_one();
  }
}

} // namespace ashlar::rt
