// SPDX-License-Identifier: Apache-2.0
//
// Offsets between clocks, by bounds.

#include "runtime/trace/clocks.h"

#include "runtime/base/clock.h"

#include <algorithm>
#include <array>

namespace ashlar::rt {
namespace {

// A meeting between hosts takes tens of microseconds, sometimes much more; the best of so many count.
constexpr size_t kMeetings = 32;

} // namespace

ClockOffset compareClocks(const ClockMeeting *mine, const ClockMeeting *other, size_t count) {
  int64_t least = INT64_MIN, most = INT64_MAX;
  for (size_t i = 0; i < count; ++i) {
    least = std::max(least, mine[i].entered - other[i].left);
    most = std::min(most, mine[i].left - other[i].entered);
  }
  return {least + (most - least) / 2, (most - least + 1) / 2};
}

Status compareClocks(Communicator &communicator, std::vector<ClockOffset> &offsets) {
  const Place &place = communicator.seat();
  const auto processes = static_cast<size_t>(place.processes);
  offsets.assign(processes, {});
  const std::vector<int> &hosts = place.hostOfProcess;
  if (std::all_of(hosts.begin(), hosts.end(), [&](int host) { return host == hosts[0]; })) {
    return Status();
  }
  using ClockMeetings = std::array<ClockMeeting, kMeetings>;
  static_assert(sizeof(ClockMeetings) <= kLargestGather);
  ClockMeetings mine;
  std::vector<char> nothing(processes);
  for (ClockMeeting &meeting : mine) {
    meeting.entered = nanoseconds();
    ASHLAR_RETURN_IF_ERROR(communicator.allGather("", /*bytes=*/1, nothing.data()));
    meeting.left = nanoseconds();
  }
  std::vector<ClockMeetings> all(processes);
  ASHLAR_RETURN_IF_ERROR(communicator.allGather(&mine, sizeof(mine), all.data()));
  for (size_t rank = 0; rank < processes; ++rank) {
    const auto first = static_cast<size_t>(std::find(hosts.begin(), hosts.end(), hosts[rank]) - hosts.begin());
    offsets[rank] = first == 0 ? ClockOffset() : first < rank ? offsets[first] : compareClocks(all[rank].data(), all[0].data(), kMeetings);
  }
  return Status();
}

} // namespace ashlar::rt
