// SPDX-License-Identifier: Apache-2.0
//
// The memory of a process of a variant, part by part: the one place that --memory, --plan, --explain and --report count in.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_MEMORY_USE_H
#define ASHLAR_PASSES_LOWER_MEMORY_MEMORY_USE_H

#include "dialects/exec/exec.h"

#include <string>

namespace ashlar::lower {

// One part, under the name that reports give it.
struct MemoryPart {
  std::string name;
  uint64_t bytes = 0;
};

// The parts of a process, without parts of no bytes. On a device with memory of its own, the parts there.
struct MemoryUse {
  llvm::SmallVector<MemoryPart> parts;
  uint64_t threadBytes = 0; // that every thread of a rank beyond the first one takes, too
  uint64_t spareBytes = 0;  // that are not needed where calls order weights themselves, as the memory plan has it where they are too much

  // Returns the sum over the parts; and the bytes without which the process cannot be.
  uint64_t bytes() const;
  uint64_t leastBytes() const { return bytes() - spareBytes; }
};

// The inputs of the count besides the variant.
struct MemoryFacts {
  exec::Target target = exec::Target::Cpu;
  uint64_t constantBytes = 0;
  int64_t ranksPerHost = INT64_MAX; // ranks r with equal r / ranksPerHost share a host
};

// Counts the memory of a process that runs the programs of the variant with one thread: tensors and temporaries of its devices, constants,
// and the runtime's buffers for them (runtime/abi/memory_sizes.h). Where processes differ, the one that takes most.
MemoryUse memoryUse(exec::VariantOp variant, const MemoryFacts &facts);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_MEMORY_USE_H
