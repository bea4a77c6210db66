// SPDX-License-Identifier: Apache-2.0
//
// Globs and nearest names.

#include "dialects/support/names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <numeric>
#include <vector>

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

// Levenshtein's, one row a character of the glob. O(glob.size() * name.size()).
unsigned globDistance(StringRef glob, StringRef name) {
  std::vector<unsigned> row(name.size() + 1), next(name.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (char letter : glob) {
    const bool isStar = letter == '*';
    next[0] = row[0] + (isStar ? 0 : 1);
    for (size_t i = 0; i < name.size(); ++i) {
      const unsigned replaced = row[i] + (letter == '?' || letter == name[i] ? 0 : 1);
      next[i + 1] = isStar ? std::min(row[i + 1], next[i]) : std::min({row[i + 1] + 1, next[i] + 1, replaced});
    }
    std::swap(row, next);
  }
  return row.back();
}

llvm::SmallVector<StringRef> findNearest(llvm::ArrayRef<StringRef> names, StringRef glob, size_t count, unsigned mostEdits) {
  const size_t letters = glob.size() - glob.count('*');
  llvm::SmallVector<std::pair<unsigned, StringRef>> nearest; // ascending
  for (StringRef name : names) {
    const size_t atLeast = letters > name.size() ? letters - name.size() : letters == glob.size() ? name.size() - letters : 0;
    if (atLeast > (nearest.size() == count ? nearest.back().first : mostEdits)) {
      continue;
    }
    std::pair<unsigned, StringRef> candidate(globDistance(glob, name), name);
    if (candidate.first <= mostEdits) {
      nearest.insert(llvm::upper_bound(nearest, candidate), candidate);
      nearest.resize(std::min(nearest.size(), count));
    }
  }
  return llvm::to_vector(llvm::make_second_range(nearest));
}

std::string nearestNames(llvm::ArrayRef<StringRef> names, StringRef glob) {
  constexpr size_t kNamesListed = 3;
  const llvm::SmallVector<StringRef> nearest = findNearest(names, glob, kNamesListed);
  auto quoted = llvm::map_range(nearest, [](StringRef name) { return "\"" + name.str() + "\""; });
  return llvm::join(quoted, ", ");
}

} // namespace ashlar
