// SPDX-License-Identifier: Apache-2.0
//
// For maps by several uniqued objects: attributes, types and the like.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_POINTER_HASH_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_POINTER_HASH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"

namespace ashlar::layout {

// Hashes a list of pointers.
struct PointerHash {
  size_t operator()(llvm::ArrayRef<const void *> pointers) const { return llvm::hash_combine_range(pointers); }
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_POINTER_HASH_H
