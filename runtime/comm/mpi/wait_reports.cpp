// SPDX-License-Identifier: Apache-2.0
//
// The words of a wait, by MPI point to point. Nobody waits for them: a rank that does not listen may be the stopped one.

#include "runtime/comm/mpi/wait_reports.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

constexpr int kReportTag = 8; // other than that of data

} // namespace

void WaitReports::start(const MpiLibrary &library, int rank, int ranks) {
  mpi = &library;
  self = rank;
  for (int other = 0; other < ranks; ++other) {
    last.push_back(Word{other, kNobody, /*speaks=*/0});
  }
  for (int whom = kNobody; whom < ranks; ++whom) {
    vocabulary.push_back(Word{rank, whom, /*speaks=*/0});
    vocabulary.push_back(Word{rank, whom, /*speaks=*/1});
  }
}

void WaitReports::tell(int whom, bool speaks) {
  const Word &word = vocabulary[static_cast<size_t>(2 * (whom - kNobody) + speaks)];
  last[static_cast<size_t>(self)] = word;
  for (int rank = 0; rank < static_cast<int>(last.size()); ++rank) {
    MPI_Request request;
    if (rank != self && mpi->MPI_Isend(&word, sizeof(word), mpi->byte, rank, kReportTag, mpi->commWorld, &request) == MPI_SUCCESS) {
      mpi->MPI_Request_free(&request);
    }
  }
}

void WaitReports::listen() {
  int arrived = 0;
  while (mpi->MPI_Iprobe(MPI_ANY_SOURCE, kReportTag, mpi->commWorld, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived != 0) {
    Word word = {};
    if (mpi->MPI_Recv(&word, sizeof(word), mpi->byte, MPI_ANY_SOURCE, kReportTag, mpi->commWorld, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return;
    }
    last[static_cast<size_t>(word.rank)] = word;
  }
}

int WaitReports::culprit() const {
  int rank = self;
  for (size_t steps = 0; steps <= last.size(); ++steps) {
    const int next = last[static_cast<size_t>(rank)].whom;
    if (next == kNobody) {
      break;
    }
    if (next == kAnybody) {
      auto silent = std::find_if(last.begin(), last.end(), [](const Word &word) { return word.whom == kNobody; });
      return silent == last.end() ? kAnybody : silent->rank;
    }
    rank = next;
  }
  return rank;
}

bool WaitReports::isFirst() const {
  auto first = std::find_if(last.begin(), last.end(), [](const Word &word) { return word.whom != kNobody && word.speaks != 0; });
  return first != last.end() && first->rank == self;
}

} // namespace ashlar::rt
