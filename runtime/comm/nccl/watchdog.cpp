// SPDX-License-Identifier: Apache-2.0
//
// The thread that watches a job on several GPUs.

#include "runtime/comm/nccl/watchdog.h"

#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/base/output_file.h"

#include <csignal>
#include <cstdio>
#include <system_error>

#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr useconds_t kPeriodMicroseconds = 50 * 1000;

// How long the main thread may take to notice a failure, and how long another rank to print one.
constexpr double kNoticeSeconds = 2;
constexpr useconds_t kGraceMicroseconds = 300 * 1000;

// mpirun asks all ranks to end as soon as one is gone, and a second later makes them.
std::atomic<bool> asked{false};

void onTerminate(int) {
  asked = true;
}

} // namespace

Status Watchdog::start() {
  void *memory = nullptr;
  ASHLAR_RETURN_IF_ERROR(device.allocatePinned(sizeof(uint32_t), memory));
  word = static_cast<volatile uint32_t *>(memory);
  *word = 0;
  since = seconds();
  try {
    thread = std::thread([this] { run(); });
  } catch (const std::system_error &error) {
    return unavailable("cannot start the thread that watches the other ranks: {}", error.what());
  }
  device.setInterrupt(this);
  handler = std::signal(SIGTERM, onTerminate);
  return Status();
}

void Watchdog::stop() {
  stopping = true;
  if (thread.joinable()) {
    thread.join();
    device.setInterrupt(nullptr);
    std::signal(SIGTERM, handler);
  }
}

Status Watchdog::check() {
  if (!failed.load(std::memory_order_acquire)) {
    return Status();
  }
  std::lock_guard<std::mutex> lock(mutex);
  noticed = true;
  return failure;
}

void Watchdog::enter(size_t number) {
  busy = number;
}

Status Watchdog::note(size_t number, CUstream stream) const {
  const DriverLibrary &cuda = device.driver();
  const char *what = "cannot note a collective";
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemsetD32Async(deviceWord, static_cast<unsigned>(number + 1), 1, stream), what));
  return cuda.check(cuda.cuMemcpyDtoHAsync_v2(const_cast<uint32_t *>(word), deviceWord, sizeof(uint32_t), stream), what);
}

void Watchdog::started(CUevent finished) {
  last = finished;
  ++runs;
}

void Watchdog::run() {
  if (!device.makeCurrent().ok()) {
    return;
  }
  while (!stopping) {
    usleep(kPeriodMicroseconds);
    bool ending = asked;
    Status found = look();
    if (found.ok() && ending) {
      removePendingOutputs();
      std::signal(SIGTERM, SIG_DFL);
      std::raise(SIGTERM);
    }
    if (found.ok()) {
      continue;
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      failure = found;
    }
    failed.store(true, std::memory_order_release);
    double end = seconds() + (ending ? 0 : kNoticeSeconds);
    while (!noticed && !stopping && seconds() < end) {
      usleep(kPeriodMicroseconds / 10);
    }
    if (noticed || stopping) {
      return;
    }
    if (found.code() == StatusCode::kAborted) {
      usleep(kGraceMicroseconds); // mpirun ends all ranks with the first; another one has something to say
    } else {
      fail(found);
    }
    std::fflush(nullptr);
    removePendingOutputs();
    _exit(1);
  }
}

Status Watchdog::look() {
  if (int dead = host.deadRank(); dead >= 0) {
    return unavailable("rank {} terminated without reporting an error; rank {} was {}", dead, host.rank(), where());
  }
  if (host.aborted()) {
    return abortedStatus();
  }
  size_t nowBusy = busy;
  if (nowBusy != kConnecting) {
    Status broken = seat.asyncError();
    broken.update(links != nullptr ? links->asyncError() : Status());
    if (!broken.ok()) {
      return unavailable("{}; rank {} was {}", broken.message(), host.rank(), where());
    }
  }
  CUevent event = last;
  uint64_t nowRuns = runs;
  uint32_t nowWord = __atomic_load_n(word, __ATOMIC_RELAXED);
  bool pending = nowBusy != kIdle || (event != nullptr && device.driver().cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  double now = seconds();
  if (!pending || nowBusy != seenBusy || nowRuns != seenRuns || nowWord != seenWord) {
    seenBusy = nowBusy;
    seenRuns = nowRuns;
    seenWord = nowWord;
    since = now;
    return Status();
  }
  double patience = nowBusy == kConnecting ? static_cast<double>(environmentInteger("ASHLAR_CONNECT_SECONDS")) : patienceSeconds();
  if (now - since < patience) {
    return Status();
  }
  return unavailable("rank {} got no further for {:.0f} s; it was {}", host.rank(), now - since, where());
}

std::string Watchdog::where() const {
  size_t now = busy;
  if (now == kConnecting) {
    return "connecting the GPUs of the ranks";
  }
  if (now != kIdle) {
    return describe("starting the collective ", now);
  }
  uint32_t number = __atomic_load_n(word, __ATOMIC_RELAXED);
  const size_t known = seat.size() + (links != nullptr ? links->messages() : 0);
  return number == 0 || number > known ? "before its first collective" : describe("in the collective ", number - 1);
}

std::string Watchdog::describe(const char *doing, size_t number) const {
  return number < seat.size() ? doing + seat.describe(number) : links->describe(number - seat.size());
}

} // namespace ashlar::rt
