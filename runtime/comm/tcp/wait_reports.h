// SPDX-License-Identifier: Apache-2.0
//
// Reports of waits, across hosts: ranks that wait long for a message report it to each other, so that the one that all others wait for,
// directly or not, is found. A stopped rank reports nothing, which identifies it.

#ifndef ASHLAR_RUNTIME_COMM_TCP_WAIT_REPORTS_H
#define ASHLAR_RUNTIME_COMM_TCP_WAIT_REPORTS_H

#include <cstddef>
#include <vector>

namespace ashlar::rt {

// The last report of each rank on its wait, also of this one. A report holds for some seconds: who waits repeats it.
class WaitReports {
public:
  // The rank that one waits for which does not wait.
  static constexpr int kNobody = -1;

  // Seconds after which a report no longer holds: its rank was stopped while it waited.
  static constexpr double kHoldsSeconds = 5;

  // Makes room for the reports of `ranks` ranks, where this is number `rank`.
  WaitReports(int rank, int ranks) : self(rank), last(static_cast<size_t>(ranks)) {}

  // A rank that waits for one of its own host reports to the user before ranks of other hosts would.
  static constexpr int kSpeaksBefore = 2;

  // One that found a host lost, before both.
  static constexpr int kFoundLost = 3;

  // Notes that a rank waits for `whom`, and whether it would report to the user (0, 1, kSpeaksBefore or kFoundLost), at a time in seconds.
  // Assumes numbers of ranks.
  void note(int rank, int whom, int speaks, double now) { last[static_cast<size_t>(rank)] = {whom, speaks, now}; }

  // Returns the rank that this one waits for in the end: the last of a chain of waiting ranks, which has reported no wait.
  int culprit(double now) const;

  // Returns true when this rank waits and would report, and no other one goes before it: the first of those with the highest claim.
  bool isFirst(double now) const;

private:
  struct Report {
    int whom = kNobody;
    int speaks = 0;
    double time = 0;
  };

  int whomOf(int rank, double now) const;

  int self;
  std::vector<Report> last; // of each rank
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_WAIT_REPORTS_H
