// SPDX-License-Identifier: Apache-2.0
//
// The only place of a search that reads a clock.

#include "passes/search/solver/effort.h"

namespace ashlar::search {

bool Effort::isOver() {
  stopped = stopped || (left() > 0 && secondsLeft() <= 0);
  return left() == 0 || stopped;
}

double Effort::secondsLeft() const {
  return seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace ashlar::search
