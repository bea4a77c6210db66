// SPDX-License-Identifier: Apache-2.0
//
// The memory that the members of a communicator share: who they are, and a ring of bytes from each to each. Made of zeros, it needs no one
// to initialise it: whoever comes first creates the file, and its name goes when all have come.

#ifndef ASHLAR_TEST_EMULATOR_NCCL_SEGMENT_H
#define ASHLAR_TEST_EMULATOR_NCCL_SEGMENT_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ashlar::emulator {

constexpr int kMaxMembers = 16;
constexpr size_t kRingBytes = 64 * 1024;

struct Member {
  std::atomic<int> process; // 0: not here yet
  std::atomic<uint32_t> left;
  uint64_t host;
  int device;
};

// Bytes written and read so far; one side writes each.
struct Ring {
  std::atomic<uint64_t> written, read;
  std::byte bytes[kRingBytes];

  // Copies as much as fits, or is there; returns how much.
  size_t put(const std::byte *from, size_t size);
  size_t take(std::byte *to, size_t size);
};

struct Segment {
  std::atomic<int> members; // number of ranks of the first one
  Member member[kMaxMembers];
  std::atomic<uint64_t> posted[kMaxMembers][kMaxMembers]; // from, to: receives that the other side has begun so far
  Ring rings[kMaxMembers][kMaxMembers];                   // from, to
};

// Maps the segment of that name; null when it cannot be made.
Segment *openSegment(const std::string &name);
void closeSegment(Segment *segment);
void removeSegmentName(const std::string &name);

// Returns whether the process is there and not a zombie.
bool isAlive(int process);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_NCCL_SEGMENT_H
