// SPDX-License-Identifier: Apache-2.0
//
// Streams, their waits, and the tree of allGather(). The patience of a wait is that of waits within a host (docs/faults.md): the first of
// the ranks that wait speaks for all.

#include "runtime/comm/tcp/tcp_transport.h"

#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/comm/wait.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace ashlar::rt {
namespace {

// Seconds in which a wait only looks: on an idle machine with a fast network what it waits for is here by then. A rank that looks on and on
// uses up its share of a core that others want, too, and is away when the message comes; one that sleeps is back at once.
constexpr double kLookSeconds = 200e-6;

// Seconds in which ranks that begin to wait together hear of each other.
constexpr double kSettle = 1;

// Seconds that a rank whose peer closed its stream leaves others to report it: the ranks of the peer's host notice its end within two
// looks, and a rank that reported its own error has said so. Later ranks wait longer, so that one speaks.
constexpr double kClosedSettle = 0.5, kClosedStagger = 0.1;
constexpr int kMostStagger = 20;

// Seconds between two looks while it settles.
constexpr useconds_t kClosedNapMicroseconds = 10 * 1000;

// Times that a host which sends nothing is asked for a sign of life within the patience, and seconds between two, at least. It is lost when
// it has missed as many.
constexpr double kSigns = 10;
constexpr int kLeastSecondsPerSign = 1;

int secondsPerSign(double patience) {
  return std::max(kLeastSecondsPerSign, static_cast<int>(patience / kSigns));
}

// The number of ranks below `rank` in the tree, itself included: its lowest set bit; of rank 0 all.
int subtreeOf(int rank, int ranks) {
  return rank == 0 ? ranks : std::min(rank & -rank, ranks - rank);
}

} // namespace

Status TcpTransport::start(AddressBook &book, uint64_t machine, const std::string &network) {
  Card card;
  card.machine = machine;
  ASHLAR_RETURN_IF_ERROR(findAddresses(network, card.addresses));
  const Address *only = network.empty() ? nullptr : &card.addresses.front();
  if (only != nullptr) {
    card.addresses.resize(1);
  }
  ASHLAR_RETURN_IF_ERROR(openListener(only, listener, card.port));
  ASHLAR_RETURN_IF_ERROR(words.open(only, card.wordPort));
  if (self == 0) {
    ASHLAR_RETURN_IF_ERROR(drawRandom(card.key.data(), card.key.size()));
  }
  std::vector<std::string> texts;
  ASHLAR_RETURN_IF_ERROR(book.exchange(card.text(), texts));
  place.cards.resize(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!Card::parse(texts[rank], place.cards[rank])) {
      return internal("rank {} publishes no address: \"{}\"", rank, texts[rank]);
    }
  }
  place.key = place.cards[0].key;
  place.listener = listener.fd;
  words.begin(place.key, place.cards);
  const int ranks = static_cast<int>(place.cards.size());
  if (self != 0) {
    parent = static_cast<int>(stream(self - (self & -self), kControl));
  }
  for (int step = 1; step < subtreeOf(self, ranks) && self + step < ranks; step *= 2) {
    children.emplace_back(self + step, stream(self + step, kControl));
  }
  ASHLAR_RETURN_IF_ERROR(connect());
  // Nobody may call for a stream of seal() while another rank still meets for the tree, and does not expect it.
  const char mine = 0;
  std::vector<char> all(place.cards.size());
  return allGather(&mine, sizeof(mine), all.data());
}

std::vector<uint64_t> TcpTransport::machines() const {
  std::vector<uint64_t> result;
  for (const Card &card : place.cards) {
    result.push_back(card.machine);
  }
  return result;
}

size_t TcpTransport::stream(int peer, int lane) {
  const auto [found, isNew] = numbers.emplace(std::pair(peer, lane), peers.size());
  if (isNew) {
    assert(listener.fd >= 0 && peer != self && "a stream after seal(), or to this rank");
    peers.push_back(peer);
    appointments.push_back({peer, lane, {}});
  }
  return found->second;
}

Status TcpTransport::connect() {
  place.patience = patienceSeconds();
  ASHLAR_RETURN_IF_ERROR(meet(place, appointments));
  for (Appointment &one : appointments) {
    streams.add(std::move(one.socket), secondsPerSign(place.patience));
  }
  appointments.clear();
  return streams.start();
}

Status TcpTransport::seal() {
  ASHLAR_RETURN_IF_ERROR(connect());
  listener.reset();
  return Status();
}

void TcpTransport::abort() {
  words.tellEnd();
  streams.stop();
}

// After a failure nobody waits for what else was posted, and its places go. Another thread that waits fails for the same reason.
Status TcpTransport::wait(size_t stream, Streams::Direction direction, uint64_t number, bool naps) {
  Status status = waitLong(stream, direction, number, naps);
  if (status.ok()) {
    return status;
  }
  std::lock_guard<std::mutex> lock(failing);
  failure.update(status);
  streams.stop();
  return failure;
}

