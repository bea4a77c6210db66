// SPDX-License-Identifier: Apache-2.0
//
// Names that users write: globs, and proposals when nothing matches.

#ifndef ASHLAR_DIALECTS_SUPPORT_NAMES_H
#define ASHLAR_DIALECTS_SUPPORT_NAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <limits>
#include <string>

namespace ashlar {

// Returns whether `text` matches `glob`: * stands for any characters, ? for one.
bool matchesGlob(llvm::StringRef glob, llvm::StringRef text);

// Returns the least number of characters to insert, remove or replace in `glob` so that it matches `name`: 0 when it does.
unsigned globDistance(llvm::StringRef glob, llvm::StringRef name);

// Returns at most `count` names that are nearest to a glob, the nearest first, within `mostEdits` of it; equally near ones in alphabetical
// order. Assumes count > 0.
llvm::SmallVector<llvm::StringRef> findNearest(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef glob, size_t count,
                                               unsigned mostEdits = std::numeric_limits<unsigned>::max());

// Returns the few names that are nearest to a glob, quoted, the nearest first: "\"logits\", \"log\"".
std::string nearestNames(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef glob);

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_NAMES_H
