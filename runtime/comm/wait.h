// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a counter in the window: spin a little while every rank has a core to itself, then yield; give up when a rank has aborted,
// died, or does not come. A rank that waits long reports for whom, so that a stopped rank is found.

#ifndef ASHLAR_RUNTIME_COMM_WAIT_H
#define ASHLAR_RUNTIME_COMM_WAIT_H

#include "runtime/base/status.h"
#include "runtime/comm/window.h"

#include <string>

namespace ashlar::rt {

class Transport;
struct Place;

// A rank that waits reports it after patienceSeconds(), and ends the job after so many times that.
constexpr double kEndAfter = 4;

// By how much longer a rank waits for one of another host than for one of its own: who shares its host knows better whom all wait for.
constexpr double kRemoteFactor = 1.25;

// Seconds between two looks of a rank that waits at the processes of its host.
constexpr double kSecondsPerPeerCheck = 0.2;

// Returns the first process of the window's host, counted on the host, that ended or closed the window; -1 when all are there.
int deadProcess(const Window &window);

// The line of a rank that has waited `waited` seconds for `whom`, and will wait for `atMost`; and its error at the end.
std::string waitingLine(const std::string &whom, double waited, double atMost);
Status stuckStatus(const std::string &whom, double waited);

// The status of a wait that ended because another rank gave up.
Status abortedStatus();

// Waits on counters of one window on behalf of one process.
class Waiter {
public:
  Waiter() = default;

  // `transport`: to other hosts, null when there are none. `oversubscribed`: more ranks than cores, so spinning only keeps the peer from
  // running. All outlive the waiter.
  Waiter(Window &window, const Place &place, Transport *transport, bool oversubscribed)
      : window(&window), place(&place), transport(transport), spins(oversubscribed ? 0 : kSpins) {}

  // Returns one for a thread that overlaps computing threads: it naps between two checks.
  Waiter napping() const {
    Waiter result = *this;
    result.spins = 0;
    result.isBeside = true;
    return result;
  }

  bool naps() const { return isBeside; }

  // Returns once `counter` of `process`, counted on the host, is >= `value`; fails when the job is being aborted or the process does not
  // come.
  Status wait(const std::atomic<uint64_t> &counter, uint64_t value, int process) const {
    for (int spin = 0; counter.load(std::memory_order_acquire) < value; ++spin) {
      if (spin >= spins) {
        return waitLong(counter, value, process);
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return Status();
  }

  // Fails when the job is being aborted, or a process of the host died; one that closed the window rightly may be done. For a wait between
  // hosts.
  Status checkHost() const;

  // Lets the other processes of the host know which rank this one waits for from now on; -1: none. To be called again several times a
  // second, or checkHost(): who does not looks stopped.
  void noteWait(int rank) const;

  // A wait is over. One that failed stays noted until this rank has given up: others that wait for it would report it meanwhile.
  void noteWaitEnd(const Status &status) const {
    if (status.ok()) {
      noteWait(-1);
    }
  }

private:
  // Makes all ranks of the host give up because a process of it, counted on the host, ended. The first one reports it, unless that one
  // closed the window: then it reported its own error.
  Status giveUpOn(int process) const;

  static constexpr int kSpins = 4000; // some 50 us: longer than any collective takes when the peer is running

  Status waitLong(const std::atomic<uint64_t> &counter, uint64_t value, int process) const;
  Status lookAround(const std::atomic<uint64_t> &counter, uint64_t value, int process, double waited, bool &hasTold) const;
  int rankOf(int process) const;
  int lastInChain(int process) const;
  void noteLook() const;

  Window *window = nullptr;
  const Place *place = nullptr;
  Transport *transport = nullptr;
  int spins = 0;
  bool isBeside = false; // of a thread that overlaps computing threads
};

// The length of a nap between two checks: of a thread that overlaps a computing one, which owns the core; and of an idle one.
constexpr long kNapBesideNs = 100 * 1000;
constexpr long kNapNs = 20 * 1000;

// Leaves the core to others for so long, or the 50 us more that the kernel makes of it.
void nap(long nanoseconds);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_WAIT_H
