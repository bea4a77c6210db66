// SPDX-License-Identifier: Apache-2.0
//
// Random training steps with repeats.

#ifndef ASHLAR_TEST_UNIT_REFERENCE_RANDOM_REPEATS_H
#define ASHLAR_TEST_UNIT_REFERENCE_RANDOM_REPEATS_H

#include <cstdint>
#include <string>

namespace ashlar::test {

// Returns a module with a function @train_step of a value and a stack that returns a loss, with repeats, nested to depth 2, whose ops are
// smooth. Three variables are trained: @w, a weight that all bodies capture, @v, a value, and @s, a stack. All numbers are f64.
std::string randomRepeats(uint64_t seed);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_REFERENCE_RANDOM_REPEATS_H
