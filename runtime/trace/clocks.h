// SPDX-License-Identifier: Apache-2.0
//
// The offsets between clocks of ranks on several hosts. Processes of one host read one clock; clocks of others are compared by meetings:
// nobody leaves one before the last has entered it.

#ifndef ASHLAR_RUNTIME_TRACE_CLOCKS_H
#define ASHLAR_RUNTIME_TRACE_CLOCKS_H

#include "runtime/comm/communicator.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// One meeting, on the clock of the rank.
struct ClockMeeting {
  int64_t entered, left;
};

// The offset of a clock from another one: between offset - error and offset + error. Nanoseconds.
struct ClockOffset {
  int64_t offset = 0, error = 0;
};

// Returns the offset of the clock of `mine` from the clock of `other`, by the same `count` > 0 meetings. Each side enters a meeting before
// the other leaves it, so mine.entered - other.left <= offset <= mine.left - other.entered: the bounds of all meetings together. Example: I
// enter at 100 and leave at 130, the other at 10 and 20 -> 80 <= offset <= 120.
ClockOffset compareClocks(const ClockMeeting *mine, const ClockMeeting *other, size_t count);

// Compares the clocks of all ranks with rank 0's, by rank: once a host. Every process calls it.
Status compareClocks(Communicator &communicator, std::vector<ClockOffset> &offsets);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_TRACE_CLOCKS_H
