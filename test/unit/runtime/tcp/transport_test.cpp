// SPDX-License-Identifier: Apache-2.0
//
// Streams between threads of this process, over real sockets: every byte arrives in order, whoever is late, and the end of a peer is found.

#include "test/unit/runtime/tcp/ranks.h"

#include "runtime/base/clock.h"
#include "runtime/comm/exchange.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <random>

namespace ashlar::test::transport_test {

using namespace ashlar::rt;
using ashlar::test::Board;
using ashlar::test::runRanks;

namespace {

// The byte at a place of the stream from `from` on a lane.
char byteAt(int from, int lane, size_t place) {
  uint64_t x = (static_cast<uint64_t>(from + 1) << 40) + (static_cast<uint64_t>(lane) << 48) + place / 8;
  x = (x ^ x >> 31) * 0x9e3779b97f4a7c15;
  return static_cast<char>((x ^ x >> 29) >> (8 * (place % 8)));
}

std::vector<char> bytesOf(int from, int lane, size_t bytes) {
  std::vector<char> result(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    result[i] = byteAt(from, lane, i);
  }
  return result;
}

// Cuts so many bytes at random places, now and then into nothing.
std::vector<size_t> cut(size_t bytes, std::mt19937 &dice) {
  std::vector<size_t> cuts;
  while (bytes > 0) {
    const size_t most = size_t{1} << dice() % 21;
    cuts.push_back(std::min<size_t>(dice() % 8 == 0 ? 0 : 1 + dice() % most, bytes));
    bytes -= cuts.back();
  }
  return cuts;
}

// Sends and receives `bytes` on a stream, cut at random, with waits at random.
Status converse(Transport &transport, int self, int peer, int lane, size_t stream, size_t bytes, bool naps) {
  std::mt19937 dice(static_cast<uint32_t>(1000 * lane + self));
  std::vector<char> outgoing = bytesOf(self, lane, bytes), incoming(bytes);
  const std::vector<size_t> sends = cut(bytes, dice), receives = cut(bytes, dice);
  size_t sent = 0, received = 0;
  uint64_t lastSent = 0, lastReceived = 0;
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    if (i < receives.size()) {
      lastReceived = transport.receive(stream, {incoming.data() + received, receives[i]});
      received += receives[i];
    }
    if (i < sends.size()) {
      lastSent = transport.send(stream, {outgoing.data() + sent, sends[i]});
      sent += sends[i];
    }
    if (dice() % 4 == 0 && received <= sent) { // the peer may wait for bytes that are not posted yet
      ASHLAR_RETURN_IF_ERROR(transport.waitSent(stream, lastSent, naps));
    }
  }
  ASHLAR_RETURN_IF_ERROR(transport.waitReceived(stream, lastReceived, naps));
  ASHLAR_RETURN_IF_ERROR(transport.waitSent(stream, lastSent, naps));
  return incoming == bytesOf(peer, lane, bytes) ? Status() : internal("rank {} received other bytes on lane {}", self, lane);
}

} // namespace

TEST_CASE("streams: random cuts, both ways, two threads a rank", "[runtime][comm][tcp]") {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{8} << 20}) {
    Board board(3);
    Status status = runRanks(board, 3, [&](int rank, Transport &transport) {
      std::vector<std::thread> threads;
      std::vector<Status> found(4);
      std::vector<std::function<void()>> bodies;
      for (int peer = 0; peer < 3; ++peer) {
        for (int lane = 0; lane < 2 && peer != rank; ++lane) {
          const size_t stream = transport.stream(peer, lane);
          CHECK(transport.stream(peer, lane) == stream);
          Status &mine = found[bodies.size()];
          bodies.emplace_back([&transport, &mine, rank, peer, lane, stream, bytes] {
            mine = converse(transport, rank, peer, lane, stream, bytes, /*naps=*/lane == kExchange);
          });
        }
      }
      ASHLAR_RETURN_IF_ERROR(transport.seal());
      for (const auto &body : bodies) {
        threads.emplace_back(body);
      }
      Status first;
      for (size_t i = 0; i < threads.size(); ++i) {
        threads[i].join();
        first.update(found[i]);
      }
      return first;
    });
    CHECK(status.message() == "");
  }
}

// Each of three ranks sends to the next one, in several posts, while another thread runs the lane of collectives.
TEST_CASE("streams: exchanges of any size beside collectives", "[runtime][comm][tcp]") {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{3} << 20) + 5}) {
    Board board(3);
    Status status = runRanks(board, 3, [&](int rank, Transport &transport) {
      const int next = (rank + 1) % 3, before = (rank + 2) % 3;
      Exchange exchange(transport, {next, before});
      const size_t stream = transport.stream(next, kCollectives);
      transport.stream(before, kCollectives);
      ASHLAR_RETURN_IF_ERROR(transport.seal());
      Status beside;
      std::thread collectives([&] {
        char sent = static_cast<char>(rank), received = 0;
        const size_t other = transport.stream(before, kCollectives);
        const uint64_t arrives = transport.receive(other, Part{&received, 1}), leaves = transport.send(stream, Part{&sent, 1});
        beside.update(transport.waitReceived(other, arrives));
        beside.update(transport.waitSent(stream, leaves));
        beside.update(received == before ? Status() : internal("rank {} received other bytes", rank));
      });
      Status found;
      for (int round = 0; round < 2; ++round) { // an exchange is used again
        std::vector<char> outgoing = bytesOf(rank, kExchange, 2 * bytes), incoming(2 * bytes);
        for (size_t part = 0; part < 2; ++part) {
          exchange.receive(before, Part{incoming.data() + part * bytes, bytes});
          exchange.send(next, Part{outgoing.data() + part * bytes, bytes});
        }
        found.update(exchange.wait());
        found.update(incoming == bytesOf(before, kExchange, 2 * bytes) ? Status() : internal("rank {} keeps other bytes", rank));
      }
      collectives.join();
      found.update(beside);
      return found;
    });
    CHECK(status.message() == "");
  }
}

