// SPDX-License-Identifier: Apache-2.0
//
// Who waits for whom, told over a library that delivers at once.

#include "runtime/comm/mpi/wait_reports.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <deque>
#include <vector>

using namespace ashlar::rt;

namespace {

// The messages under way to each rank, and which rank calls the library.
struct Post {
  std::vector<std::deque<std::vector<char>>> boxes;
  int caller = 0;
  bool isBroken = false;
};

Post post;

int send(const void *data, int bytes, MPI_Datatype, int to, int, MPI_Comm, MPI_Request *) {
  if (post.isBroken) {
    return MPI_ERR_OTHER;
  }
  const char *begin = static_cast<const char *>(data);
  post.boxes[static_cast<size_t>(to)].emplace_back(begin, begin + bytes);
  return MPI_SUCCESS;
}

int probe(int, int, MPI_Comm, int *arrived, MPI_Status *) {
  *arrived = !post.boxes[static_cast<size_t>(post.caller)].empty();
  return post.isBroken ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int receive(void *data, int bytes, MPI_Datatype, int, int, MPI_Comm, MPI_Status *) {
  auto &box = post.boxes[static_cast<size_t>(post.caller)];
  std::memcpy(data, box.front().data(), static_cast<size_t>(bytes));
  box.pop_front();
  return MPI_SUCCESS;
}

int freeRequest(MPI_Request *) {
  return MPI_SUCCESS;
}

// The reports of all ranks of a job.
class Job {
public:
  explicit Job(int size) : reports(static_cast<size_t>(size)) {
    library.MPI_Isend = send;
    library.MPI_Iprobe = probe;
    library.MPI_Recv = receive;
    library.MPI_Request_free = freeRequest;
    post = Post();
    post.boxes.resize(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      reports[static_cast<size_t>(rank)].start(library, rank, size);
    }
  }

  // Has a rank tell whom it waits for.
  void tell(int rank, int whom, bool speaks = true) {
    post.caller = rank;
    reports[static_cast<size_t>(rank)].tell(whom, speaks);
  }

  // Returns what a rank makes of all that was told.
  const WaitReports &heard(int rank) {
    post.caller = rank;
    reports[static_cast<size_t>(rank)].listen();
    return reports[static_cast<size_t>(rank)];
  }

private:
  MpiLibrary library;
  std::vector<WaitReports> reports;
};

} // namespace

TEST_CASE("waits: the last of a chain is the culprit, and the first that waits speaks", "[waits]") {
  Job job(4); // 3 waits for 2, 2 for 1, 1 for 0, which was stopped
  for (int rank : {3, 2, 1}) {
    job.tell(rank, rank - 1);
  }
  for (int rank : {1, 2, 3}) {
    INFO("rank " << rank);
    CHECK(job.heard(rank).culprit() == 0);
    CHECK(job.heard(rank).isFirst() == (rank == 1));
  }
}

TEST_CASE("waits: a rank that waits for anybody means the first that waits for none", "[waits]") {
  Job job(4);
  job.tell(0, WaitReports::kAnybody);
  job.tell(1, WaitReports::kAnybody);
  job.tell(3, 1);
  CHECK(job.heard(0).culprit() == 2);
  CHECK(job.heard(3).culprit() == 2);
  job.tell(2, WaitReports::kAnybody);
  CHECK(job.heard(0).culprit() == WaitReports::kAnybody); // all wait
}

TEST_CASE("waits: ranks that wait for each other end the search", "[waits]") {
  Job job(3);
  job.tell(0, 1);
  job.tell(1, 0);
  int culprit = job.heard(0).culprit();
  CHECK((culprit == 0 || culprit == 1));
}

TEST_CASE("waits: the last word of a rank holds", "[waits]") {
  Job job(3);
  job.tell(0, 2);
  job.tell(1, 2);
  CHECK(!job.heard(1).isFirst());
  job.tell(0, WaitReports::kNobody);
  CHECK(job.heard(1).isFirst());
  CHECK(job.heard(1).culprit() == 2);
  CHECK(!job.heard(0).isFirst());
}

TEST_CASE("waits: a rank that says nothing to the user is not the first", "[waits]") {
  Job job(3); // rank 0 waits in the memory of its host, where another one speaks
  job.tell(0, 2, /*speaks=*/false);
  job.tell(1, 0);
  CHECK(!job.heard(0).isFirst());
  CHECK(job.heard(1).isFirst());
  CHECK(job.heard(1).culprit() == 2);
}

TEST_CASE("waits: without a working library a rank knows of itself", "[waits]") {
  Job job(3);
  post.isBroken = true;
  job.tell(1, 2);
  CHECK(job.heard(1).isFirst());
  CHECK(job.heard(1).culprit() == 2);
}
