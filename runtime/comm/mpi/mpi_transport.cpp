// SPDX-License-Identifier: Apache-2.0
//
// Messages between hosts by MPI point to point.

#include "runtime/comm/mpi/mpi_transport.h"

#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/comm/wait.h"

#include <algorithm>
#include <climits>
#include <cstdio>

namespace ashlar::rt {
namespace {

constexpr int kDataTag = 7;

// That of channel 0 between stages; the others follow. 8 is that of wait reports.
constexpr int kFirstChannelTag = 16;

// Messages of one exchange that have room without an allocation.
constexpr size_t kRequests = 256;

// Longest single message; longer parts are cut.
constexpr size_t kLargestMessage = size_t{1} << 30;

// Looks at the requests between two looks at the clock, each of which may yield.
constexpr int kTestsPerCheck = 64;

// Seconds in which a wait only looks: on an idle machine with a fast network what it waits for is here by then. A rank that looks on and on
// uses up its share of a core that others want, too, and is away when the message comes; one that naps is back at once.
constexpr double kLookSeconds = 200e-6;

// Seconds in which ranks that begin to wait together hear of each other.
constexpr double kSettle = 1;

} // namespace

Status MpiTransport::start(int rank, int ranks) {
  ASHLAR_RETURN_IF_ERROR(MpiLibrary::load(mpi));
  requests.reserve(kRequests);
  int provided = MPI_THREAD_SINGLE;
  if (int error = mpi.MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided); error != MPI_SUCCESS) {
    return unavailable("MPI_Init_thread failed with error {}", error);
  }
  threads = provided == MPI_THREAD_MULTIPLE;
  reports.start(mpi, rank, ranks);
  return Status();
}

void MpiTransport::finish() {
  progress.stop();
  mpi.MPI_Finalize();
}

Status MpiTransport::exchange(int to, const Part *sends, size_t numSends, int from, const Part *receives, size_t numReceives, bool naps) {
  requests.clear();
  int error = MPI_SUCCESS;
  auto post = [&](const Part &part, auto &&start) {
    for (size_t begin = 0; begin < part.bytes; begin += kLargestMessage) {
      size_t length = part.bytes - begin < kLargestMessage ? part.bytes - begin : kLargestMessage;
      requests.emplace_back();
      int result = start(part.data + begin, static_cast<int>(length), &requests.back());
      error = error == MPI_SUCCESS ? result : error;
    }
  };
  for (size_t i = 0; i < numReceives; ++i) {
    post(receives[i], [&](char *data, int bytes, MPI_Request *request) {
      return mpi.MPI_Irecv(data, bytes, mpi.byte, from, kDataTag, mpi.commWorld, request);
    });
  }
  const size_t posted = requests.size();
  for (size_t i = 0; i < numSends; ++i) {
    post(sends[i], [&](char *data, int bytes, MPI_Request *request) {
      return mpi.MPI_Isend(data, bytes, mpi.byte, to, kDataTag, mpi.commWorld, request);
    });
  }
  if (error == MPI_SUCCESS) {
    ASHLAR_RETURN_IF_ERROR(complete({requests, from, posted, to, naps}, error));
  }
  return error == MPI_SUCCESS ? Status() : unavailable("exchange with ranks {} and {} failed: MPI error {}", to, from, error);
}

Status MpiTransport::allGather(const void *mine, size_t bytes, void *all) {
  int count = static_cast<int>(bytes);
  requests.assign(1, MPI_Request());
  int error = mpi.MPI_Iallgather(mine, count, mpi.byte, all, count, mpi.byte, mpi.commWorld, requests.data());
  if (error == MPI_SUCCESS) {
    ASHLAR_RETURN_IF_ERROR(complete({requests, WaitReports::kAnybody, /*numReceives=*/0, WaitReports::kAnybody, /*naps=*/false}, error));
  }
  return error == MPI_SUCCESS ? Status() : unavailable("gathering {} bytes from all ranks failed: MPI error {}", bytes, error);
}

size_t MpiTransport::addMessage(int peer, int channel, Part part) {
  messages.push_back(Message{peer, channel, part, {}});
  messages.back().requests.reserve((part.bytes + kLargestMessage - 1) / kLargestMessage);
  if (threads) {
    progress.begin(mpi, messages.size());
  }
  return messages.size() - 1;
}

template <typename Start> Status MpiTransport::post(Message &message, Start &&start) {
  message.requests.clear();
  for (size_t begin = 0; begin < message.part.bytes; begin += kLargestMessage) {
    const int length = static_cast<int>(std::min(message.part.bytes - begin, kLargestMessage));
    message.requests.emplace_back();
    const int error = start(message.part.data + begin, length, kFirstChannelTag + message.channel, &message.requests.back());
    if (error != MPI_SUCCESS) {
      return unavailable("a message of {} bytes to or from rank {} failed: MPI error {}", message.part.bytes, message.peer, error);
    }
  }
  return Status();
}

