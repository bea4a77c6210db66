// SPDX-License-Identifier: Apache-2.0
//
// The side of a meeting that calls: attempts at the addresses of a peer, the best one first, until one of them is the peer.

#ifndef ASHLAR_RUNTIME_COMM_TCP_CALLER_H
#define ASHLAR_RUNTIME_COMM_TCP_CALLER_H

#include "runtime/comm/tcp/meeting.h"

#include <poll.h>

namespace ashlar::rt {

// State: the attempts that are under way. One that gets no answer is joined by one at the next address a little later, so that an address
// which leads nowhere costs a moment; the first whose proof is right is the stream, and the others are dropped.
class Caller {
public:
  Caller(const MeetingPlace &place, Appointment &appointment);

  bool isDone() const { return appointment->socket.fd >= 0; }

  // Begins the next attempt when it is time. Fails when the system has no socket for it.
  Status goOn(double now);

  // Adds what the attempts are waited for.
  void addWaits(std::vector<pollfd> &waits) const;

  // Takes in what the other side sent. `next`: place of the first of its waits, moved behind the last.
  void hear(const std::vector<pollfd> &waits, size_t &next);

  // Returns the failure of a caller that got no stream in time.
  Status describe() const;

private:
  struct Attempt {
    Socket socket;
    double end = 0; // by when the other side has to have proved itself
    bool isConnected = false;
    bool isProved = false;
    Hello hello = {};
    Challenge challenge = {};
    size_t got = 0; // bytes of Challenge and kWelcome
  };

  // Takes the attempt one step on; false: it failed.
  bool step(Attempt &attempt);
  bool hasProved() const;
  bool greet(Attempt &attempt);
  bool read(Attempt &attempt);
  bool answer(Attempt &attempt);

  const MeetingPlace *place;
  Appointment *appointment;
  std::vector<Address> addresses;
  size_t nextAddress = 0;
  double nextTime = 0; // of the next attempt
  std::vector<Attempt> attempts;
  std::string lastError = "no answer";
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_CALLER_H
