// SPDX-License-Identifier: Apache-2.0
//
// The time of messages over a link: the one formula of the compiler, which plans with it, and of the simulation of compiled programs.

#ifndef ASHLAR_RUNTIME_ABI_MESSAGE_TIME_H
#define ASHLAR_RUNTIME_ABI_MESSAGE_TIME_H

#include <algorithm>
#include <cstdint>

namespace ashlar::rt {

// The longest time, at which times saturate, 2.5 hours in picoseconds: a thousand of them can be added.
constexpr int64_t kMostTimePs = INT64_MAX / 1024;

// Returns messages * latency + bytes / rate, in picoseconds: nanoseconds would round small messages to nothing. At most kMostTimePs. The
// bytes are rounded up, so that two collectives in the place of one never seem to be faster because they are rounded twice.
constexpr int64_t messageTimePs(int64_t messages, int64_t bytes, int64_t latencyNs, int64_t bytesPerUs) {
  constexpr int64_t kPsPerNs = 1000, kPsPerUs = 1000 * kPsPerNs;
  const __int128 sending = (__int128(bytes) * kPsPerUs + bytesPerUs - 1) / bytesPerUs;
  return static_cast<int64_t>(std::min(messages * __int128(latencyNs) * kPsPerNs + sending, __int128(kMostTimePs)));
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_MESSAGE_TIME_H
