// SPDX-License-Identifier: Apache-2.0
//
// Words by UDP.

#include "runtime/comm/tcp/words.h"

#include "runtime/base/clock.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace ashlar::rt {
namespace {

// Seconds until a word that still holds is sent again.
constexpr double kRepeatSeconds = 1;

// Words that are taken in at a time: whoever sends more must not keep a rank busy.
constexpr int kMostWords = 1024;

// How often the last word of a rank is sent: nobody repeats it.
constexpr int kFarewells = 3;

} // namespace

Digest prove(const Key &key, const Word &word) {
  return hmac(key.data(), key.size(), &word, offsetof(Word, proof));
}

Status Words::open(const Address *address, uint16_t &port) {
  return openSocket(SOCK_DGRAM, address, socket, family, port);
}

void Words::begin(const Key &jobKey, const std::vector<Card> &cards) {
  std::lock_guard<std::mutex> lock(mutex);
  key = jobKey;
  for (const Card &card : cards) {
    Target target = {};
    const std::vector<Address> order = orderAddresses(cards[static_cast<size_t>(self)], card);
    // A socket of IPv4, on a host without IPv6, reaches no other address.
    const auto reached =
        std::find_if(order.begin(), order.end(), [&](const Address &address) { return family != AF_INET || address.family == AF_INET; });
    target.name = (reached == order.end() ? order.front() : *reached).withPort(card.wordPort, family, target.length);
    targets.push_back(target);
  }
}

void Words::send(int whom, int speaks, bool gaveUp) {
  Word word = {++number, self, whom, static_cast<uint8_t>(speaks), gaveUp, {}, {}};
  word.proof = prove(key, word);
  for (size_t rank = 0; rank < targets.size(); ++rank) {
    if (static_cast<int>(rank) != self) {
      const Target &target = targets[rank];
      sendto(socket.fd, &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr *>(&target.name), target.length);
    }
  }
}

void Words::tellWait(int whom, int speaks) {
  std::lock_guard<std::mutex> lock(mutex);
  const double now = seconds();
  const bool isNew = whom != lastWhom || speaks != lastSpeaks;
  reports.note(self, whom, speaks, now);
  if (isNew || (whom != WaitReports::kNobody && now - lastTime > kRepeatSeconds)) {
    send(whom, speaks, /*gaveUp=*/false);
    lastWhom = whom;
    lastSpeaks = speaks;
    lastTime = now;
  }
}

void Words::tellEnd() {
  std::lock_guard<std::mutex> lock(mutex);
  for (int i = 0; i < kFarewells; ++i) {
    send(WaitReports::kNobody, /*speaks=*/0, /*gaveUp=*/true);
  }
}

bool Words::listen() {
  std::lock_guard<std::mutex> lock(mutex);
  for (int i = 0; i < kMostWords; ++i) {
    Word word = {};
    const ssize_t got = recv(socket.fd, &word, sizeof(word), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && errno != EINTR && errno != ECONNREFUSED) { // refused: an answer to a word to a rank that ended
      break;
    }
    const int ranks = static_cast<int>(heard.size());
    const bool isWord =
        got == sizeof(word) && word.rank >= 0 && word.rank < ranks && word.whom >= WaitReports::kNobody && word.whom < ranks;
    if (!isWord || word.number <= heard[static_cast<size_t>(word.rank)] || !areEqual(word.proof, prove(key, word))) {
      continue;
    }
    heard[static_cast<size_t>(word.rank)] = word.number;
    reports.note(word.rank, word.whom, word.speaks, seconds());
    someGaveUp |= word.gaveUp != 0;
  }
  return someGaveUp;
}

int Words::culprit() {
  std::lock_guard<std::mutex> lock(mutex);
  return reports.culprit(seconds());
}

bool Words::isFirst() {
  std::lock_guard<std::mutex> lock(mutex);
  return reports.isFirst(seconds());
}

} // namespace ashlar::rt
