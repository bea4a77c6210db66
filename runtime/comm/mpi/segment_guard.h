// SPDX-License-Identifier: Apache-2.0
//
// Keeps /dev/shm tidy. A segment has a name only while the ranks of a host meet; a job that is ended just then must not leave it behind.

#ifndef ASHLAR_RUNTIME_COMM_MPI_SEGMENT_GUARD_H
#define ASHLAR_RUNTIME_COMM_MPI_SEGMENT_GUARD_H

#include <string>

namespace ashlar::rt {

// While it lives, SIGINT, SIGTERM and SIGHUP remove the name of the segment before they end the process; its end removes the name too.
// One at a time per process.
class SegmentGuard {
public:
  // Guards the shared segment `name` ("/...").
  explicit SegmentGuard(const std::string &name);
  ~SegmentGuard();
  SegmentGuard(const SegmentGuard &) = delete;
  SegmentGuard &operator=(const SegmentGuard &) = delete;
};

// Removes segments whose name starts with `prefix` ("/...") and that are older than any meeting lasts: left behind by jobs that were
// killed.
void removeStaleSegments(const std::string &prefix, double meetingSeconds);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_MPI_SEGMENT_GUARD_H
