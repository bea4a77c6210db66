// SPDX-License-Identifier: Apache-2.0
//
// Time for logs, profiles and time-outs.

#ifndef ASHLAR_RUNTIME_BASE_CLOCK_H
#define ASHLAR_RUNTIME_BASE_CLOCK_H

#include <chrono>

namespace ashlar::rt {

// Returns the seconds since some fixed moment; never runs backwards.
inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_BASE_CLOCK_H