Status MpiTransport::await(Message &message, bool isReceive) {
  int error = MPI_SUCCESS;
  const size_t numReceives = isReceive ? message.requests.size() : 0;
  ASHLAR_RETURN_IF_ERROR(complete({message.requests, message.peer, numReceives, message.peer, /*naps=*/false}, error));
  message.requests.clear();
  return error == MPI_SUCCESS ? Status()
                              : unavailable("a message of {} bytes {} rank {} failed: MPI error {}", message.part.bytes,
                                            isReceive ? "from" : "to", message.peer, error);
}

Status MpiTransport::send(size_t message) {
  Message &one = messages[message];
  ASHLAR_RETURN_IF_ERROR(post(one, [&](char *data, int bytes, int tag, MPI_Request *request) {
    return mpi.MPI_Isend(data, bytes, mpi.byte, one.peer, tag, mpi.commWorld, request);
  }));
  progress.add(one.requests);
  return Status();
}

Status MpiTransport::finish(size_t message) {
  Message &one = messages[message];
  progress.remove(one.requests);
  return one.requests.empty() ? Status() : await(one, /*isReceive=*/false);
}

Status MpiTransport::receive(size_t message) {
  Message &one = messages[message];
  ASHLAR_RETURN_IF_ERROR(post(one, [&](char *data, int bytes, int tag, MPI_Request *request) {
    return mpi.MPI_Irecv(data, bytes, mpi.byte, one.peer, tag, mpi.commWorld, request);
  }));
  return await(one, /*isReceive=*/true);
}

Status MpiTransport::complete(Wait wait, int &error) {
  double begin = 0, nextCheck = 0;
  bool hasTold = false, isLong = wait.naps;
  Status status;
  for (uint64_t tests = 1; status.ok(); ++tests) {
    int done = 0;
    error = mpi.MPI_Testall(static_cast<int>(wait.requests.size()), wait.requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0 || error != MPI_SUCCESS) {
      break;
    }
    if (isLong ? tests < kTestsPerCheck : tests % kTestsPerCheck != 0) {
      continue;
    }
    const double now = seconds();
    if (begin == 0) {
      begin = now;
      nextCheck = now + kSecondsPerPeerCheck;
    }
    if (watched && now > nextCheck) {
      nextCheck = now + kSecondsPerPeerCheck;
      if (status = watched(); !status.ok()) {
        break;
      }
    }
    if (!hasTold && now - begin > kRemoteFactor * patienceSeconds()) {
      const int whom = missing(wait);
      std::lock_guard<std::mutex> lock(telling);
      reports.tell(whom);
      hasTold = true;
    }
    if (hasTold) {
      status = speak(wait, now - begin);
    }
    isLong |= now - begin > kLookSeconds;
    if (isLong) { // behind each look: MPI yields in each, for whole time slices where others want the core
      nap(wait.naps ? kNapBesideNs : kNapNs);
    }
  }
  if (hasTold && status.ok()) { // another rank is not to speak once more while the job ends
    std::lock_guard<std::mutex> lock(telling);
    reports.tell(WaitReports::kNobody);
  }
  return status;
}

// The first of the ranks that wait speaks for all; another one ends the job only when that one does not.
Status MpiTransport::speak(Wait &wait, double waited) {
  std::lock_guard<std::mutex> lock(telling);
  reports.listen();
  const double patience = kRemoteFactor * patienceSeconds(), atMost = kEndAfter * patience + kSettle;
  const bool isFirst = reports.isFirst();
  const bool ends = waited > atMost + (isFirst ? 0 : patience);
  if (!ends && (!isFirst || wait.hasSpoken || waited <= patience + kSettle)) {
    return Status();
  }
  const int culprit = reports.culprit();
  const std::string whom = culprit < 0 ? "a rank of another host" : fmt::format("rank {}", culprit);
  if (ends) {
    return stuckStatus(whom, waited);
  }
  std::fputs(waitingLine(whom, waited, atMost).c_str(), stderr);
  wait.hasSpoken = true;
  return Status();
}

int MpiTransport::missing(const Wait &wait) {
  for (size_t i = 0; i < wait.numReceives; ++i) {
    int done = 0;
    if (mpi.MPI_Test(&wait.requests[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
      return wait.from;
    }
  }
  return wait.to;
}

void MpiTransport::tellWait(int rank, bool speaks) {
  std::lock_guard<std::mutex> lock(telling);
  reports.tell(rank < 0 ? WaitReports::kNobody : rank, speaks);
}

void MpiTransport::abort() {
  mpi.MPI_Abort(mpi.commWorld, 1);
}

} // namespace ashlar::rt
