// SPDX-License-Identifier: Apache-2.0
//
// How ranks meet among strangers: connections of all kinds stop nothing, and nobody without the key becomes a stream.

#include "test/unit/runtime/tcp/ranks.h"

#include "runtime/base/clock.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>

#include <netinet/in.h>

namespace ashlar::test::meeting_test {

using namespace ashlar::rt;
using ashlar::test::Board;
using ashlar::test::runRanks;

namespace {

// Connects to a port of this host; returns no socket where nobody listens.
Socket reach(uint16_t port) {
  Address address;
  REQUIRE(parseAddress("127.0.0.1/8", address));
  socklen_t length = 0;
  const sockaddr_storage to = address.withPort(port, AF_INET, length);
  Socket result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(result.fd, reinterpret_cast<const sockaddr *>(&to), length) != 0) {
    result.reset();
  }
  return result;
}

// What strangers of eight kinds say: nothing, and go or stay; one byte; garbage; HTTP; our magic; a greeting with a wrong proof; one for
// another rank. Kind 0 goes again.
std::string sayingOf(int kind) {
  Hello hello = {kHelloMagic, {/*caller=*/0, /*host=*/1, /*lane=*/-1}, {}};
  auto bytesOf = [](const auto &value) { return std::string(reinterpret_cast<const char *>(&value), sizeof(value)); };
  switch (kind) {
  case 2:
    return "O";
  case 3:
    return std::string(500, '\xa5');
  case 4:
    return "GET / HTTP/1.0\r\n\r\n";
  case 5:
    return bytesOf(kHelloMagic);
  case 6:
    return bytesOf(hello) + std::string(sizeof(Digest), 'x');
  case 7:
    hello.stream.host = 7;
    return bytesOf(hello);
  default:
    return "";
  }
}

// Connects 144 strangers of all kinds to a port.
std::vector<Socket> crowd(uint16_t port) {
  std::vector<Socket> held;
  for (int i = 0; i < 144; ++i) {
    Socket one = reach(port);
    REQUIRE(one.fd >= 0);
    const std::string saying = sayingOf(i % 8);
    send(one.fd, saying.data(), saying.size(), MSG_NOSIGNAL);
    if (i % 8 != 0) {
      held.push_back(std::move(one));
    }
  }
  return held;
}

uint16_t portOf(const std::string &text) {
  Card card;
  REQUIRE(Card::parse(text, card));
  return card.port;
}

} // namespace

TEST_CASE("meeting: strangers of all kinds hold up nobody, and after seal() nobody listens", "[runtime][comm][tcp]") {
  Board board(2);
  std::vector<Socket> strangers;
  std::vector<uint16_t> ports;
  board.onComplete = [&](const std::vector<std::string> &texts) { // before the first rank calls
    for (const std::string &text : texts) {
      ports.push_back(portOf(text));
      std::vector<Socket> held = crowd(ports.back());
      std::move(held.begin(), held.end(), std::back_inserter(strangers));
    }
  };
  const double begin = seconds();
  Status status = runRanks(board, 2, [&](int rank, Transport &transport) {
    const size_t stream = transport.stream(1 - rank, kCollectives);
    std::vector<Socket> more = crowd(ports[static_cast<size_t>(rank)]);
    ASHLAR_RETURN_IF_ERROR(transport.seal());
    if (reach(ports[static_cast<size_t>(rank)]).fd >= 0) {
      return internal("rank {} listens after seal()", rank);
    }
    char mine = static_cast<char>(rank), theirs = 9;
    const uint64_t sent = transport.send(stream, {&mine, 1}), received = transport.receive(stream, {&theirs, 1});
    ASHLAR_RETURN_IF_ERROR(transport.waitReceived(stream, received));
    ASHLAR_RETURN_IF_ERROR(transport.waitSent(stream, sent));
    return theirs == 1 - rank ? Status() : internal("rank {} received {}", rank, theirs);
  });
  CHECK(status.message() == "");
  CHECK(seconds() - begin < 2);
}

