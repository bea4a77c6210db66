// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one host come to share memory: the first one makes an anonymous file and hands its descriptor to the others over a local
// socket. The socket's name is abstract and the file has none, so that a job which is killed leaves nothing behind, and the size of
// /dev/shm does not matter.

#ifndef ASHLAR_RUNTIME_COMM_MPI_RENDEZVOUS_H
#define ASHLAR_RUNTIME_COMM_MPI_RENDEZVOUS_H

#include "runtime/base/status.h"

#include <string>

namespace ashlar::rt {

// Hands `descriptor` to `peers` other processes of the same user that call receiveDescriptor() with the same name. Returns when all have
// it, or with an error after `patience` seconds.
Status offerDescriptor(const std::string &name, int descriptor, int peers, double patience);

// Receives a descriptor of our own from the process that offers it under `name`; waits up to `patience` seconds for that process to come
// up.
Status receiveDescriptor(const std::string &name, double patience, int &descriptor);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_RENDEZVOUS_H
