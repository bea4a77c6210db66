// SPDX-License-Identifier: Apache-2.0
//
// Reports of waits, across hosts: ranks that wait long for a message report it to each other, so that the one that all others wait for,
// directly or not, is found. A stopped rank reports nothing, which identifies it.

#ifndef ASHLAR_RUNTIME_COMM_MPI_WAIT_REPORTS_H
#define ASHLAR_RUNTIME_COMM_MPI_WAIT_REPORTS_H

#include "runtime/comm/mpi/mpi_library.h"

#include <vector>

namespace ashlar::rt {

// The last report of each rank on its wait, also of this one.
class WaitReports {
public:
  // Which rank another one waits for, when it is none in particular.
  static constexpr int kNobody = -2;  // it does not wait
  static constexpr int kAnybody = -1; // for one of all ranks

  // Makes room for the reports of `ranks` ranks, where this is number `rank`. The library outlives this.
  void start(const MpiLibrary &library, int rank, int ranks);

  // Reports to all other ranks that this one waits for `whom` from now on, and whether it would report to the user.
  void tell(int whom, bool speaks = true);

  // Receives the reports of others.
  void listen();

  // Returns the rank that this one waits for in the end: the last of a chain of waiting ranks, which has reported no wait. Where one waits
  // for anybody, the first rank without a report.
  int culprit() const;

  // Returns true when no rank before this one waits and would report: this one does, for all.
  bool isFirst() const;

private:
  // One word, as it is sent.
  struct Word {
    int rank, whom, speaks;
  };

  const MpiLibrary *mpi = nullptr;
  int self = 0;
  std::vector<Word> last;       // of each rank
  std::vector<Word> vocabulary; // all words that this rank may send: a message may be on its way for ever
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_WAIT_REPORTS_H
