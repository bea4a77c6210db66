// SPDX-License-Identifier: Apache-2.0
//
// Who waits for whom.

#include "runtime/comm/tcp/wait_reports.h"

namespace ashlar::rt {

int WaitReports::whomOf(int rank, double now) const {
  const Report &report = last[static_cast<size_t>(rank)];
  return now - report.time > kHoldsSeconds ? kNobody : report.whom;
}

int WaitReports::culprit(double now) const {
  int rank = self;
  for (size_t steps = 0; steps <= last.size(); ++steps) {
    const int next = whomOf(rank, now);
    if (next == kNobody) {
      break;
    }
    rank = next;
  }
  return rank;
}

bool WaitReports::isFirst(double now) const {
  for (int least : {kFoundLost, kSpeaksBefore, 1}) {
    for (int rank = 0; rank < static_cast<int>(last.size()); ++rank) {
      if (whomOf(rank, now) != kNobody && last[static_cast<size_t>(rank)].speaks >= least) {
        return rank == self;
      }
    }
  }
  return false;
}

} // namespace ashlar::rt
