// SPDX-License-Identifier: Apache-2.0
//
// Attempts of a caller: connect, hello, challenge, proof, welcome.

#include "runtime/comm/tcp/caller.h"

#include "runtime/base/clock.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ashlar::rt {
namespace {

// Seconds between two attempts; of a round over all addresses; and that an attempt may take until the other side has proved itself. The
// other side answers only while it meets, so this is no bound on the network alone.
constexpr double kStagger = 0.1, kPause = 0.2, kAttemptSeconds = 5;

} // namespace

Caller::Caller(const MeetingPlace &place, Appointment &appointment)
    : place(&place), appointment(&appointment),
      addresses(orderAddresses(place.cards[static_cast<size_t>(place.self)], place.cards[static_cast<size_t>(appointment.peer)])) {}

Status Caller::goOn(double now) {
  auto isLate = [&](const Attempt &attempt) { return !attempt.isProved && now > attempt.end; };
  attempts.erase(std::remove_if(attempts.begin(), attempts.end(), isLate), attempts.end());
  const bool isInRound = nextAddress < addresses.size();
  const bool isDue = attempts.empty() ? isInRound || now >= nextTime : isInRound && now >= nextTime;
  if (isDone() || hasProved() || !isDue) {
    return Status();
  }
  nextAddress %= addresses.size();
  const Address &address = addresses[nextAddress++];
  nextTime = now + (nextAddress == addresses.size() ? kPause : kStagger);
  Attempt attempt;
  attempt.socket = Socket(socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (attempt.socket.fd < 0 && errno != EAFNOSUPPORT) {
    return unavailable("no socket to connect to rank {}: {}", appointment->peer, std::strerror(errno));
  }
  socklen_t length = 0;
  const sockaddr_storage target = address.withPort(place->cards[static_cast<size_t>(appointment->peer)].port, address.family, length);
  attempt.end = now + kAttemptSeconds;
  if (connect(attempt.socket.fd, reinterpret_cast<const sockaddr *>(&target), length) == 0 || errno == EINPROGRESS) {
    attempts.push_back(std::move(attempt));
  } else {
    lastError = std::strerror(errno);
  }
  return Status();
}

void Caller::addWaits(std::vector<pollfd> &waits) const {
  for (const Attempt &attempt : attempts) {
    waits.push_back({attempt.socket.fd, static_cast<short>(attempt.isConnected ? POLLIN : POLLOUT), 0});
  }
}

void Caller::hear(const std::vector<pollfd> &waits, size_t &next) {
  const size_t first = next;
  next += attempts.size();
  for (size_t i = attempts.size(); i-- > 0;) {
    // A connection that ends before the welcome was turned away where there were too many guests: the next one has more luck.
    if (waits[first + i].revents != 0 && !isDone() && !step(attempts[i])) {
      attempts.erase(attempts.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (isDone()) {
    attempts.clear();
  }
}

bool Caller::hasProved() const {
  return std::any_of(attempts.begin(), attempts.end(), [](const Attempt &attempt) { return attempt.isProved; });
}

bool Caller::step(Attempt &attempt) {
  return attempt.isConnected ? read(attempt) : greet(attempt);
}

bool Caller::greet(Attempt &attempt) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(attempt.socket.fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
    lastError = std::strerror(error);
    return false;
  }
  attempt.isConnected = true;
  attempt.hello = {kHelloMagic, {place->self, appointment->peer, appointment->lane}, {}};
  return drawRandom(attempt.hello.nonce.data(), attempt.hello.nonce.size()).ok() &&
         send(attempt.socket.fd, &attempt.hello, sizeof(Hello), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(Hello);
}

// Reads no more than the greeting: what follows belongs to the stream.
bool Caller::read(Attempt &attempt) {
  uint8_t welcome = 0;
  const bool isChallenge = attempt.got < sizeof(Challenge);
  char *begin = isChallenge ? reinterpret_cast<char *>(&attempt.challenge) + attempt.got : reinterpret_cast<char *>(&welcome);
  const ssize_t got = recv(attempt.socket.fd, begin, isChallenge ? sizeof(Challenge) - attempt.got : 1, MSG_DONTWAIT);
  if (got <= 0) {
    lastError = got == 0 ? "the other side closed the connection" : std::strerror(errno);
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  attempt.got += static_cast<size_t>(got);
  if (attempt.got == sizeof(Challenge)) {
    return answer(attempt);
  }
  if (attempt.got > sizeof(Challenge)) {
    if (welcome != kWelcome) {
      return false;
    }
    appointment->socket = std::move(attempt.socket);
  }
  return true;
}

bool Caller::answer(Attempt &attempt) {
  const StreamName &stream = attempt.hello.stream;
  const Digest expected = prove(place->key, Side::kHost, stream, attempt.hello.nonce, attempt.challenge.nonce);
  if (!areEqual(expected, attempt.challenge.proof)) {
    lastError = "the other side is no rank of this job";
    return false;
  }
  if (hasProved()) { // the peer would get two
    return false;
  }
  const Digest mine = prove(place->key, Side::kCaller, stream, attempt.hello.nonce, attempt.challenge.nonce);
  attempt.isProved = send(attempt.socket.fd, mine.data(), mine.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(mine.size());
  return attempt.isProved;
}

Status Caller::describe() const {
  std::string list;
  for (const Address &address : addresses) {
    list += (list.empty() ? "" : ", ") + address.host();
  }
  return unavailable(
      "rank {} could not reach rank {} at {} within {:.0f} s: {} (ASHLAR_PATIENCE); if the hosts share several networks, choose "
      "one with ASHLAR_NETWORK",
      place->self, appointment->peer, list, place->patience, lastError);
}

} // namespace ashlar::rt
