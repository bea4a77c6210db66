// SPDX-License-Identifier: Apache-2.0
//
// A time by which something has to be done.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_DEADLINE_H
#define ASHLAR_PASSES_SEARCH_SOLVER_DEADLINE_H

#include <chrono>

namespace ashlar::search {

class Deadline {
public:
  // So many seconds from now.
  explicit Deadline(double seconds) : seconds(seconds) {}

  // Returns the seconds that are left; none or less once it is over.
  double left() const { return seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }

private:
  const double seconds;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_DEADLINE_H