// Runs two ranks with a stream between them.
// In front of the cases that use it.
Status runPair(const std::function<Status(int rank, Transport &transport, size_t stream)> &body) {
  Board board(2);
  return runRanks(board, 2, [&](int rank, Transport &transport) {
    const size_t stream = transport.stream(1 - rank, kCollectives);
    ASHLAR_RETURN_IF_ERROR(transport.seal());
    return body(rank, transport, stream);
  });
}

constexpr size_t kLarge = size_t{48} << 20; // more than the system keeps

TEST_CASE("streams: long messages move while their sender, or their receiver, computes", "[runtime][comm][tcp]") {
  for (const int busy : {0, 1}) { // rank 0 sends
    std::atomic<bool> isOther{false};
    Status status = runPair([&](int rank, Transport &transport, size_t stream) {
      std::vector<char> bytes(kLarge, static_cast<char>(rank));
      const uint64_t number =
          rank == 0 ? transport.send(stream, {bytes.data(), kLarge}) : transport.receive(stream, {bytes.data(), kLarge});
      const double begin = seconds();
      while (rank == busy && !isOther) {
        if (seconds() - begin > 10) {
          return internal("the peer of a busy rank {} waits for ever", rank);
        }
        usleep(1000);
      }
      ASHLAR_RETURN_IF_ERROR(rank == 0 ? transport.waitSent(stream, number) : transport.waitReceived(stream, number));
      isOther = true;
      return bytes[0] == 0 && bytes[kLarge - 1] == 0 ? Status() : internal("rank {} has other bytes", rank);
    });
    CHECK(status.message() == "");
  }
}

TEST_CASE("streams: a message whose receiver is late, and one of no bytes", "[runtime][comm][tcp]") {
  Status status = runPair([&](int rank, Transport &transport, size_t stream) {
    std::vector<char> bytes(kLarge / 4, static_cast<char>(rank));
    ASHLAR_RETURN_IF_ERROR(transport.waitSent(stream, 0)); // nothing
    ASHLAR_RETURN_IF_ERROR(transport.waitSent(stream, transport.send(stream, {bytes.data(), 0})));
    ASHLAR_RETURN_IF_ERROR(transport.waitReceived(stream, transport.receive(stream, {nullptr, 0})));
    if (rank == 1) {
      usleep(300 * 1000);
      return transport.waitReceived(stream, transport.receive(stream, {bytes.data(), bytes.size()}));
    }
    return transport.waitSent(stream, transport.send(stream, {bytes.data(), bytes.size()}));
  });
  CHECK(status.message() == "");
}

TEST_CASE("streams: a wait leaves the core to others", "[runtime][comm][tcp]") {
  Status status = runPair([&](int rank, Transport &transport, size_t stream) {
    char byte = 0;
    if (rank == 0) {
      usleep(500 * 1000);
      return transport.waitSent(stream, transport.send(stream, {&byte, 1}));
    }
    timespec before = {}, after = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    ASHLAR_RETURN_IF_ERROR(transport.waitReceived(stream, transport.receive(stream, {&byte, 1})));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double used = static_cast<double>(after.tv_sec - before.tv_sec) + 1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
    return used < 0.1 ? Status() : internal("a wait of 0.5 s takes {} s of a core", used);
  });
  CHECK(status.message() == "");
}

TEST_CASE("streams: the end of a peer is found", "[runtime][comm][tcp]") {
  for (const bool reports : {false, true}) {
    for (const bool sends : {false, true}) {
      Status found;
      Status status = runPair([&](int rank, Transport &transport, size_t stream) {
        if (rank == 0) {
          if (reports) {
            transport.abort();
          }
          return Status(); // its transport closes
        }
        std::vector<char> bytes(kLarge);
        const double begin = seconds();
        found = sends ? transport.waitSent(stream, transport.send(stream, {bytes.data(), kLarge}))
                      : transport.waitReceived(stream, transport.receive(stream, {bytes.data(), kLarge}));
        CHECK(seconds() - begin < 2);
        return Status();
      });
      CHECK(status.ok());
      CHECK((found.code() == StatusCode::kAborted) == reports);
      CHECK((reports || found.message().find("rank 0 terminated without reporting an error") == 0));
    }
  }
}

