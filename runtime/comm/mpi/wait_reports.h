// SPDX-License-Identifier: Apache-2.0
//
// Who waits for whom, across hosts: ranks that wait long for a message tell each other, so that the one that all others wait for, directly
// or not, is found. A rank that was stopped tells nothing, which is how it is known.

#ifndef ASHLAR_RUNTIME_COMM_MPI_WAIT_REPORTS_H
#define ASHLAR_RUNTIME_COMM_MPI_WAIT_REPORTS_H

#include "runtime/comm/mpi/mpi_library.h"

#include <vector>

namespace ashlar::rt {

// What each rank has said of its wait. State: the last word of each, also of this one.
class WaitReports {
public:
  // Which rank another one waits for, when it is none in particular.
  static constexpr int kNobody = -2;  // it does not wait
  static constexpr int kAnybody = -1; // for one of all ranks

  // Makes room for the words of `ranks` ranks, of which this is number `rank`. The library outlives this.
  void start(const MpiLibrary &library, int rank, int ranks);

  // Tells all other ranks that this one waits for `whom` from now on, and whether it would say so to the user.
  void tell(int whom, bool speaks = true);

  // Takes in what others have told.
  void listen();

  // Returns the rank that this one waits for in the end: the last of those that wait for each other, which has told of no wait. Where one
  // waits for anybody, the first rank that has told of none.
  int culprit() const;

  // Returns true when no rank before this one waits and would say so: this one does, for all.
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
