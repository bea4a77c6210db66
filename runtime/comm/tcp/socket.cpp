// SPDX-License-Identifier: Apache-2.0
//
// Sockets, and the ports they are opened at.

#include "runtime/comm/tcp/socket.h"

#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>

namespace ashlar::rt {

Status openSocket(int type, const Address *address, Socket &result, int &family, uint16_t &port) {
  const int flags = type | SOCK_NONBLOCK | SOCK_CLOEXEC;
  family = address != nullptr ? address->family : AF_INET6;
  result = Socket(socket(family, flags, 0));
  if (result.fd < 0 && address == nullptr) { // a kernel without IPv6
    family = AF_INET;
    result = Socket(socket(family, flags, 0));
  }
  Address any;
  any.family = family;
  if (const int on = 1; port != 0) { // connections of an earlier job may still be on their way out
    setsockopt(result.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (const int off = 0; address == nullptr && family == AF_INET6) {
    setsockopt(result.fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  socklen_t length = 0;
  sockaddr_storage name = (address != nullptr ? *address : any).withPort(port, family, length);
  if (result.fd < 0 || bind(result.fd, reinterpret_cast<sockaddr *>(&name), length) != 0 ||
      getsockname(result.fd, reinterpret_cast<sockaddr *>(&name), &length) != 0) {
    return unavailable("cannot open a socket at {}{} for the ranks of other hosts: {}", (address != nullptr ? *address : any).host(),
                       port != 0 ? fmt::format(" port {}", port) : "", std::strerror(errno));
  }
  port = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in &>(name).sin_port : reinterpret_cast<sockaddr_in6 &>(name).sin6_port);
  return Status();
}

} // namespace ashlar::rt
