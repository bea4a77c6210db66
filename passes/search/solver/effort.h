// SPDX-License-Identifier: Apache-2.0
//
// The bound of a search: work that its loops count, and seconds as a safety net.

#ifndef ASHLAR_PASSES_SEARCH_SOLVER_EFFORT_H
#define ASHLAR_PASSES_SEARCH_SOLVER_EFFORT_H

#include <chrono>
#include <cstdint>

namespace ashlar::search {

// A unit of work is the visit of one table entry, about a nanosecond of one core; other work counts as many units as it takes nanoseconds
// there. The loops count what they did, so a search that ends with its units ends in the same choices on any machine, under any load. Only
// the net reads a clock: a search that it ends may find other choices elsewhere, which is reported (isStopped).
//
//   Effort effort(1000, 600);
//   effort.count(999);   // isOver() is false
//   effort.count(1);     // isOver() is true, isStopped() is false
class Effort {
public:
  static constexpr int64_t kUnits = INT64_C(10000000000); // of a search by default
  static constexpr double kSeconds = 600;

  explicit Effort(int64_t units = kUnits, double seconds = kSeconds) : units(units), seconds(seconds) {}

  // Returns the units of so many default searches.
  static int64_t unitsOf(double searches) { return static_cast<int64_t>(searches * kUnits); }

  void count(int64_t done) { counted += done; }

  // Returns whether the search has to end: no units are left, or the seconds have passed.
  bool isOver();

  // Returns whether the clock ended the search: isOver() saw the seconds pass while units were left.
  bool isStopped() const { return stopped; }

  int64_t getCounted() const { return counted; }
  int64_t left() const { return counted < units ? units - counted : 0; }
  double secondsLeft() const;

private:
  const int64_t units;
  const double seconds;
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  int64_t counted = 0;
  bool stopped = false;
};

} // namespace ashlar::search

#endif // ASHLAR_PASSES_SEARCH_SOLVER_EFFORT_H
