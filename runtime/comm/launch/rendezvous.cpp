// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one host come to share memory: a descriptor travels over an abstract local socket (unix(7), SCM_RIGHTS). Anybody may
// connect to such a socket, so a process is served once it has said which rank of this job it is, and nobody is waited for alone.

#include "runtime/comm/launch/rendezvous.h"

#include "runtime/base/clock.h"
#include "runtime/comm/tcp/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace ashlar::rt {
namespace {

constexpr useconds_t kRetryMicroseconds = 100;

// Connections that have not said who they are: seconds they may take, and how many are kept.
constexpr double kGreetingSeconds = 5;
constexpr size_t kGuests = 256;

constexpr uint64_t kMagic = 0x7473657571657231;

// What the one who joins says, and what it is answered.
struct Greeting {
  uint64_t magic;
  uint64_t token;
  int64_t rank; // of the one who joins
};
enum class Answer : char { kWelcome = 1, kTwice = 2 };

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

  char byte = 0; // Answer
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
};

bool sendDescriptor(int fd, int descriptor) {
  Message message;
  message.byte = static_cast<char>(Answer::kWelcome);
  cmsghdr *control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &descriptor, sizeof(int));
  return sendmsg(fd, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
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

// The side of the first rank.
class Host {
public:
  Host(const Rendezvous &rendezvous, int descriptor)
      : rendezvous(rendezvous), descriptor(descriptor), served(rendezvous.ranks.size(), false) {
    served[rendezvous.self] = true;
  }

  Status open() {
    sockaddr_un address;
    socklen_t length = makeAddress(rendezvous.name, address);
    bool bound = listener.fd >= 0 && bind(listener.fd, reinterpret_cast<sockaddr *>(&address), length) == 0;
    if (!bound && errno == EADDRINUSE) {
      return unavailable("another process has the local socket {} of rank {} of this job; {}", rendezvous.name,
                         rendezvous.ranks[rendezvous.self], rendezvous.remedy);
    }
    if (!bound || listen(listener.fd, SOMAXCONN) != 0) {
      return unavailable("cannot open the local socket {} for the other ranks of this host: {}", rendezvous.name, std::strerror(errno));
    }
    return Status();
  }

  // Serves until every rank has the descriptor.
  Status serve() {
    const double end = seconds() + rendezvous.patience;
    while (std::find(served.begin(), served.end(), false) != served.end()) {
      const double now = seconds();
      if (now > end) {
        return unavailable("{} of this host did not come up within {} s (ASHLAR_PATIENCE)", missing(), rendezvous.patience);
      }
      std::vector<pollfd> waits = {{listener.fd, POLLIN, 0}};
      for (const Guest &guest : guests) {
        waits.push_back({guest.socket.fd, POLLIN, 0});
      }
      poll(waits.data(), waits.size(), static_cast<int>(1000 * std::min(end - now, kGreetingSeconds)) + 1);
      for (size_t i = guests.size(); i-- > 0;) { // before others come
        if (waits[i + 1].revents != 0) {
          ASHLAR_RETURN_IF_ERROR(answer(guests[i].socket.fd));
        }
        if (waits[i + 1].revents != 0 || seconds() > guests[i].end) {
          guests.erase(guests.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      if (waits[0].revents != 0) {
        accept();
      }
    }
    return Status();
  }

private:
  struct Guest {
    Socket socket;
    double end; // by when it has to say who it is
  };

  void accept() {
    Socket peer(accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd < 0 || !isOwnUser(peer.fd)) {
      return;
    }
    if (guests.size() == kGuests) {
      guests.erase(guests.begin());
    }
    guests.push_back(Guest{std::move(peer), seconds() + kGreetingSeconds});
  }

  // Serves a process that said something, if it is one of the job.
  Status answer(int fd) {
    Greeting greeting = {};
    if (recv(fd, &greeting, sizeof(greeting), MSG_DONTWAIT) != sizeof(greeting) || greeting.magic != kMagic ||
        greeting.token != rendezvous.token) {
      return Status();
    }
    const auto found = std::find(rendezvous.ranks.begin(), rendezvous.ranks.end(), greeting.rank);
    const size_t index = static_cast<size_t>(found - rendezvous.ranks.begin());
    if (found == rendezvous.ranks.end() || served[index]) {
      const Answer twice = Answer::kTwice;
      send(fd, &twice, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      return invalid("two processes claim rank {} of this job; {}", greeting.rank, rendezvous.remedy);
    }
    served[index] = sendDescriptor(fd, descriptor);
    return Status();
  }

  // "rank 2", "ranks 2, 3".
  std::string missing() const {
    std::string list;
    size_t count = 0;
    for (size_t i = 0; i < served.size(); ++i) {
      if (!served[i]) {
        list += fmt::format("{}{}", ++count == 1 ? "" : ", ", rendezvous.ranks[i]);
      }
    }
    return fmt::format("rank{} {}", count == 1 ? "" : "s", list);
  }

  const Rendezvous &rendezvous;
  int descriptor;
  Socket listener{openSocket()};
  std::vector<bool> served; // by index into the ranks
  std::vector<Guest> guests;
};

// Connects to the first rank once it is there.
Status reach(const Rendezvous &rendezvous, double end, const Socket &peer) {
  // A process that does not accept must not hold us for ever.
  timeval patience = {1, 0};
  setsockopt(peer.fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  sockaddr_un address;
  socklen_t length = makeAddress(rendezvous.name, address);
  while (connect(peer.fd, reinterpret_cast<sockaddr *>(&address), length) != 0) {
    if (errno != ECONNREFUSED && errno != EINTR && errno != EAGAIN) {
      return unavailable("cannot reach the local socket {} of rank {}: {}", rendezvous.name, rendezvous.ranks[0], std::strerror(errno));
    }
    if (seconds() > end) {
      return unavailable("rank {} waited {} s for rank {}, the first of this host, to come up (ASHLAR_PATIENCE)",
                         rendezvous.ranks[rendezvous.self], rendezvous.patience, rendezvous.ranks[0]);
    }
    usleep(kRetryMicroseconds);
  }
  return isOwnUser(peer.fd) ? Status() : unavailable("the local socket {} belongs to another user", rendezvous.name);
}

} // namespace

Status offerDescriptor(const Rendezvous &rendezvous, int descriptor) {
  Host host(rendezvous, descriptor);
  ASHLAR_RETURN_IF_ERROR(host.open());
  return host.serve();
}

Status receiveDescriptor(const Rendezvous &rendezvous, int &descriptor) {
  const double end = seconds() + rendezvous.patience;
  Socket peer(openSocket());
  ASHLAR_RETURN_IF_ERROR(reach(rendezvous, end, peer));
  const Greeting greeting = {kMagic, rendezvous.token, rendezvous.ranks[rendezvous.self]};
  if (send(peer.fd, &greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting)) {
    return unavailable("cannot greet rank {}, the first of this host: {}", rendezvous.ranks[0], std::strerror(errno));
  }
  if (!waitReadable(peer.fd, end)) {
    return unavailable("rank {}, the first of this host, shared no memory within {} s (ASHLAR_PATIENCE)", rendezvous.ranks[0],
                       rendezvous.patience);
  }
  Message message;
  if (recvmsg(peer.fd, &message.header, MSG_CMSG_CLOEXEC) != 1) {
    return unavailable("rank {}, the first of this host, ended before it shared its memory", rendezvous.ranks[0]);
  }
  if (message.byte == static_cast<char>(Answer::kTwice)) {
    return Status(StatusCode::kAborted, "another process is this rank too"); // the first rank says so
  }
  cmsghdr *control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) {
    return unavailable("rank {}, the first of this host, shared no memory over {}", rendezvous.ranks[0], rendezvous.name);
  }
  std::memcpy(&descriptor, CMSG_DATA(control), sizeof(int));
  return Status();
}

} // namespace ashlar::rt
