// SPDX-License-Identifier: Apache-2.0
//
// The amount of rematerialization that makes a program fit a device (job: recompute: AUTO).

#ifndef ASHLAR_COMPILER_PLANNING_RECOMPUTE_SEARCH_H
#define ASHLAR_COMPILER_PLANNING_RECOMPUTE_SEARCH_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>
#include <functional>

namespace ashlar::planning {

// The cost of a program with some of the moves of ashlar-recompute.
struct RecomputeTrial {
  uint64_t bytes = 0; // of a rank
  int64_t moves = 0;  // that there are in all
};

// Returns about which share of all moves makes a program fit that takes so many bytes without any.
using MovesGuess = std::function<double(uint64_t bytes)>;

// The numbers of moves that are told apart: of more moves so many parts, each rounded up.
constexpr int64_t kRecomputeParts = 64;

// Returns the least number of moves with which a program takes at most `limit` bytes, to a 64th of all, found by halving, so that about 6
// are tried; with a guess rather 3, and then no others. More moves mostly take less, but copies can be in the way just where a
// program takes most: where halving finds nothing, a few numbers of moves are tried evenly, and where none of them is enough either, the
// one that takes least is returned, which the memory plan then refuses. Where `isOver` returns true, the least number known to be enough
// is. Fails when a trial does.
mlir::FailureOr<int64_t> findLeastMoves(uint64_t limit, llvm::function_ref<mlir::FailureOr<RecomputeTrial>(int64_t)> tryMoves,
                                        const MovesGuess &guess = nullptr, llvm::function_ref<bool()> isOver = nullptr);

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_RECOMPUTE_SEARCH_H
