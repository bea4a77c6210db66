// SPDX-License-Identifier: Apache-2.0
//
// Globs and nearest names.

#include "dialects/support/names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using llvm::StringRef;

namespace ashlar {

// Linear in text for each star: on a mismatch the last star takes one character more.
bool matchesGlob(StringRef glob, StringRef text) {
  size_t g = 0, t = 0, star = StringRef::npos, starText = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      starText = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g, ++t;
    } else if (star != StringRef::npos) {
      g = star + 1;
      t = ++starText;
    } else {
      return false;
    }
  }
  return glob.drop_front(g).find_first_not_of('*') == StringRef::npos;
}

std::string nearestNames(llvm::ArrayRef<StringRef> names, StringRef name) {
  constexpr size_t kNamesListed = 3;
  llvm::SmallVector<std::pair<unsigned, StringRef>> byDistance;
  for (StringRef candidate : names) {
    byDistance.emplace_back(name.edit_distance(candidate), candidate);
  }
  llvm::sort(byDistance);
  std::string text;
  for (auto [distance, candidate] : llvm::ArrayRef(byDistance).take_front(kNamesListed)) {
    text += (text.empty() ? "\"" : ", \"") + candidate.str() + "\"";
  }
  return text;
}

} // namespace ashlar
