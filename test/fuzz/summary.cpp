// SPDX-License-Identifier: Apache-2.0
//
// Counting verdicts; see summary.h.

#include "test/fuzz/summary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

namespace ashlar::fuzz {

void Summary::add(const SeedResult &result) {
  const Verdict &verdict = result.verdict;
  if (result.seed - begin >= count || !seen.insert(result.seed).second) {
    return; // not one of ours, or counted already: it must not stand for one that is missing
  }
  ++(verdict.ok() ? passed : verdict.kind == FailureKind::Crash ? died : verdict.kind == FailureKind::Timeout ? late : failed);
  elements += verdict.elements;
  undecided += verdict.undecided;
  undecidedPrograms += verdict.undecided > 0;
  if (!verdict.ok()) {
    failures.push_back(result);
  } else if (Largest &before = largest[static_cast<size_t>(verdict.precision)]; verdict.difference > before.difference) {
    before = {verdict.difference, result.seed};
  }
}

bool Summary::allPassed() const {
  return passed == count && static_cast<double>(undecided) <= kMaxUndecidedOfRun * static_cast<double>(elements);
}

std::string Summary::text() const {
  std::string text = llvm::formatv("{0} of {1} elements undecided by rounding, in {2} programs; largest difference", undecided, elements,
                                   undecidedPrograms);
  constexpr const char *kNames[kNumPrecisions] = {"f64", "f32", "bf16 or f16"};
  for (auto [i, name] : llvm::enumerate(kNames)) {
    text += llvm::formatv("{0} {1} {2:e} (seed {3})", i == 0 ? "" : ",", name, largest[i].difference, largest[i].seed);
  }
  text += llvm::formatv("\n{0} seeds from {1}: {2} passed, {3} failed, {4} died, {5} timed out", count, begin, passed, failed, died, late);
  if (seen.size() != count) {
    text += llvm::formatv(", {0} have no verdict", count - seen.size());
  }
  return text;
}

std::vector<SeedResult> Summary::failuresToReduce(unsigned each) const {
  std::vector<SeedResult> sorted = failures, chosen;
  llvm::sort(sorted, [](const SeedResult &x, const SeedResult &y) { return x.seed < y.seed; });
  std::map<std::string, unsigned> counts;
  for (const SeedResult &failure : sorted) {
    if (counts[failure.verdict.signature()]++ < each) {
      chosen.push_back(failure);
    }
  }
  return chosen;
}

} // namespace ashlar::fuzz
