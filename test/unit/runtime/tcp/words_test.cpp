// SPDX-License-Identifier: Apache-2.0
//
// Words between ranks over real datagrams; forged and replayed ones are ignored.

#include "runtime/comm/tcp/words.h"

#include <catch2/catch.hpp>

#include <poll.h>

namespace ashlar::test::words_test {

using namespace ashlar::rt;

namespace {

// Three ranks, and a stranger who knows their ports.
struct Job {
  Job() {
    Address address;
    REQUIRE(parseAddress("127.0.0.1/8", address));
    REQUIRE(drawRandom(key.data(), key.size()).ok());
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(std::make_unique<Words>(rank, 3));
      cards.emplace_back();
      cards.back().addresses = {address};
      REQUIRE(ranks.back()->open(&address, cards.back().wordPort).ok());
    }
    for (const auto &words : ranks) {
      words->begin(key, cards);
    }
    int family = 0;
    uint16_t port = 0;
    REQUIRE(openSocket(SOCK_DGRAM, &address, stranger, family, port).ok());
  }

  // Sends bytes to rank 0.
  void send(const void *data, size_t bytes) {
    socklen_t length = 0;
    const sockaddr_storage to = cards[0].addresses[0].withPort(cards[0].wordPort, AF_INET, length);
    REQUIRE(sendto(stranger.fd, data, bytes, 0, reinterpret_cast<const sockaddr *>(&to), length) == static_cast<ssize_t>(bytes));
  }

  // A word of rank 1, with the right proof.
  Word wordOf(uint64_t number, int whom, bool gaveUp) const {
    Word word = {number, /*rank=*/1, whom, /*speaks=*/1, gaveUp, {}, {}};
    word.proof = prove(key, word);
    return word;
  }

  Key key;
  std::vector<Card> cards;
  std::vector<std::unique_ptr<Words>> ranks;
  Socket stranger;
};

} // namespace

TEST_CASE("words: waits and ends are heard", "[runtime][comm][tcp]") {
  Job job;
  job.ranks[0]->tellWait(1, /*speaks=*/true);
  job.ranks[1]->tellWait(2, /*speaks=*/true);
  CHECK(!job.ranks[0]->listen());
  CHECK(job.ranks[0]->culprit() == 2);
  CHECK(job.ranks[0]->isFirst());
  CHECK(!job.ranks[1]->listen());
  CHECK(!job.ranks[1]->isFirst());
  job.ranks[1]->tellWait(WaitReports::kNobody, /*speaks=*/false);
  job.ranks[0]->listen();
  CHECK(job.ranks[0]->culprit() == 1);
  job.ranks[2]->tellEnd();
  CHECK(job.ranks[0]->listen());
  CHECK(job.ranks[1]->listen());
  CHECK(!job.ranks[2]->listen());
}

TEST_CASE("words: replayed ones are ignored", "[runtime][comm][tcp]") {
  Job job;
  job.ranks[0]->tellWait(1, /*speaks=*/true);
  const Word first = job.wordOf(/*number=*/1, /*whom=*/2, /*gaveUp=*/false);
  const Word second = job.wordOf(/*number=*/2, WaitReports::kNobody, /*gaveUp=*/false);
  job.send(&first, sizeof(first));
  job.ranks[0]->listen();
  CHECK(job.ranks[0]->culprit() == 2);
  job.send(&second, sizeof(second));
  job.ranks[0]->listen();
  CHECK(job.ranks[0]->culprit() == 1);
  job.send(&first, sizeof(first)); // what it says is over
  job.ranks[0]->listen();
  CHECK(job.ranks[0]->culprit() == 1);
}

TEST_CASE("words: forged ones are ignored", "[runtime][comm][tcp]") {
  Job job;
  const Word good = job.wordOf(/*number=*/9, /*whom=*/2, /*gaveUp=*/true);
  Word forged = good;
  forged.proof[31] ^= 1;
  job.send(&forged, sizeof(forged));
  forged = good;
  forged.number = 10; // the proof covers all of it
  job.send(&forged, sizeof(forged));
  forged = job.wordOf(/*number=*/11, /*whom=*/3, /*gaveUp=*/true); // there is no such rank
  job.send(&forged, sizeof(forged));
  forged = job.wordOf(/*number=*/12, /*whom=*/0, /*gaveUp=*/true);
  forged.rank = 1 << 30;
  forged.proof = prove(job.key, forged);
  job.send(&forged, sizeof(forged));
  job.send(&good, sizeof(good) - 1);
  char longer[sizeof(good) + 1] = {};
  std::memcpy(longer, &good, sizeof(good));
  job.send(longer, sizeof(longer));
  job.send("", 0);
  CHECK(!job.ranks[0]->listen());
  job.send(&good, sizeof(good));
  CHECK(job.ranks[0]->listen());
}

TEST_CASE("words: a flood does not keep a rank", "[runtime][comm][tcp]") {
  Job job;
  for (int i = 0; i < 100; ++i) {
    job.send("flood", 5);
  }
  CHECK(!job.ranks[0]->listen());
  job.ranks[1]->tellEnd();
  CHECK(job.ranks[0]->listen());
}

} // namespace ashlar::test::words_test
