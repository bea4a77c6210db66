// SPDX-License-Identifier: Apache-2.0
//
// Sweeps, and who makes them.

#include "runtime/comm/tcp/streams.h"

#include "runtime/base/clock.h"
#include "runtime/comm/progress_thread.h"
#include "runtime/comm/wait.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace ashlar::rt {
namespace {

// Parts of one call of the system.
constexpr int kVectors = 64;

// A sweep that moves less than this is followed by a nap, so that more comes together before the next one; and a part of fewer bytes fits
// into what the system keeps, so that nobody has to move it before it is waited for.
constexpr size_t kWorthASweep = 64 << 10;

// Seconds that a thread sleeps in poll() at most.
constexpr double kMostInPoll = 2e-3;

// Rounds in which a leader that sweeps on and on leaves the mutex to others that want it.
constexpr int kCourtesy = 1000;

} // namespace

Streams::~Streams() {
  if (thread.joinable()) {
    {
      Lock lock(mutex);
      ends = true;
    }
    hasWork.notify_one();
    thread.join();
  }
}

size_t Streams::add(Socket socket, int keepAlive) {
  const int on = 1, probes = 100; // who waits decides earlier that the host is lost
  setsockopt(socket.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket.fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepAlive, sizeof(keepAlive));
  setsockopt(socket.fd, IPPROTO_TCP, TCP_KEEPINTVL, &keepAlive, sizeof(keepAlive));
  setsockopt(socket.fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  Lock lock = enter();
  streams.emplace_back();
  streams.back().socket = std::move(socket);
  active.reserve(streams.size());
  return streams.size() - 1;
}

Status Streams::start() {
  if (thread.joinable()) {
    return Status();
  }
  alarm = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (alarm.fd < 0) {
    return unavailable("no event descriptor to wake the thread that moves messages: {}", std::strerror(errno));
  }
  try {
    thread = std::thread([this] { loop(); });
  } catch (const std::system_error &error) {
    return unavailable("no thread to move messages between hosts while the rank computes: {}", error.what());
  }
  return Status();
}

Streams::Lock Streams::enter() {
  wanted.fetch_add(1, std::memory_order_relaxed);
  Lock lock(mutex);
  wanted.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

uint64_t Streams::post(size_t number, Direction direction, Part part) {
  Lock lock = enter();
  Stream &stream = streams[number];
  Flow &flow = stream.flows[static_cast<int>(direction)];
  const bool wasIdle = flow.isIdle();
  const uint64_t result = flow.post(part);
  if (direction == Direction::kSend && wasIdle) {
    move(stream, direction);
  }
  if (flow.isIdle() || isStopped) {
    return result;
  }
  if (!stream.isActive) {
    stream.isActive = true;
    active.push_back(&stream);
  }
  if (sleepers > 0) {
    eventfd_write(alarm.fd, 1);
  }
  if (direction == Direction::kSend || part.bytes > kWorthASweep) {
    needsHand = true;
    if (!hasLeader) {
      hasWork.notify_one();
    }
  }
  return result;
}

Streams::Outcome Streams::wait(size_t stream, Direction direction, uint64_t number, bool naps, double looksUntil, double until) {
  Lock lock = enter();
  Stream &one = streams[stream];
  const Outcome outcome = waitIn(lock, one, one.flows[static_cast<int>(direction)], number, naps, looksUntil, until);
  if (!hasLeader && followers == 0 && needsHand && !active.empty()) { // the last one to leave: nobody waits any more
    hasWork.notify_one();
  }
  return outcome;
}

Streams::Outcome Streams::waitIn(Lock &lock, Stream &stream, const Flow &flow, uint64_t number, bool naps, double looksUntil,
                                 double until) {
  while (flow.done() < number) {
    if (isStopped || stream.isBroken) {
      return isStopped ? Outcome::kStopped : Outcome::kBroken;
    }
    const double left = until - seconds();
    if (left <= 0) {
      return Outcome::kLate;
    }
    if (hasLeader) {
      ++followers;
      changed.wait_for(lock, std::chrono::duration<double>(left));
      --followers;
      continue;
    }
    hasLeader = true;
    lead(lock, stream, flow, number, naps, looksUntil, until);
    hasLeader = false;
    if (followers > 0) {
      changed.notify_all();
    }
  }
  return Outcome::kDone;
}

void Streams::stop() {
  Lock lock = enter();
  isStopped = true;
  active.clear();
  needsHand = false;
  changed.notify_all();
  if (sleepers > 0) {
    eventfd_write(alarm.fd, 1);
  }
}

LineState Streams::stateOf(size_t stream) {
  Lock lock = enter();
  const Stream &one = streams[stream];
  LineState state;
  state.error = one.error == 0 ? "" : std::strerror(one.error);
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (!one.isBroken && getsockopt(one.socket.fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
    // While the other side takes no more bytes the system asks it ever more seldom, up to every two minutes: it is silent between.
    constexpr int kUnanswered = 3;
    const bool isFull = info.tcpi_unacked == 0 && info.tcpi_backoff > 0 && info.tcpi_probes < kUnanswered;
    state.silentSeconds = isFull ? 0 : 1e-3 * std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
  }
  return state;
}

// Sweeps until the part has moved, the stream broke, or it is time.
void Streams::lead(Lock &lock, Stream &stream, const Flow &flow, uint64_t number, bool naps, double looksUntil, double until) {
  for (;;) {
    const size_t bytes = sweep();
    if (flow.done() >= number || stream.isBroken || isStopped) {
      return;
    }
    const double now = seconds();
    if (now > until) {
      return;
    }
    if (now < looksUntil || bytes >= kWorthASweep) {
      giveWay(lock);
    } else if (bytes == 0) {
      block(lock, leaderWaits, std::min(until - now, kMostInPoll));
    } else {
      lock.unlock();
      nap(naps ? kNapBesideNs : kNapNs);
      lock.lock();
    }
  }
}

// Leaves the mutex to threads that want it: unlocked for a moment only, it would be taken again before one of them wakes up.
void Streams::giveWay(Lock &lock) {
  lock.unlock();
  sched_yield();
  for (int i = 0; i < kCourtesy && wanted.load(std::memory_order_relaxed) > 0; ++i) {
    sched_yield();
  }
  lock.lock();
}

// Moves what can be moved at once; returns the number of bytes.
size_t Streams::sweep() {
  size_t bytes = 0;
  for (size_t i = active.size(); i-- > 0;) {
    Stream &stream = *active[i];
    bytes += move(stream, Direction::kReceive) + move(stream, Direction::kSend);
    if (stream.isBroken || (stream.flows[0].isIdle() && stream.flows[1].isIdle())) {
      stream.isActive = false;
      active[i] = active.back();
      active.pop_back();
    }
  }
  needsHand &= !active.empty();
  return bytes;
}

size_t Streams::move(Stream &stream, Direction direction) {
  Flow &flow = stream.flows[static_cast<int>(direction)];
  if (flow.isIdle() || stream.isBroken || isStopped) {
    return 0;
  }
  iovec vectors[kVectors];
  msghdr message = {};
  message.msg_iov = vectors;
  message.msg_iovlen = static_cast<size_t>(flow.next(vectors, kVectors));
  const bool isSend = direction == Direction::kSend;
  const uint64_t before = flow.done();
  const ssize_t bytes =
      isSend ? sendmsg(stream.socket.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) : recvmsg(stream.socket.fd, &message, MSG_DONTWAIT);
  if (bytes > 0) {
    flow.advance(static_cast<size_t>(bytes));
  } else if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream.isBroken = true;
    stream.error = bytes == 0 ? 0 : errno;
  }
  if (followers > 0 && (flow.done() != before || stream.isBroken)) {
    changed.notify_all();
  }
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

// Sleeps until one of the streams can be moved, or something is posted; `most` seconds at most.
void Streams::block(Lock &lock, std::vector<pollfd> &waits, double most) {
  waits.assign(1, pollfd{alarm.fd, POLLIN, 0});
  for (const Stream *stream : active) {
    const int events = (stream->flows[0].isIdle() ? 0 : POLLOUT) | (stream->flows[1].isIdle() ? 0 : POLLIN);
    waits.push_back({stream->socket.fd, static_cast<short>(events), 0});
  }
  ++sleepers;
  lock.unlock();
  const timespec time{/*tv_sec=*/0, static_cast<long>(1e9 * most)};
  ppoll(waits.data(), waits.size(), &time, /*sigmask=*/nullptr);
  lock.lock();
  --sleepers;
  eventfd_t count = 0;
  if (waits[0].revents != 0) {
    eventfd_read(alarm.fd, &count);
  }
}

void Streams::loop() {
  runBeside();
  Lock lock(mutex);
  while (true) {
    hasWork.wait(lock, [&] { return ends || (needsHand && !hasLeader && !active.empty()); });
    if (ends) {
      return;
    }
    lock.unlock();
    nap(kNapBesideNs); // who posts often waits next
    lock.lock();
    while (!ends && !hasLeader && needsHand) {
      const size_t bytes = sweep();
      if (bytes == 0 && needsHand) {
        block(lock, loopWaits, kMostInPoll);
      } else if (bytes < kWorthASweep) {
        lock.unlock();
        nap(kNapBesideNs);
        lock.lock();
      } else {
        giveWay(lock);
      }
    }
  }
}

} // namespace ashlar::rt