TEST_CASE("streams: after an abort nothing arrives, and other waits end", "[runtime][comm][tcp]") {
  std::atomic<bool> isAborted{false};
  Status status = runPair([&](int rank, Transport &transport, size_t stream) {
    std::vector<char> bytes(kLarge, static_cast<char>(rank));
    if (rank == 0) {
      while (!isAborted) {
        usleep(1000);
      }
      transport.send(stream, {bytes.data(), kLarge});
      usleep(300 * 1000);
      return Status();
    }
    const uint64_t number = transport.receive(stream, {bytes.data(), kLarge});
    Status beside;
    std::thread other([&] { beside = transport.waitReceived(stream, number, /*naps=*/true); });
    usleep(100 * 1000);
    transport.abort();
    other.join();
    isAborted = true;
    usleep(200 * 1000);
    CHECK(beside.code() == StatusCode::kAborted);
    CHECK(bytes == std::vector<char>(kLarge, 1));
    return Status();
  });
  CHECK(status.message() == "");
}

TEST_CASE("streams: what a rank sent before it ended arrives", "[runtime][comm][tcp]") {
  Status status = runPair([&](int rank, Transport &transport, size_t stream) {
    std::vector<char> bytes = bytesOf(0, 0, 1 << 20);
    if (rank == 0) {
      return transport.waitSent(stream, transport.send(stream, {bytes.data(), bytes.size()}));
    }
    usleep(200 * 1000);
    std::vector<char> received(bytes.size());
    ASHLAR_RETURN_IF_ERROR(transport.waitReceived(stream, transport.receive(stream, {received.data(), received.size()})));
    return received == bytes ? Status() : internal("other bytes");
  });
  CHECK(status.message() == "");
}

TEST_CASE("streams: a wait ends with the check of the rank, and where another rank gave up", "[runtime][comm][tcp]") {
  Status ofCheck, ofOther;
  Board board(3);
  Status status = runRanks(board, 3, [&](int rank, Transport &transport) {
    const size_t stream = transport.stream((rank + 1) % 3, kCollectives);
    transport.stream((rank + 2) % 3, kCollectives);
    ASHLAR_RETURN_IF_ERROR(transport.seal());
    char byte = 0;
    if (rank == 0) {
      transport.watch([] { return unavailable("of the check"); });
      ofCheck = transport.waitReceived(stream, transport.receive(stream, {&byte, 1}));
      transport.abort();
      usleep(500 * 1000);
    } else if (rank == 1) { // waits for rank 2, which goes on
      ofOther = transport.waitReceived(stream, transport.receive(stream, {&byte, 1}));
    } else {
      usleep(1000 * 1000);
    }
    return Status();
  });
  CHECK(status.ok());
  CHECK(ofCheck.message() == "of the check");
  CHECK(ofOther.code() == StatusCode::kAborted);
}

TEST_CASE("streams: a rank that does not come is named by those that wait for it, directly or not", "[runtime][comm][tcp]") {
  setenv("ASHLAR_PATIENCE", "1", /*overwrite=*/1);
  Status found[3];
  Board board(3);
  std::atomic<bool> isOver{false};
  Status status = runRanks(board, 3, [&](int rank, Transport &transport) {
    std::vector<size_t> streams;
    for (int peer = 0; peer < 3; ++peer) {
      streams.push_back(peer == rank ? 0 : transport.stream(peer, kCollectives));
    }
    ASHLAR_RETURN_IF_ERROR(transport.seal());
    char byte = 0;
    if (rank == 0) { // hangs
      while (!isOver) {
        usleep(10 * 1000);
      }
      return Status();
    }
    const size_t stream = streams[static_cast<size_t>(rank - 1)];
    found[rank] = transport.waitReceived(stream, transport.receive(stream, {&byte, 1}));
    if (found[rank].code() != StatusCode::kAborted) {
      transport.abort();
    }
    isOver = rank == 2;
    return Status();
  });
  CHECK(status.ok());
  CHECK(found[1].message().find("rank 0 did not come within 6 s") == 0);
  CHECK(found[2].code() == StatusCode::kAborted);
  unsetenv("ASHLAR_PATIENCE");
}

TEST_CASE("allGather: any number of ranks and bytes", "[runtime][comm][tcp]") {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 9}) {
    Board board(ranks);
    Status status = runRanks(board, ranks, [&](int rank, Transport &transport) {
      for (const size_t bytes : {size_t{1}, size_t{100}, size_t{300000}}) {
        std::vector<char> mine = bytesOf(rank, 0, bytes), all(bytes * static_cast<size_t>(ranks));
        ASHLAR_RETURN_IF_ERROR(transport.allGather(mine.data(), bytes, all.data()));
        for (int other = 0; other < ranks; ++other) {
          const std::vector<char> theirs = bytesOf(other, 0, bytes);
          if (std::memcmp(all.data() + static_cast<size_t>(other) * bytes, theirs.data(), bytes) != 0) {
            return internal("rank {} gathered other bytes from rank {}", rank, other);
          }
        }
      }
      return transport.seal();
    });
    CHECK(status.message() == "");
  }
}

} // namespace ashlar::test::transport_test
