// SPDX-License-Identifier: Apache-2.0
//
// The memory that the processes of one host share: a header, counters to wait on, slots for small messages, and the arenas of all their
// devices, so that a collective is loads and stores. Layout, in this order, each part aligned to 4096:
//
//   header | reports: one a process | lines: [set][process] | slots: [set][parity][process] | arenas: [process][device of the process]
//
// A *set* is a distinct set of mesh axes that some collective runs over; set 0 is all processes of the host. "Process" counts the
// processes of this host here.

#ifndef ASHLAR_RUNTIME_COMM_WINDOW_H
#define ASHLAR_RUNTIME_COMM_WINDOW_H

#include "runtime/device/cpu/mapping.h"

#include <atomic>
#include <cstdint>

namespace ashlar::rt {

// Bytes of inputs that one process can publish in a slot; larger collectives read the arenas.
constexpr size_t kSlotPayload = 4096;

// Payloads up to this size share the cache line of the slot's counter, so that one line carries the message and its arrival.
constexpr size_t kLinePayload = 56;

// How many parts of what size a window has.
struct WindowShape {
  int processes = 1;
  int devicesPerProcess = 1;
  int sets = 1;
  uint64_t arenaBytes = 0;
};

// Values of WindowHeader::aborted: a rank gave up and says why; a rank ended, and nobody has said so yet.
constexpr int32_t kGaveUp = 1;
constexpr int32_t kPeerDied = 2;

// First bytes of a window. Lives in shared memory: plain integers and lock-free atomics only.
struct WindowHeader {
  uint64_t programHash;         // of the creator
  uint64_t bytes;               // of the whole window
  std::atomic<int32_t> aborted; // not 0: some rank gave up; stop waiting
};

// A counter in a cache line of its own. Only its owner writes it.
struct alignas(64) WindowLine {
  std::atomic<uint64_t> count;
  std::atomic<int64_t> pid; // of the owner; used in set 0 only
};

// What a process tells the others when they agree on success or failure.
struct WindowReport {
  int32_t code;
  char message[1020];
};

// Addresses inside one mapped window. Owns the mapping.
class Window {
public:
  Window() = default;

  // Takes over a mapping of bytes(shape) bytes.
  Window(const WindowShape &shape, Mapping mapping);

  // Bytes that a window of the shape takes.
  static size_t bytes(const WindowShape &shape);

  // Offset of the arenas of `process`; everything before arenasOffset(0) is the control part.
  size_t arenasOffset(int process) const;

  // The header.
  WindowHeader &header() const { return *reinterpret_cast<WindowHeader *>(map.data()); }

  // The report of `process`.
  WindowReport &report(int process) const;

  // The counter of `process` in `set`.
  WindowLine &line(int set, int process) const;

  // The slot of `process` in `set`: its counter, followed by the payload of the given size.
  std::atomic<uint64_t> &slotCount(int set, int parity, int process) const;
  char *slotPayload(int set, int parity, int process, size_t payloadBytes) const;

  // The arena of device `device` (counted inside the process) of `process`.
  char *arena(int process, int device) const;

  // The mapping below.
  Mapping &mapping() { return map; }

  // The shape it was made with.
  const WindowShape &shape() const { return extents; }

private:
  char *slot(int set, int parity, int process) const;

  WindowShape extents;
  Mapping map;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_WINDOW_H
