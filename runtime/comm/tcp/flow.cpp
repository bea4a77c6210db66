// SPDX-License-Identifier: Apache-2.0
//
// The parts of a flow. A part that has moved in part shrinks from its beginning.

#include "runtime/comm/tcp/flow.h"

#include <algorithm>

namespace ashlar::rt {
namespace {

constexpr size_t kFirstParts = 16;

} // namespace

uint64_t Flow::post(Part part) {
  if (posted - moved == ring.size()) {
    std::vector<Part> larger(std::max(kFirstParts, 2 * ring.size()));
    for (uint64_t number = moved + 1; number <= posted; ++number) {
      larger[(number - 1) % larger.size()] = at(number);
    }
    ring = std::move(larger);
  }
  at(++posted) = part;
  skipEmpty();
  return posted;
}

int Flow::next(iovec *vectors, int most) const {
  int count = 0;
  for (uint64_t number = moved + 1; number <= posted && count < most; ++number) {
    const Part &part = at(number);
    vectors[count++] = {part.data, part.bytes};
  }
  return count;
}

void Flow::advance(size_t bytes) {
  while (bytes > 0) {
    Part &part = at(moved + 1);
    const size_t step = std::min(bytes, part.bytes);
    part.data += step;
    part.bytes -= step;
    bytes -= step;
    skipEmpty();
  }
}

void Flow::skipEmpty() {
  while (moved < posted && at(moved + 1).bytes == 0) {
    ++moved;
  }
}

} // namespace ashlar::rt
