// SPDX-License-Identifier: Apache-2.0
//
// See recompute_search.h.

#include "compiler/planning/recompute_search.h"

using namespace mlir;

namespace ashlar::planning {
namespace {

constexpr int64_t kSamples = 16; // of the moves, where halving finds nothing

} // namespace

FailureOr<int64_t> findLeastMoves(uint64_t limit, function_ref<FailureOr<RecomputeTrial>(int64_t)> tryMoves) {
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
  const int64_t all = none->moves;
  int64_t tooFew = 0, enough = all + 1; // or nothing is
  while (tooFew + 1 < enough) {
    const int64_t middle = tooFew + (enough - tooFew) / 2;
    FailureOr<bool> isEnough = fits(middle);
    if (failed(isEnough)) {
      return failure();
    }
    (*isEnough ? enough : tooFew) = middle;
  }
  for (int64_t sample = 1; sample < kSamples && enough > all; ++sample) {
    const int64_t moves = all * sample / kSamples;
    FailureOr<bool> isEnough = moves > all * (sample - 1) / kSamples ? fits(moves) : FailureOr<bool>(false);
    if (failed(isEnough)) {
      return failure();
    }
    enough = *isEnough ? moves : enough;
  }
  return enough > all ? best : enough;
}

} // namespace ashlar::planning
