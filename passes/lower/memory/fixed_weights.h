// SPDX-License-Identifier: Apache-2.0
//
// Which weights stay as @init leaves them, so that the runtime orders them for its kernels once and not in every run.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_FIXED_WEIGHTS_H
#define ASHLAR_PASSES_LOWER_MEMORY_FIXED_WEIGHTS_H

#include "dialects/exec/exec.h"

#include <map>

namespace ashlar::lower {

// The bytes that no program of a variant but @init writes: constants, and variables that every device holds.
class FixedBytes {
public:
  // Looks at every instruction once: O(n log v) with n buffers and v variables.
  explicit FixedBytes(exec::VariantOp variant);

  // Returns whether the buffer is constant, or a whole variable that is fixed. A reshape of a variable is the variable.
  bool contains(exec::BufferAttr buffer) const;

private:
  struct Variable {
    uint64_t end;
    bool isWritten;
  };
  std::map<uint64_t, Variable> variables; // by offset; disjoint
};

// Returns whether no instruction of a repeat writes bytes of a buffer of the arena, which does not move in it.
bool staysInRepeat(exec::RepeatOp repeat, exec::BufferAttr buffer);

// Marks the calls with fixed weights, and calls in repeats with kept ones, in all programs except @init.
void markFixedWeights(exec::VariantOp variant);

// Removes all marks.
void unmarkFixedWeights(exec::VariantOp variant);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_FIXED_WEIGHTS_H
