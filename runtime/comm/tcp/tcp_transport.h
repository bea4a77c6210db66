// SPDX-License-Identifier: Apache-2.0
//
// The transport between hosts: one TCP connection a stream, authenticated by a key that rank 0 draws, and datagrams for words about waits.

#ifndef ASHLAR_RUNTIME_COMM_TCP_TCP_TRANSPORT_H
#define ASHLAR_RUNTIME_COMM_TCP_TCP_TRANSPORT_H

#include "runtime/comm/tcp/address_book.h"
#include "runtime/comm/tcp/meeting.h"
#include "runtime/comm/tcp/streams.h"
#include "runtime/comm/tcp/words.h"
#include "runtime/comm/transport.h"

#include <map>
#include <mutex>

namespace ashlar::rt {

class TcpTransport final : public Transport {
public:
  // One side, for rank `rank` of `ranks`.
  TcpTransport(int rank, int ranks) : self(rank), words(rank, ranks) { place.self = rank; }

  // Opens the sockets, exchanges their addresses with all ranks, and connects the tree of allGather(). `machine`: equal for ranks of one
  // host. `network`: the one to use, "10.77.0.0/24", where the host has several; "": all but the loopback interface.
  Status start(AddressBook &book, uint64_t machine, const std::string &network);

  // The machine of each rank, after start().
  std::vector<uint64_t> machines() const;

  size_t stream(int peer, int lane) override;
  Status seal() override;
  uint64_t send(size_t stream, Part part) override { return streams.post(stream, Streams::Direction::kSend, part); }
  uint64_t receive(size_t stream, Part part) override { return streams.post(stream, Streams::Direction::kReceive, part); }
  Status waitSent(size_t stream, uint64_t number, bool naps) override { return wait(stream, Streams::Direction::kSend, number, naps); }
  Status waitReceived(size_t stream, uint64_t number, bool naps) override {
    return wait(stream, Streams::Direction::kReceive, number, naps);
  }
  Status allGather(const void *mine, size_t bytes, void *all) override;
  void tellWait(int rank, bool speaks) override { words.tellWait(rank, speaks ? WaitReports::kSpeaksBefore : 0); }
  void watch(std::function<Status()> check) override { place.check = std::move(check); }
  void abort() override;

private:
  // The lane of allGather().
  static constexpr int kControl = -1;

  // A wait that became a long one.
  struct LongWait {
    size_t stream;
    double begin;         // seconds, as of the clock
    double lostSince = 0; // when the host of the peer was found lost; 0: it is not
    bool isTold = false;  // to the other ranks
    bool hasSpoken = false;
  };

  Status wait(size_t stream, Streams::Direction direction, uint64_t number, bool naps);
  Status waitLong(size_t stream, Streams::Direction direction, uint64_t number, bool naps);
  Status look(LongWait &wait);
  Status describeBroken(size_t stream);
  Status connect();
  Status move(size_t stream, Streams::Direction direction, char *data, size_t bytes);

  int self;
  MeetingPlace place;
  Socket listener;
  Words words;
  Streams streams;
  std::mutex failing;                            // held around `failure`
  Status failure;                                // of the first wait that failed
  std::map<std::pair<int, int>, size_t> numbers; // of the streams, by peer and lane
  std::vector<int> peers;                        // by stream
  std::vector<Appointment> appointments;         // streams that are not connected yet, the last ones
  int parent = -1;                               // in the tree of allGather(): its stream
  std::vector<std::pair<int, size_t>> children;  // ranks and streams, nearest first
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_TCP_TRANSPORT_H
