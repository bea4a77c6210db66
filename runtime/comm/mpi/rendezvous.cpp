// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one host come to share memory: a descriptor travels over an abstract local socket (unix(7), SCM_RIGHTS).

#include "runtime/comm/mpi/rendezvous.h"

#include "runtime/base/clock.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr useconds_t kRetryMicroseconds = 100;

// Closes a socket when it goes out of scope.
class Socket {
public:
  explicit Socket(int descriptor) : fd(descriptor) {}
  ~Socket() {
    if (fd >= 0) {
      close(fd);
    }
  }
  Socket(const Socket &) = delete;
  Socket &operator=(const Socket &) = delete;

  const int fd;
};

int openSocket() {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

// An abstract address: a zero byte, then the name. Returns its length.
socklen_t makeAddress(const std::string &name, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

// Abstract names have no owner, so both sides look at whom they talk to.
bool isOwnUser(int fd) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == getuid();
}

// A message of one byte with room for one descriptor.
struct Message {
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }

  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
};

bool sendDescriptor(int fd, int descriptor) {
  Message message;
  cmsghdr *control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &descriptor, sizeof(int));
  return sendmsg(fd, &message.header, MSG_NOSIGNAL) == 1;
}

// Waits until the socket can be read or time is up.
bool waitReadable(int fd, double end) {
  for (;;) {
    double left = end - seconds();
    pollfd wait = {fd, POLLIN, 0};
    int ready = left > 0 ? poll(&wait, 1, static_cast<int>(left * 1000) + 1) : 0;
    if (ready > 0) {
      return true;
    }
    if (ready == 0 || errno != EINTR) {
      return false;
    }
  }
}

} // namespace

Status offerDescriptor(const std::string &name, int descriptor, int peers, double patience) {
  double end = seconds() + patience;
  Socket listener(openSocket());
  sockaddr_un address;
  socklen_t length = makeAddress(name, address);
  if (listener.fd < 0 || bind(listener.fd, reinterpret_cast<sockaddr *>(&address), length) != 0 || listen(listener.fd, peers) != 0) {
    return unavailable("cannot open the local socket {} for the other ranks of this host: {}", name, std::strerror(errno));
  }
  for (int served = 0; served < peers;) {
    if (!waitReadable(listener.fd, end)) {
      return unavailable("only {} of {} ranks of this host came up within {} s", served + 1, peers + 1, patience);
    }
    Socket peer(accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd >= 0 && isOwnUser(peer.fd) && sendDescriptor(peer.fd, descriptor)) {
      ++served;
    }
  }
  return Status();
}

Status receiveDescriptor(const std::string &name, double patience, int &descriptor) {
  double end = seconds() + patience;
  sockaddr_un address;
  socklen_t length = makeAddress(name, address);
  Socket peer(openSocket());
  while (connect(peer.fd, reinterpret_cast<sockaddr *>(&address), length) != 0) {
    if (errno != ECONNREFUSED && errno != EINTR && errno != EAGAIN) {
      return unavailable("cannot reach the local socket {} of this host's first rank: {}", name, std::strerror(errno));
    }
    if (seconds() > end) {
      return unavailable("waited {} s for the first rank of this host to come up", patience);
    }
    usleep(kRetryMicroseconds);
  }
  if (!isOwnUser(peer.fd)) {
    return unavailable("the local socket {} belongs to another user", name);
  }
  Message message;
  if (!waitReadable(peer.fd, end) || recvmsg(peer.fd, &message.header, MSG_CMSG_CLOEXEC) != 1) {
    return unavailable("the first rank of this host ended before it shared its memory");
  }
  cmsghdr *control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) {
    return unavailable("the first rank of this host shared no memory over {}", name);
  }
  std::memcpy(&descriptor, CMSG_DATA(control), sizeof(int));
  return Status();
}

} // namespace ashlar::rt
