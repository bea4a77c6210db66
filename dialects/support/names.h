// SPDX-License-Identifier: Apache-2.0
//
// Names that users write: globs, and what to propose when nothing matches.

#ifndef ASHLAR_DIALECTS_SUPPORT_NAMES_H
#define ASHLAR_DIALECTS_SUPPORT_NAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace ashlar {

// Returns whether `text` matches `glob`: * stands for any characters, ? for one.
bool matchesGlob(llvm::StringRef glob, llvm::StringRef text);

// Returns the few names that are nearest to `name` by edit distance, quoted: "\"logits\", \"log\"".
std::string nearestNames(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef name);

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_NAMES_H
