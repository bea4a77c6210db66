// SPDX-License-Identifier: Apache-2.0
//
// Time for logs, profiles, traces and time-outs.

#ifndef ASHLAR_RUNTIME_BASE_CLOCK_H
#define ASHLAR_RUNTIME_BASE_CLOCK_H

#include <chrono>
#include <cstdint>

namespace ashlar::rt {

// Returns the nanoseconds since some fixed moment, one for all processes of a host; never runs backwards.
inline int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the seconds since the same moment.
inline double seconds() {
  return 1e-9 * static_cast<double>(nanoseconds());
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_CLOCK_H
