// SPDX-License-Identifier: Apache-2.0
//
// Guests: hello, challenge, proof, welcome.

#include "runtime/comm/tcp/guests.h"

#include "runtime/base/clock.h"

#include <algorithm>
#include <cerrno>

namespace ashlar::rt {
namespace {

// Seconds that a guest may take, and how many there may be.
constexpr double kGuestSeconds = 5;
constexpr size_t kMostGuests = 256;

} // namespace

void Guests::accept() {
  for (;;) {
    Socket peer(accept4(place.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (peer.fd < 0 && errno != ECONNABORTED && errno != EINTR) {
      return;
    }
    if (peer.fd < 0) {
      continue;
    }
    if (guests.size() == kMostGuests) {
      guests.erase(guests.begin());
    }
    guests.emplace_back();
    guests.back().socket = std::move(peer);
    guests.back().end = seconds() + kGuestSeconds;
  }
}

void Guests::addWaits(std::vector<pollfd> &waits) const {
  for (const Guest &guest : guests) {
    waits.push_back({guest.socket.fd, POLLIN, 0});
  }
}

Status Guests::answer(const std::vector<pollfd> &waits, size_t &next) {
  const double now = seconds();
  const size_t first = next;
  next += guests.size();
  for (size_t i = guests.size(); i-- > 0;) {
    Guest &guest = guests[i];
    Verdict verdict = Verdict::kStays;
    if (waits[first + i].revents != 0) {
      verdict = read(guest);
    }
    if (verdict == Verdict::kIsOurs) {
      const auto one = std::find_if(appointments.begin(), appointments.end(), [&](const Appointment &a) {
        return a.peer == guest.hello.stream.caller && a.lane == guest.hello.stream.lane && a.socket.fd < 0;
      });
      if (one == appointments.end()) {
        return internal("rank {} connects to rank {} on lane {}, which is there already or not expected", guest.hello.stream.caller,
                        place.self, guest.hello.stream.lane);
      }
      if (send(guest.socket.fd, &kWelcome, sizeof(kWelcome), MSG_NOSIGNAL) == sizeof(kWelcome)) {
        one->socket = std::move(guest.socket);
      }
    }
    if (verdict != Verdict::kStays || now > guest.end) {
      guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return Status();
}

// Reads no more than the greeting: what follows belongs to the stream.
Guests::Verdict Guests::read(Guest &guest) {
  char *begin = guest.got < sizeof(Hello) ? reinterpret_cast<char *>(&guest.hello) : reinterpret_cast<char *>(guest.proof.data());
  const size_t done = guest.got < sizeof(Hello) ? guest.got : guest.got - sizeof(Hello);
  const size_t all = guest.got < sizeof(Hello) ? sizeof(Hello) : sizeof(Digest);
  const ssize_t got = recv(guest.socket.fd, begin + done, all - done, MSG_DONTWAIT);
  if (got <= 0) {
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? Verdict::kStays : Verdict::kGoes;
  }
  guest.got += static_cast<size_t>(got);
  if (guest.got == sizeof(Hello)) {
    return challenge(guest);
  }
  return guest.got == sizeof(Hello) + sizeof(Digest) ? judge(guest) : Verdict::kStays;
}

Guests::Verdict Guests::challenge(Guest &guest) {
  const StreamName &stream = guest.hello.stream;
  if (guest.hello.magic != kHelloMagic || stream.host != place.self || !drawRandom(guest.nonce.data(), guest.nonce.size()).ok()) {
    return Verdict::kGoes;
  }
  const Challenge answer = {guest.nonce, prove(place.key, Side::kHost, stream, guest.hello.nonce, guest.nonce)};
  return send(guest.socket.fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(answer) ? Verdict::kStays : Verdict::kGoes;
}

Guests::Verdict Guests::judge(Guest &guest) {
  const Digest expected = prove(place.key, Side::kCaller, guest.hello.stream, guest.hello.nonce, guest.nonce);
  return areEqual(expected, guest.proof) ? Verdict::kIsOurs : Verdict::kGoes;
}

} // namespace ashlar::rt
