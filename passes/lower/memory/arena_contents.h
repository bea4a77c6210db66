// SPDX-License-Identifier: Apache-2.0
//
// What the bytes of an arena hold after each instruction of a program.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_ARENA_CONTENTS_H
#define ASHLAR_PASSES_LOWER_MEMORY_ARENA_CONTENTS_H

#include "dialects/exec/exec.h"

#include <map>

namespace ashlar::lower {

// Disjoint ranges of bytes, of the arena and of a slot, each a whole buffer. Reading a buffer of which another one overwrote a part fails.
class ArenaContents {
public:
  // Every range that `buffer` touches is gone, `buffer` is there. O(log n) and the ranges that go.
  void write(exec::BufferAttr buffer);

  // Leaves the ranges that both have: one of the two is what is there. O(n).
  void keepCommon(const ArenaContents &other);

  // Returns whether the bytes of `buffer` are as one write left them. Bools, indices and reshapes may look at them as another type.
  bool holds(exec::BufferAttr buffer) const;

  // Returns whether they are a part of what one write left.
  bool holdsPart(exec::BufferAttr buffer) const;

private:
  std::map<uint64_t, uint64_t> ranges; // begin -> end
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_ARENA_CONTENTS_H
