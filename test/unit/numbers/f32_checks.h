// SPDX-License-Identifier: Apache-2.0
//
// Functions of f32 against exact ones: the operands, their positions in an array, and the criterion.

#ifndef ASHLAR_TEST_UNIT_NUMBERS_F32_CHECKS_H
#define ASHLAR_TEST_UNIT_NUMBERS_F32_CHECKS_H

#include "test/unit/lower/compiled_kernels.h"

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ashlar::test {

// The tolerance of a computed f32: units in the last place of the exact value (2^-149 where that is subnormal), and an absolute error.
struct Bound {
  double units = 0, absolute = 0;
};

// A function of up to three f32, exact in f64. Operands that it has not are 0.
using Exact = std::function<double(double, double, double)>;

// One function: @name computes it from `operands` arrays of kElements f32, or of that many and one more (@name_odd).
struct Function {
  std::string name;
  int operands;
  Exact exact;
  Bound bound;
  bool anyZero = false; // the sign of a zero is not promised
};

// Elements of an array: whole vectors, and a rest.
constexpr int64_t kElements = 204;

// Returns "" when `computed` is `exact` within the bound: NaN where that is NaN, infinity where it is too large for an f32 (by the bound,
// either side of the border), zeros with their sign. Else the difference.
std::string differenceFrom(double exact, double computed, const Bound &bound, bool anyZero);

// Returns the numbers of f32 that are not like others: zeros, infinities, NaN, subnormal ones, the largest and those next to where some
// function overflows, underflows or changes its form.
const std::vector<float> &specialValues();

// Returns tuples of operands: all of the special values (pairs: all of them; triples: drawn), and random bits.
std::vector<std::vector<float>> operandTuples(int operands);

// Returns a runner of the module's functions on the target: compiled, or, for cuda, as PTX in the emulator. Null where Ashlar was built
// without the toolkit.
std::unique_ptr<CompiledKernels> runnerOf(mlir::ModuleOp module, exec::Target target, std::mt19937_64 &random);

// Checks a function at all operandTuples(), each at many positions of both arrays (on the cpu at all): right within the bound, and the same
// bits everywhere.
void checkFunction(CompiledKernels &kernels, const Function &function, exec::Target target);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_NUMBERS_F32_CHECKS_H
