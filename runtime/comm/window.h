// SPDX-License-Identifier: Apache-2.0
//
// The memory that the processes of one host share: a header, counters to wait on, mailboxes for small messages, and the arenas of all their
// devices, so that a collective is loads and stores. Layout, in this order, each part aligned to 4096:
//
//   header | presences: one a process | reports: one a process | lines: [set][process] | mailboxes: [set][parity][process] |
//   channels: [process][channel that it sends on] | arenas: [process][device of the process]
//
// A *set* is a distinct set of mesh axes that some collective runs over; set 0 is all processes of the host. "Process" counts the processes
// of this host here. Processes of different pipeline stages have arenas of different sizes.

#ifndef ASHLAR_RUNTIME_COMM_WINDOW_H
#define ASHLAR_RUNTIME_COMM_WINDOW_H

#include "runtime/abi/memory_sizes.h"
#include "runtime/device/cpu/mapping.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include <pthread.h>

namespace ashlar::rt {

// Payloads up to this size share the cache line of the mailbox's counter, so that one line carries the message and its arrival.
constexpr size_t kLinePayload = 56;

// The numbers and sizes of the parts of a window.
struct WindowShape {
  int processes = 1;
  int devicesPerProcess = 1;
  int sets = 1;
  std::vector<uint64_t> channels;   // that each process sends on; empty: none
  std::vector<uint64_t> arenaBytes; // of a device of each process; empty: none
};

// Values of WindowHeader::aborted: a rank gave up and reports why; a rank ended, or did not come, and nobody has reported it yet; a rank of
// another host gave up and reports why.
constexpr int32_t kGaveUp = 1;
constexpr int32_t kPeerDied = 2;
constexpr int32_t kPeerStuck = 3;
constexpr int32_t kPeerEnded = 4;

// The program of a process.
struct ProgramIdentity {
  uint64_t hash;
  char variant[24]; // its name
};

// First bytes of a window. Lives in shared memory: plain integers and lock-free atomics only.
struct WindowHeader {
  ProgramIdentity program;      // of the creator
  uint64_t bytes;               // of the whole window
  std::atomic<int32_t> aborted; // not 0: some rank gave up; stop waiting
  std::atomic<int32_t> noted;   // not 0: some rank reported its wait
};

// Whether a process is there, by a robust mutex that it holds while it lives: the kernel notices its end, whatever namespaces the processes
// are in.
struct alignas(64) WindowPresence {
  pthread_mutex_t life;
  std::atomic<int32_t> state;    // ashlar::rt::Presence
  std::atomic<int32_t> waitsFor; // the rank that it waits for, plus 1; 0: it does not wait
  std::atomic<uint64_t> beats;   // grows while it gets on with something long that the others wait for
  std::atomic<uint64_t> looked;  // when it looked for that rank last, in us of the clock of this host
};

// Values of WindowPresence::state.
enum Presence : int32_t { kNotThere = 0, kThere = 1, kLeft = 2, kDied = 3 };

// A counter in a cache line of its own. Only its owner writes it.
struct alignas(64) WindowLine {
  std::atomic<uint64_t> count;
};

// The counters of the two sides of a channel between stages.
struct WindowChannel {
  WindowLine sent;     // messages that are there; written by the sender
  WindowLine received; // messages that the receiver has copied, and so the sender may overwrite
};

// The report of a process when all agree on success or failure.
struct WindowReport {
  int32_t code;
  char message[1020];
};

// Addresses inside one mapped window. Owns the mapping.
class Window {
public:
  // Takes over a mapping of bytes(shape) bytes.
  Window(const WindowShape &shape, Mapping mapping);

  // Marks the process that called enter() as ended in good order.
  ~Window();
  Window(const Window &) = delete;
  Window &operator=(const Window &) = delete;

  // Prepares the counters that processes wait on. The creator calls it before anybody else has the window.
  void prepare();

  // Marks `process`, the calling one, as present. The others notice when its main thread ends: that one has to call it.
  void enter(int process);

  // Whether `process` was there and has ended, or closed the window; and whether it ended without closing it.
  bool hasEnded(int process) const;
  bool hasDied(int process) const;

  // Bytes that a window of the shape takes.
  static size_t bytes(const WindowShape &shape);

  // The channel with that number among the channels on which `process` sends.
  WindowChannel &channel(int process, int number) const;

  // Offset of the arenas of `process`; everything before arenasOffset(0) is the control part.
  size_t arenasOffset(int process) const;

  // The header.
  WindowHeader &header() const { return *reinterpret_cast<WindowHeader *>(map.data()); }

  // The presence of `process`.
  WindowPresence &presence(int process) const;

  // The report of `process`.
  WindowReport &report(int process) const;

  // The counter of `process` in `set`.
  WindowLine &line(int set, int process) const;

  // The mailbox of `process` in `set`: its counter, followed by the payload of the given size.
  std::atomic<uint64_t> &mailboxCount(int set, int parity, int process) const;
  char *mailboxPayload(int set, int parity, int process, size_t payloadBytes) const;

  // The arena of device `device` (counted inside the process) of `process`.
  char *arena(int process, int device) const;

  // The mapping below.
  Mapping &mapping() { return map; }

  // The shape it was made with.
  const WindowShape &shape() const { return extents; }

private:
  char *mailbox(int set, int parity, int process) const;

  WindowShape extents;
  std::vector<size_t> arenaOffsets;  // of each process, and the end
  std::vector<size_t> firstChannels; // of each process
  Mapping map;
  int entered = -1; // the process that called enter()
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_WINDOW_H
