// SPDX-License-Identifier: Apache-2.0
//
// How far rounding moves the numbers of a program, and the comparison that follows from it.
//
// Two orders of one sum differ by some roundings. Most values then differ by about as much, but a comparison of two values that are nearly
// equal, and all that depends on it, may come out either way. Which elements these are is measured, by stochastic arithmetic (Vignes;
// Parker, "Monte Carlo Arithmetic", 1997): the program runs again, some dozens of times, and each op that rounds adds a random error of
// some units in the last place of its result, of all terms of a sum. How far an element moves in these runs is its spread.

#ifndef ASHLAR_TEST_FUZZ_ROUNDING_H
#define ASHLAR_TEST_FUZZ_ROUNDING_H

#include "compiler/reference/interpreter.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace ashlar::fuzz {

// The type of a program's computation; the widest type whose rounding matters.
enum class Precision { F64, F32, Narrow };
inline constexpr int kNumPrecisions = 3;

// Returns the precision of a program: Narrow when an op makes bf16 or f16, else F32 when one makes f32.
Precision precisionOf(mlir::ModuleOp program);

// Differences are |x - y| / max(1, |x|).
struct Tolerances {
  double close;  // closer elements need no measuring
  double usable; // an element that rounding alone can move further is undecided
};

// Returns the tolerances of a precision.
Tolerances tolerancesOf(Precision precision);

// Returns an observer that adds a random error to each float that an op rounds: up to 16 units in the last place in f64 and f32, of the sum
// of all magnitudes where terms are added; 2 units in bf16 and f16, where sums run in f32. What only moves, selects or compares is exact.
// With `alike`, equal elements of a result get equal errors, as they do where an order of terms moves one of them across the middle of two
// numbers.
reference::Observer roundingNoise(uint64_t seed, bool alike = false);

// One tensor, by two programs.
struct ComparedTensor {
  std::string name;
  const reference::Tensor *expected, *computed;
};

struct Comparison {
  double difference = 0; // the largest of all elements that are not undecided
  int64_t elements = 0, undecided = 0;
  int64_t further = 0; // undecided elements that are off by more than twice their own spread
  std::string fault;   // the element that is too far off; "" when none is
};

// Recomputes the expected tensors with an observer; returns them in the order of the comparison.
using Rerun = llvm::function_ref<mlir::FailureOr<std::vector<reference::Tensor>>(const reference::Observer &)>;

// Compares all tensors. An element may be off by what is close, or by twice its spread, an undecided one too.
Comparison compareRounded(llvm::ArrayRef<ComparedTensor> tensors, const Tolerances &tolerances, Rerun rerun);

// Returns the largest difference that any element is allowed; infinity when the program cannot be run again.
double largestAllowance(llvm::ArrayRef<ComparedTensor> tensors, const Tolerances &tolerances, Rerun rerun);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_ROUNDING_H
