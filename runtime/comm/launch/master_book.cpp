// SPDX-License-Identifier: Apache-2.0
//
// A star of connections around rank 0. Each text is sent as its length, an u32, and its bytes.

#include "runtime/comm/launch/master_book.h"

#include "runtime/abi/regular_file.h"
#include "runtime/base/clock.h"
#include "runtime/base/host.h"
#include "runtime/comm/launch/launcher.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <netdb.h>
#include <poll.h>

namespace ashlar::rt {
namespace {

constexpr size_t kLeastKeyBytes = 32, kMostKeyBytes = 1 << 16;
constexpr uint32_t kMostTextBytes = 1 << 16;

// The lane of the connections: no stream has it.
constexpr int kLane = -2;

constexpr useconds_t kLookUpMicroseconds = 200 * 1000;

// Reads the secret of the job.
Status readKey(Key &key) {
  const std::string path = environmentText("ASHLAR_KEY_FILE");
  if (path.empty()) {
    return invalid(
        "ranks on several hosts meet at MASTER_ADDR, where anybody may connect, but ASHLAR_KEY_FILE is not set; name a file of "
        "{} random bytes that all hosts share (head -c {} /dev/urandom), or set LOCAL_WORLD_SIZE where all ranks are on one host",
        kLeastKeyBytes, kLeastKeyBytes);
  }
  const OpenedFile opened = openRegularFile(path, kMostKeyBytes);
  if (!opened.fault.empty()) {
    return unavailable("cannot open {} of ASHLAR_KEY_FILE: {}", path, opened.fault);
  }
  const Socket file(opened.descriptor); // closes it
  struct stat info = {};
  if (fstat(file.fd, &info) != 0 || (info.st_mode & S_IRWXO) != 0) {
    return invalid("{} of ASHLAR_KEY_FILE is open to all users (mode {:o}); chmod 600 it", path, info.st_mode & 0777);
  }
  std::string text(opened.bytes, '\0');
  if (read(file.fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || text.size() < kLeastKeyBytes) {
    return invalid("{} of ASHLAR_KEY_FILE has {} bytes; a key has at least {}", path, text.size(), kLeastKeyBytes);
  }
  key = sha256(text.data(), text.size());
  return Status();
}

// Finds the addresses of a host, which may get its name only now.
Status lookUp(const std::string &host, double end, std::vector<Address> &addresses) {
  for (;;) {
    addrinfo hints = {}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int fault = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    for (addrinfo *each = list; each != nullptr; each = each->ai_next) {
      Address address;
      address.family = each->ai_family;
      if (each->ai_family == AF_INET) {
        std::memcpy(address.bytes, &reinterpret_cast<sockaddr_in *>(each->ai_addr)->sin_addr, 4);
        addresses.push_back(address);
      } else if (each->ai_family == AF_INET6) {
        std::memcpy(address.bytes, &reinterpret_cast<sockaddr_in6 *>(each->ai_addr)->sin6_addr, 16);
        addresses.push_back(address);
      }
    }
    if (list != nullptr) {
      freeaddrinfo(list);
    }
    if (!addresses.empty()) {
      return Status();
    }
    if (seconds() > end) {
      return unavailable("MASTER_ADDR is \"{}\", which has no address: {}; name the host of rank 0", host, gai_strerror(fault));
    }
    usleep(kLookUpMicroseconds);
  }
}

// Moves bytes over a socket that does not block. False: the other side went, or time is up.
template <typename Call> bool move(int fd, short event, double end, size_t bytes, Call call) {
  for (size_t done = 0; done < bytes;) {
    pollfd wait = {fd, event, 0};
    const double left = end - seconds();
    if (left <= 0 || (poll(&wait, 1, static_cast<int>(1000 * left) + 1) < 0 && errno != EINTR)) {
      return false;
    }
    const ssize_t count = call(done);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
      return false;
    }
    done += count < 0 ? 0 : static_cast<size_t>(count);
  }
  return true;
}

bool sendAll(int fd, const void *data, size_t bytes, double end) {
  return move(fd, POLLOUT, end, bytes,
              [&](size_t done) { return send(fd, static_cast<const char *>(data) + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

bool receiveAll(int fd, void *data, size_t bytes, double end) {
  return move(fd, POLLIN, end, bytes, [&](size_t done) { return recv(fd, static_cast<char *>(data) + done, bytes - done, MSG_DONTWAIT); });
}

bool sendText(int fd, const std::string &text, double end) {
  const auto bytes = static_cast<uint32_t>(text.size());
  return sendAll(fd, &bytes, sizeof(bytes), end) && sendAll(fd, text.data(), text.size(), end);
}

bool receiveText(int fd, std::string &text, double end) {
  uint32_t bytes = 0;
  if (!receiveAll(fd, &bytes, sizeof(bytes), end) || bytes > kMostTextBytes) {
    return false;
  }
  text.resize(bytes);
  return receiveAll(fd, text.data(), bytes, end);
}

} // namespace

Status findMaster(MasterPlace &place) {
  place.address = environmentText("MASTER_ADDR");
  place.network = environmentText("ASHLAR_NETWORK");
  const std::string text = environmentText("MASTER_PORT");
  const char *end = text.data() + text.size();
  uint32_t port = 0;
  const std::from_chars_result result = std::from_chars(text.data(), end, port);
  if (result.ec != std::errc() || result.ptr != end || port < 1 || port > UINT16_MAX - 1) {
    return invalid("MASTER_PORT is \"{}\", not a number from 1 to {}", text, UINT16_MAX - 1);
  }
  place.port = static_cast<uint16_t>(port + (environmentText("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0));
  return readKey(place.key);
}

Status MasterBook::open(int rank, int count, const MasterPlace &place) {
  self = rank;
  ranks = count;
  MeetingPlace meeting;
  meeting.self = rank;
  meeting.key = place.key;
  meeting.patience = patienceSeconds();
  meeting.firstAnswers = true;
  meeting.cards.resize(static_cast<size_t>(count));
  meeting.cards[0].port = place.port;
  Socket listener;
  if (rank == 0) {
    uint16_t port = place.port;
    std::vector<Address> own;
    ASHLAR_RETURN_IF_ERROR(place.network.empty() ? Status() : findAddresses(place.network, own));
    if (Status opened = openListener(own.empty() ? nullptr : &own.front(), listener, port); !opened.ok()) {
      return unavailable("MASTER_PORT: {}; choose a free port, the same on all ranks", opened.message());
    }
    for (int peer = 1; peer < count; ++peer) {
      connections.push_back({peer, kLane, {}});
    }
  } else {
    ASHLAR_RETURN_IF_ERROR(lookUp(place.address, seconds() + meeting.patience, meeting.cards[0].addresses));
    connections.push_back({0, kLane, {}});
  }
  meeting.listener = listener.fd;
  return meet(meeting, connections);
}

Status MasterBook::exchange(const std::string &mine, std::vector<std::string> &all) {
  const double end = seconds() + patienceSeconds();
  all.assign(static_cast<size_t>(ranks), mine);
  if (self == 0) {
    for (const Appointment &one : connections) {
      if (!receiveText(one.socket.fd, all[static_cast<size_t>(one.peer)], end)) {
        return unavailable("rank {} ended before it published its address", one.peer);
      }
    }
    for (const Appointment &one : connections) {
      if (!std::all_of(all.begin(), all.end(), [&](const std::string &text) { return sendText(one.socket.fd, text, end); })) {
        return unavailable("rank {} ended before it had the addresses of the others", one.peer);
      }
    }
    return Status();
  }
  const int fd = connections.front().socket.fd;
  const bool isDone =
      sendText(fd, mine, end) && std::all_of(all.begin(), all.end(), [&](std::string &text) { return receiveText(fd, text, end); });
  return isDone ? Status() : Status(StatusCode::kAborted, "rank 0 ended before it sent the addresses"); // and says why
}

} // namespace ashlar::rt
