// SPDX-License-Identifier: Apache-2.0
//
// The side of a meeting that answers: connections that have not proved yet that they belong to the job.

#ifndef ASHLAR_RUNTIME_COMM_TCP_GUESTS_H
#define ASHLAR_RUNTIME_COMM_TCP_GUESTS_H

#include "runtime/comm/tcp/meeting.h"

#include <poll.h>

namespace ashlar::rt {

// State: the guests. Each may stay for some seconds; where there are too many, the oldest goes: one of the job is done in two round trips.
class Guests {
public:
  Guests(const MeetingPlace &place, std::vector<Appointment> &appointments) : place(place), appointments(appointments) {}

  // Accepts who waits at the listener.
  void accept();

  // Adds what the guests are waited for.
  void addWaits(std::vector<pollfd> &waits) const;

  // Takes in what guests sent, and turns strangers away. `next`: place of the first of their waits, moved behind the last.
  Status answer(const std::vector<pollfd> &waits, size_t &next);

private:
  struct Guest {
    Socket socket;
    double end = 0; // by when it has to be done
    Hello hello = {};
    Nonce nonce = {};
    Digest proof = {};
    size_t got = 0; // bytes of Hello and proof
  };
  enum class Verdict { kStays, kGoes, kIsOurs };

  Verdict read(Guest &guest);
  Verdict challenge(Guest &guest);
  Verdict judge(Guest &guest);

  const MeetingPlace &place;
  std::vector<Appointment> &appointments;
  std::vector<Guest> guests;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_GUESTS_H
