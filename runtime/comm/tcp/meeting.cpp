// SPDX-License-Identifier: Apache-2.0
//
// The loop of a meeting: callers and guests, each with a state of its own, on one poll().

#include "runtime/comm/tcp/meeting.h"

#include "runtime/base/clock.h"
#include "runtime/comm/tcp/caller.h"
#include "runtime/comm/tcp/guests.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/resource.h>

namespace ashlar::rt {
namespace {

// Seconds between two looks at the clock, at most, and between two checks.
constexpr double kTick = 0.05, kSecondsPerCheck = 0.2;

// Lets the process have as many sockets as the system allows it.
void raiseSocketLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

class Meeting {
public:
  Meeting(const MeetingPlace &place, std::vector<Appointment> &appointments)
      : place(place), appointments(appointments), guests(place, appointments) {
    for (Appointment &one : appointments) {
      if (place.firstAnswers ? place.self != 0 : one.peer > place.self) {
        callers.emplace_back(place, one);
      }
    }
  }

  Status run() {
    const double end = seconds() + place.patience;
    double nextCheck = 0;
    while (std::any_of(appointments.begin(), appointments.end(), [](const Appointment &one) { return one.socket.fd < 0; })) {
      const double now = seconds();
      if (now > end) {
        return describeMissing();
      }
      if (now > nextCheck && place.check) {
        nextCheck = now + kSecondsPerCheck;
        ASHLAR_RETURN_IF_ERROR(place.check());
      }
      waits.assign(1, pollfd{place.listener, POLLIN, 0});
      guests.addWaits(waits);
      for (Caller &caller : callers) {
        ASHLAR_RETURN_IF_ERROR(caller.goOn(now));
        caller.addWaits(waits);
      }
      poll(waits.data(), waits.size(), static_cast<int>(1000 * kTick));
      size_t next = 1;
      ASHLAR_RETURN_IF_ERROR(guests.answer(waits, next));
      for (Caller &caller : callers) {
        caller.hear(waits, next);
      }
      if (waits[0].revents != 0) {
        guests.accept();
      }
    }
    return Status();
  }

private:
  // The first stream that is not there.
  Status describeMissing() const {
    for (const Caller &caller : callers) {
      if (!caller.isDone()) {
        return caller.describe();
      }
    }
    const auto missing = std::find_if(appointments.begin(), appointments.end(), [](const Appointment &one) { return one.socket.fd < 0; });
    return unavailable(
        "rank {} did not connect to rank {} within {:.0f} s (ASHLAR_PATIENCE); if the hosts share several networks, choose one "
        "with ASHLAR_NETWORK",
        missing->peer, place.self, place.patience);
  }

  const MeetingPlace &place;
  std::vector<Appointment> &appointments;
  Guests guests;
  std::vector<Caller> callers;
  std::vector<pollfd> waits; // the listener, those of guests, those of callers
};

} // namespace

Status openListener(const Address *address, Socket &listener, uint16_t &port) {
  raiseSocketLimit();
  int family = 0;
  ASHLAR_RETURN_IF_ERROR(openSocket(SOCK_STREAM, address, listener, family, port));
  if (listen(listener.fd, SOMAXCONN) != 0) {
    return unavailable("cannot listen at port {} for the ranks of other hosts: {}", port, std::strerror(errno));
  }
  return Status();
}

Status meet(const MeetingPlace &place, std::vector<Appointment> &appointments) {
  return Meeting(place, appointments).run();
}

} // namespace ashlar::rt