Status TcpTransport::waitLong(size_t stream, Streams::Direction direction, uint64_t number, bool naps) {
  const double begin = seconds(), looksUntil = naps ? begin : begin + kLookSeconds;
  LongWait wait = {stream, begin};
  Status status;
  for (double now = begin; status.ok(); now = seconds()) {
    const Streams::Outcome outcome = streams.wait(stream, direction, number, naps, looksUntil, now + kSecondsPerPeerCheck);
    if (outcome == Streams::Outcome::kDone) {
      break;
    }
    if (outcome == Streams::Outcome::kStopped) {
      return abortedStatus();
    }
    if (outcome == Streams::Outcome::kBroken) {
      return describeBroken(stream);
    }
    status = look(wait);
  }
  if (wait.isTold && status.ok()) { // another rank is not to speak once more while the job ends
    words.tellWait(WaitReports::kNobody, /*speaks=*/0);
  }
  return status;
}

// Looks around in a long wait. The first of the ranks that wait speaks for all; another one ends the job only when that one does not.
Status TcpTransport::look(LongWait &wait) {
  if (words.listen()) {
    return abortedStatus();
  }
  if (place.check) {
    ASHLAR_RETURN_IF_ERROR(place.check());
  }
  const int peer = peers[wait.stream];
  const double now = seconds(), waited = now - wait.begin;
  const double silent = streams.stateOf(wait.stream).silentSeconds;
  const bool isLost = waited > place.patience && silent > std::max(place.patience, kSigns * secondsPerSign(place.patience));
  wait.lostSince = !isLost ? 0 : wait.lostSince == 0 ? now : wait.lostSince;
  wait.isTold |= isLost || waited > kRemoteFactor * place.patience;
  if (wait.isTold) {
    words.tellWait(peer, isLost ? WaitReports::kFoundLost : 1);
  }
  if (isLost) {
    const bool speaks = now - wait.lostSince > kSettle + (words.isFirst() ? 0 : place.patience);
    return !speaks
               ? Status()
               : unavailable("the host of rank {} has not answered for {:.0f} s; it is down, or its network is (ASHLAR_PATIENCE={:.0f})",
                             peer, silent, place.patience);
  }
  const double patience = kRemoteFactor * place.patience, atMost = kEndAfter * patience + kSettle;
  const bool isFirst = words.isFirst();
  const bool ends = waited > atMost + (isFirst ? 0 : patience);
  if (!ends && (!isFirst || wait.hasSpoken || waited <= patience + kSettle)) {
    return Status();
  }
  const std::string whom = fmt::format("rank {}", words.culprit());
  if (ends) {
    return stuckStatus(whom, waited);
  }
  std::fputs(waitingLine(whom, waited, atMost).c_str(), stderr);
  wait.hasSpoken = true;
  return Status();
}

// A rank that ends closes its streams. Leaves it to that rank to have reported why, and to the ranks of its host to report that it did not.
Status TcpTransport::describeBroken(size_t stream) {
  const int rank = peers[stream];
  const std::string error = streams.stateOf(stream).error;
  const double end = seconds() + kClosedSettle + kClosedStagger * std::min(self, kMostStagger);
  while (seconds() < end) {
    if (words.listen()) {
      return abortedStatus();
    }
    if (place.check) {
      ASHLAR_RETURN_IF_ERROR(place.check());
    }
    usleep(kClosedNapMicroseconds);
  }
  return unavailable("rank {} terminated without reporting an error{}", rank, error.empty() ? "" : " (" + error + ")");
}

Status TcpTransport::move(size_t stream, Streams::Direction direction, char *data, size_t bytes) {
  return wait(stream, direction, streams.post(stream, direction, Part{data, bytes}), /*naps=*/false);
}

// Each rank collects the contributions of the ranks below it, which follow its own, and hands them to its parent; then all go down.
Status TcpTransport::allGather(const void *mine, size_t bytes, void *all) {
  char *const first = static_cast<char *>(all);
  const int ranks = static_cast<int>(place.cards.size());
  auto at = [&](int rank) { return first + static_cast<size_t>(rank) * bytes; };
  std::memcpy(at(self), mine, bytes);
  for (const auto &[child, childStream] : children) {
    const size_t below = static_cast<size_t>(subtreeOf(child, ranks)) * bytes;
    ASHLAR_RETURN_IF_ERROR(move(childStream, Streams::Direction::kReceive, at(child), below));
  }
  if (parent >= 0) {
    const size_t below = static_cast<size_t>(subtreeOf(self, ranks)) * bytes;
    ASHLAR_RETURN_IF_ERROR(move(static_cast<size_t>(parent), Streams::Direction::kSend, at(self), below));
    ASHLAR_RETURN_IF_ERROR(move(static_cast<size_t>(parent), Streams::Direction::kReceive, first, static_cast<size_t>(ranks) * bytes));
  }
  for (size_t i = children.size(); i-- > 0;) { // the one with the most ranks below it first
    ASHLAR_RETURN_IF_ERROR(move(children[i].second, Streams::Direction::kSend, first, static_cast<size_t>(ranks) * bytes));
  }
  return Status();
}

} // namespace ashlar::rt
