// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a counter in the window, the slow part.

#include "runtime/comm/wait.h"

#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/comm/collective.h"

#include <cstdio>

#include <ctime>

#include <sched.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

// A launcher that ends all ranks does so within this time; it is not for one of them to name the others.
constexpr useconds_t kSettleMicroseconds = 50 * 1000;

// How long ago a rank that waits has looked, at most; another one was stopped while it waited, and does not notice that its wait is over.
constexpr uint64_t kLookMicroseconds = 1000 * 1000;

// Yields between two looks at the abort flag.
constexpr int kYieldsPerCheck = 64;

uint64_t microseconds() {
  return static_cast<uint64_t>(1e6 * seconds());
}

} // namespace

void nap(long nanoseconds) {
  const timespec duration{/*tv_sec=*/0, nanoseconds};
  nanosleep(&duration, nullptr);
}

int deadProcess(const Window &window) {
  for (int process = 0; process < window.shape().processes; ++process) {
    if (window.hasEnded(process)) {
      return process;
    }
  }
  return -1;
}

std::string waitingLine(const std::string &whom, double waited, double atMost) {
  return fmt::format("waiting for {} for {:.0f} s; the job ends after {:.0f} s (ASHLAR_PATIENCE={:.0f})\n", whom, waited, atMost,
                     patienceSeconds());
}

Status stuckStatus(const std::string &whom, double waited) {
  return unavailable("{} did not come within {:.0f} s; it was stopped or is stuck (ASHLAR_PATIENCE={:.0f}, a quarter of that)", whom,
                     waited, patienceSeconds());
}

Status abortedStatus() {
  return Status(StatusCode::kAborted, "another rank gave up");
}

Status Waiter::giveUpOn(int process) const {
  int32_t running = 0;
  const bool first = window->header().aborted.compare_exchange_strong(running, kPeerDied, std::memory_order_relaxed);
  if (!first || !window->hasDied(process)) {
    return abortedStatus();
  }
  usleep(kSettleMicroseconds);
  return unavailable("rank {} terminated without reporting an error", rankOf(process));
}

Status Waiter::checkHost() const {
  noteLook();
  for (int process = 0; process < window->shape().processes; ++process) {
    if (window->hasDied(process)) {
      return giveUpOn(process);
    }
  }
  return window->header().aborted.load(std::memory_order_relaxed) != 0 ? abortedStatus() : Status();
}

void Waiter::noteLook() const {
  window->presence(place->indexOnHost(place->rank)).looked.store(microseconds(), std::memory_order_relaxed);
}

void Waiter::noteWait(int rank) const {
  noteLook();
  window->presence(place->indexOnHost(place->rank)).waitsFor.store(rank + 1, std::memory_order_relaxed);
}

Status Waiter::waitLong(const std::atomic<uint64_t> &counter, uint64_t value, int process) const {
  double begin = 0, nextCheck = 0;
  uint64_t beats = window->presence(process).beats.load(std::memory_order_relaxed);
  bool hasTold = false;
  Status status;
  for (int yields = 0; status.ok() && counter.load(std::memory_order_acquire) < value; ++yields) {
    if (yields % kYieldsPerCheck == kYieldsPerCheck - 1) {
      double now = seconds();
      if (window->header().aborted.load(std::memory_order_relaxed) != 0) {
        status = abortedStatus();
      } else if (begin == 0) {
        begin = now;
        nextCheck = now + kSecondsPerPeerCheck;
        noteWait(rankOf(process));
      } else if (now > nextCheck) {
        nextCheck = now + kSecondsPerPeerCheck;
        noteWait(rankOf(process)); // again: the thread beside this one, if there is one, may have waited for another rank meanwhile
        const uint64_t heard = window->presence(process).beats.load(std::memory_order_relaxed);
        begin = heard != beats ? now : begin;
        beats = heard;
        status = lookAround(counter, value, process, now - begin, hasTold);
      }
    }
    if (isBeside) {
      nap(kNapBesideNs);
    } else {
      sched_yield();
    }
  }
  if (begin != 0) {
    noteWaitEnd(status);
  }
  if (hasTold && status.ok()) { // ranks of other hosts are not to speak once more while the job ends
    transport->tellWait(-1, /*speaks=*/false);
  }
  return status;
}

// Whether it makes sense to wait any longer.
Status Waiter::lookAround(const std::atomic<uint64_t> &counter, uint64_t value, int process, double waited, bool &hasTold) const {
  WindowHeader &header = window->header();
  // A peer that finished its part may be gone rightly, so look at the counter once more.
  if (const int dead = deadProcess(*window); dead >= 0 && counter.load(std::memory_order_acquire) < value) {
    return giveUpOn(dead);
  }
  const double patience = patienceSeconds();
  if (waited <= patience) {
    return Status();
  }
  // Of a rank that waits for another host, those that wait between hosts know more; they speak, and end the job before this one does.
  const int last = lastInChain(process);
  const bool isRemote = place->hostOfProcess[static_cast<size_t>(last)] != place->hostOfProcess[static_cast<size_t>(place->rank)];
  if (transport != nullptr) { // again and again, while it holds
    transport->tellWait(rankOf(process), /*speaks=*/!isRemote);
    hasTold = true;
  }
  const bool ends = waited > (isRemote ? 2 : 1) * kEndAfter * patience;
  if (!ends && (isRemote || header.noted.exchange(1, std::memory_order_relaxed) != 0)) {
    return Status();
  }
  const std::string whom = fmt::format("rank {}", last);
  if (!ends) {
    std::fputs(waitingLine(whom, waited, kEndAfter * patience).c_str(), stderr);
    return Status();
  }
  int32_t running = 0;
  const bool first = header.aborted.compare_exchange_strong(running, kPeerStuck, std::memory_order_relaxed);
  return first ? stuckStatus(whom, waited) : abortedStatus();
}

int Waiter::rankOf(int process) const {
  const int host = place->hostOfProcess[static_cast<size_t>(place->rank)];
  for (int rank = 0; rank < place->processes; ++rank) {
    if (place->hostOfProcess[static_cast<size_t>(rank)] == host && process-- == 0) {
      return rank;
    }
  }
  return -1;
}

// The rank at the end of those that wait for each other, beginning with `process`: the one that does not wait itself, or no longer looks.
int Waiter::lastInChain(int process) const {
  const int host = place->hostOfProcess[static_cast<size_t>(place->rank)];
  int rank = rankOf(process);
  for (int steps = 0; steps < place->processes; ++steps) {
    if (place->hostOfProcess[static_cast<size_t>(rank)] != host) {
      return rank;
    }
    const WindowPresence &presence = window->presence(place->indexOnHost(rank));
    const int next = presence.waitsFor.load(std::memory_order_relaxed) - 1;
    if (next < 0 || presence.looked.load(std::memory_order_relaxed) + kLookMicroseconds < microseconds()) {
      return rank;
    }
    rank = next;
  }
  return rank;
}

} // namespace ashlar::rt
