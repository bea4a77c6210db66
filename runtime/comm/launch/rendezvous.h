// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one host come to share memory: the first one makes an anonymous file and hands its descriptor to the others over a local
// socket. The socket's name is abstract and the file has none, so that a job which is killed leaves nothing behind, and the size of
// /dev/shm does not matter.

#ifndef ASHLAR_RUNTIME_COMM_LAUNCH_RENDEZVOUS_H
#define ASHLAR_RUNTIME_COMM_LAUNCH_RENDEZVOUS_H

#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::rt {

// The members of a rendezvous, and its place. Alike on all of them except for `self`.
struct Rendezvous {
  std::string name;                            // of the socket
  uint64_t token = 0;                          // by which processes of the job know each other
  std::vector<int> ranks;                      // of the host; the first offers
  size_t self = 0;                             // index into them
  double patience = 0;                         // seconds until all have to be there
  std::string remedy = "start each rank once"; // where another process is the same rank
};

// Sends `descriptor` to the other processes of the rendezvous, of the same user. Returns when all have it, with an error when some do not
// come in time, or when two claim the same rank. Other connections are turned away.
Status offerDescriptor(const Rendezvous &rendezvous, int descriptor);

// Receives a descriptor of our own from the process that offers it; waits for that process to come up.
Status receiveDescriptor(const Rendezvous &rendezvous, int &descriptor);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_LAUNCH_RENDEZVOUS_H