TEST_CASE("meeting: more strangers than there is room for do not keep a rank out", "[runtime][comm][tcp]") {
  setenv("ASHLAR_PATIENCE", "10", /*overwrite=*/1);
  Board board(2);
  std::atomic<bool> isOver{false};
  std::thread crowds;
  board.onComplete = [&](const std::vector<std::string> &texts) {
    crowds = std::thread([&, port = portOf(texts[1])] {
      std::vector<Socket> held;
      while (!isOver) {
        held.push_back(reach(port));
        if (held.size() > 600) {
          held.erase(held.begin(), held.begin() + 300);
        }
      }
    });
  };
  Status status = runRanks(board, 2, [&](int rank, Transport &transport) {
    for (int lane = 0; lane < 20; ++lane) {
      transport.stream(1 - rank, lane);
    }
    return transport.seal();
  });
  isOver = true;
  crowds.join();
  CHECK(status.message() == "");
  unsetenv("ASHLAR_PATIENCE");
}

TEST_CASE("meeting: a rank with another key is none of the job", "[runtime][comm][tcp]") {
  Address address;
  REQUIRE(parseAddress("127.0.0.1/8", address));
  for (const bool isSame : {true, false}) {
    MeetingPlace places[2];
    Socket listeners[2];
    std::vector<Appointment> appointments[2];
    std::vector<Card> cards(2);
    for (int rank = 0; rank < 2; ++rank) {
      REQUIRE(openListener(&address, listeners[rank], cards[static_cast<size_t>(rank)].port).ok());
      cards[static_cast<size_t>(rank)].addresses = {address};
    }
    Status found[2];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      places[rank].self = rank;
      places[rank].key[0] = static_cast<uint8_t>(isSame ? 0 : rank);
      places[rank].listener = listeners[rank].fd;
      places[rank].cards = cards;
      places[rank].patience = 1;
      appointments[rank].push_back({1 - rank, /*lane=*/5, {}});
      threads.emplace_back([&, rank] { found[rank] = meet(places[rank], appointments[rank]); });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
    CHECK(found[0].ok() == isSame);
    CHECK(found[1].ok() == isSame);
    if (!isSame) {
      CHECK(found[0].message().find("rank 0 could not reach rank 1 at 127.0.0.1 within 1 s: the other side is no rank of this job") == 0);
      CHECK(found[1].message().find("rank 0 did not connect to rank 1 within 1 s (ASHLAR_PATIENCE)") == 0);
    }
  }
}

TEST_CASE("meeting: an address that leads nowhere, or to another process, costs a moment", "[runtime][comm][tcp]") {
  Socket listeners[2];
  Address real, silent, nobody;
  REQUIRE(parseAddress("127.0.0.1/8", real));
  REQUIRE(parseAddress("127.0.0.2/8", silent));
  REQUIRE(parseAddress("127.0.0.3/8", nobody)); // refuses
  std::vector<Card> cards(2);
  REQUIRE(openListener(&real, listeners[1], cards[1].port).ok());
  REQUIRE(openListener(&real, listeners[0], cards[0].port).ok());
  // Another process has the same port at another address; it accepts and says nothing.
  socklen_t length = 0;
  const sockaddr_storage name = silent.withPort(cards[1].port, AF_INET, length);
  const Socket other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE((bind(other.fd, reinterpret_cast<const sockaddr *>(&name), length) == 0 && listen(other.fd, 5) == 0));
  cards[0].addresses = {real};
  cards[1].addresses = {silent, nobody, real};
  MeetingPlace places[2];
  std::vector<Appointment> appointments[2];
  Status found[2];
  std::vector<std::thread> threads;
  const double begin = seconds();
  for (int rank = 0; rank < 2; ++rank) {
    places[rank] = {rank, {}, listeners[rank].fd, cards, /*patience=*/5, {}};
    appointments[rank].push_back({1 - rank, /*lane=*/0, {}});
    threads.emplace_back([&, rank] { found[rank] = meet(places[rank], appointments[rank]); });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  CHECK((found[0].ok() && found[1].ok()));
  CHECK(seconds() - begin < 1);
}

} // namespace ashlar::test::meeting_test
