// SPDX-License-Identifier: Apache-2.0
//
// How the streams of a rank come to be: one loop calls the ranks above this one and answers the ranks below it. Anybody may connect to the
// listener, so a connection is a stream once it has proved that it belongs to the job; until then it is a guest, who has little time and
// holds up nobody.

#ifndef ASHLAR_RUNTIME_COMM_TCP_MEETING_H
#define ASHLAR_RUNTIME_COMM_TCP_MEETING_H

#include "runtime/comm/tcp/addresses.h"
#include "runtime/comm/tcp/greeting.h"
#include "runtime/comm/tcp/socket.h"

#include <functional>
#include <vector>

namespace ashlar::rt {

// One stream to be connected.
struct Appointment {
  int peer;
  int lane;
  Socket socket; // the connected one
};

// The surroundings of a meeting. Outlives it.
struct MeetingPlace {
  int self = 0;                  // this rank
  Key key = {};                  // of the job
  int listener = -1;             // this rank's, which does not block
  std::vector<Card> cards;       // of all ranks
  double patience = 0;           // seconds until all streams have to be there
  std::function<Status()> check; // called several times a second; its error ends the meeting
  bool firstAnswers = false;     // rank 0 answers all others, which call; else the lower rank of two calls
};

// Opens a listener at a port, one of the system's choice where it is 0: at the address, or at all addresses of this host where it is null.
Status openListener(const Address *address, Socket &listener, uint16_t &port);

// Connects all appointments; waits for the other sides, which have the same ones.
Status meet(const MeetingPlace &place, std::vector<Appointment> &appointments);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_MEETING_H
