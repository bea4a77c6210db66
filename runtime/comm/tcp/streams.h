// SPDX-License-Identifier: Apache-2.0
//
// Moves the bytes of connected sockets to and from the places that were posted for them. There is no framing: both ends know what comes.
//
// One mutex guards all. Bytes move in sweeps, under the mutex, over the streams with something posted. A thread that waits leads: it sweeps
// until its bytes are there, while others that wait sleep until it leaves. Where nobody waits, a thread of its own moves the bytes for
// which the system has no room, so that the other side gets on while this one computes.

#ifndef ASHLAR_RUNTIME_COMM_TCP_STREAMS_H
#define ASHLAR_RUNTIME_COMM_TCP_STREAMS_H

#include "runtime/comm/tcp/flow.h"
#include "runtime/comm/tcp/socket.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <poll.h>

namespace ashlar::rt {

// The state of a connection as the system sees it.
struct LineState {
  std::string error;        // of a broken one; "": it was closed in order
  double silentSeconds = 0; // since the other host, not its process, was heard last
};

// Any thread may call it once start() is over; the bytes of one direction of a stream are posted and waited for by one at a time.
class Streams {
public:
  enum class Direction { kSend = 0, kReceive = 1 };
  enum class Outcome { kDone, kBroken, kLate, kStopped };

  Streams() = default;
  ~Streams();
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  // Adds a connected socket, which does not block. Returns its number, counted from 0. `keepAlive`: seconds without a sign of the other
  // host after which it is asked for one.
  size_t add(Socket socket, int keepAlive);

  // Starts the thread, unless it runs. Fails when the system has no room for one.
  Status start();

  // Posts bytes; returns a number for wait(), from 1 on in each direction.
  uint64_t post(size_t stream, Direction direction, Part part);

  // Waits until all bytes posted up to that number have moved, or `until`, a time in seconds. Looks without a pause until `looksUntil`,
  // then sleeps between two looks. `naps`: the calling thread overlaps one that computes.
  Outcome wait(size_t stream, Direction direction, uint64_t number, bool naps, double looksUntil, double until);

  // Moves no more bytes, so that the places that were posted may go; waits end with kStopped.
  void stop();

  LineState stateOf(size_t stream);

private:
  struct Stream {
    Socket socket;
    Flow flows[2]; // by Direction
    bool isBroken = false, isActive = false;
    int error = 0; // errno; 0: closed in order
  };
  using Lock = std::unique_lock<std::mutex>;

  Lock enter();
  Outcome waitIn(Lock &lock, Stream &stream, const Flow &flow, uint64_t number, bool naps, double looksUntil, double until);
  void giveWay(Lock &lock);
  size_t sweep();
  size_t move(Stream &stream, Direction direction);
  void lead(Lock &lock, Stream &stream, const Flow &flow, uint64_t number, bool naps, double looksUntil, double until);
  void block(Lock &lock, std::vector<pollfd> &waits, double most);
  void loop();

  std::mutex mutex;
  std::atomic<int> wanted{0}; // threads that want the mutex while a leader sweeps on and on
  std::deque<Stream> streams;
  std::vector<Stream *> active; // with something posted
  bool hasLeader = false;
  int sleepers = 0;       // threads in poll()
  int followers = 0;      // threads that wait for the leader
  bool needsHand = false; // something posted may need the thread
  bool isStopped = false, ends = false;
  std::condition_variable changed; // the leader left, or something is done
  std::condition_variable hasWork;
  Socket alarm;                               // wakes who is in poll()
  std::vector<pollfd> leaderWaits, loopWaits; // of poll()
  std::thread thread;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_TCP_STREAMS_H
