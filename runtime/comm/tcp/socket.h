// SPDX-License-Identifier: Apache-2.0
//
// Sockets, each closed with its owner.

#ifndef ASHLAR_RUNTIME_COMM_TCP_SOCKET_H
#define ASHLAR_RUNTIME_COMM_TCP_SOCKET_H

#include "runtime/comm/tcp/addresses.h"

#include <utility>

#include <unistd.h>

namespace ashlar::rt {

// A descriptor.
struct Socket {
  Socket() = default;
  explicit Socket(int descriptor) : fd(descriptor) {}
  ~Socket() { reset(); }
  Socket(Socket &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }

  // Closes it.
  void reset() {
    if (fd >= 0) {
      close(std::exchange(fd, -1));
    }
  }

  int fd = -1; // -1: none
};

// Opens a socket that does not block, of a type such as SOCK_STREAM, at a port, one of the system's choice where it is 0: at the address,
// or at all addresses of this host where it is null. Sets its family, AF_INET6 where it serves both.
Status openSocket(int type, const Address *address, Socket &socket, int &family, uint16_t &port);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_SOCKET_H
