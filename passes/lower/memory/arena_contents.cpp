// SPDX-License-Identifier: Apache-2.0
//
// See arena_contents.h.

#include "passes/lower/memory/arena_contents.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_size.h"

namespace ashlar::lower {

namespace {

// Returns a number for the first byte of a buffer: slots count from behind the largest arena.
uint64_t placeOf(exec::BufferAttr buffer) {
  constexpr uint64_t kSlots = uint64_t{1} << 62;
  return buffer.getOffset() + (buffer.getSpace() == exec::Space::Slot ? kSlots : 0);
}

} // namespace

void ArenaContents::write(exec::BufferAttr buffer) {
  const uint64_t begin = placeOf(buffer), end = begin + byteSize(buffer.getType());
  if (begin == end) {
    return;
  }
  auto it = ranges.lower_bound(begin);
  if (it != ranges.begin() && std::prev(it)->second > begin) {
    --it;
  }
  while (it != ranges.end() && it->first < end) {
    it = ranges.erase(it);
  }
  ranges[begin] = end;
}

void ArenaContents::keepCommon(const ArenaContents &other) {
  for (auto it = ranges.begin(); it != ranges.end();) {
    auto found = other.ranges.find(it->first);
    it = found != other.ranges.end() && found->second == it->second ? std::next(it) : ranges.erase(it);
  }
}

bool ArenaContents::holds(exec::BufferAttr buffer) const {
  const uint64_t bytes = byteSize(buffer.getType());
  auto it = ranges.find(placeOf(buffer));
  return bytes == 0 || (it != ranges.end() && it->second == placeOf(buffer) + bytes);
}

bool ArenaContents::holdsPart(exec::BufferAttr buffer) const {
  const uint64_t bytes = byteSize(buffer.getType());
  auto it = ranges.upper_bound(placeOf(buffer));
  return bytes == 0 || (it != ranges.begin() && std::prev(it)->second >= placeOf(buffer) + bytes);
}

} // namespace ashlar::lower
