// SPDX-License-Identifier: Apache-2.0
//
// See recompute_search.h.

#include "compiler/planning/recompute_search.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace mlir;

namespace ashlar::planning {
namespace {

constexpr int64_t kSamples = 16; // of the moves, where halving finds nothing

// The parts of all moves of which the least is sought that is enough.
class Bracket {
public:
  // `guess`: the part that is tried first; 0: the middle.
  Bracket(int64_t parts, int64_t guess) : parts(parts), guess(std::min(guess, parts)), enough(parts + 1) {}

  bool isOpen() const { return tooFew + 1 < enough; }

  // Returns the part, or nothing where all are not enough.
  std::optional<int64_t> least() const { return enough <= parts ? std::optional(enough) : std::nullopt; }

  // Returns the part to try next: the guess, then farther and farther from it until it is passed, then the middle.
  int64_t next() {
    const bool hasEnough = enough <= parts;
    if (guess == 0 || (tooFew > 0 && hasEnough)) {
      return tooFew + (enough - tooFew) / 2;
    }
    if (tooFew == 0 && !hasEnough) {
      return guess;
    }
    const int64_t part = hasEnough ? enough - step : tooFew + step;
    step *= 2;
    return std::clamp(part, tooFew + 1, enough - 1);
  }

  void learn(int64_t part, bool isEnough) { (isEnough ? enough : tooFew) = part; }

private:
  const int64_t parts, guess;
  int64_t tooFew = 0, enough; // parts + 1: maybe nothing is
  int64_t step = 1;
};

} // namespace

FailureOr<int64_t> findLeastMoves(uint64_t limit, function_ref<FailureOr<RecomputeTrial>(int64_t)> tryMoves, const MovesGuess &guess,
                                  function_ref<bool()> isOver) {
  FailureOr<RecomputeTrial> none = tryMoves(0);
  if (failed(none) || none->bytes <= limit) {
    return failed(none) ? FailureOr<int64_t>() : 0;
  }
  int64_t best = 0;
  uint64_t least = none->bytes;
  // Returns whether a program with so many moves fits.
  auto fits = [&](int64_t moves) -> FailureOr<bool> {
    FailureOr<RecomputeTrial> trial = tryMoves(moves);
    if (failed(trial)) {
      return failure();
    }
    if (trial->bytes < least) {
      least = trial->bytes;
      best = moves;
    }
    return trial->bytes <= limit;
  };
  const int64_t all = none->moves, parts = std::min(all, kRecomputeParts);
  auto movesOf = [&](int64_t part) { return static_cast<int64_t>(llvm::divideCeil(part * all, parts)); };
  auto partsOf = [&](double share) { return static_cast<int64_t>(std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(parts))); };
  Bracket bracket(parts, guess ? std::max<int64_t>(partsOf(guess(none->bytes)), 1) : 0);
  while (bracket.isOpen() && !(bracket.least() && isOver && isOver())) {
    const int64_t part = bracket.next();
    FailureOr<bool> isEnough = fits(movesOf(part));
    if (failed(isEnough)) {
      return failure();
    }
    bracket.learn(part, *isEnough);
  }
  if (std::optional<int64_t> part = bracket.least()) {
    return movesOf(*part);
  }
  for (int64_t sample = 1; sample < kSamples && !guess; ++sample) {
    const int64_t moves = all * sample / kSamples;
    FailureOr<bool> isEnough = moves > all * (sample - 1) / kSamples ? fits(moves) : FailureOr<bool>(false);
    if (failed(isEnough) || *isEnough) {
      return failed(isEnough) ? FailureOr<int64_t>() : moves;
    }
  }
  return best;
}

} // namespace ashlar::planning
