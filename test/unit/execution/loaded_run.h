// SPDX-License-Identifier: Apache-2.0
//
// A compiled program inside the test, run by the executor of its target and, from the same inputs, by the interpreter.

#ifndef ASHLAR_TEST_UNIT_EXECUTION_LOADED_RUN_H
#define ASHLAR_TEST_UNIT_EXECUTION_LOADED_RUN_H

#include "runtime/abi/ashlar_rt.h"

#include <string>

namespace ashlar::test {

// Runs the compiler in `folder`: `arguments` name the model and the job there. Returns the image.
const ashlar_rt_image *compileAndLoad(const std::string &folder, const std::string &arguments);

// Compiles a classifier of 32 samples, for training with dropout and momentum when `trains`, else alone. Runs each program of the variant
// twice, on all its devices, and reads every tensor of the variant back after each run: inputs and unwritten tensors are as before, all
// others equal the interpreter's.
void checkReads(const std::string &target, bool trains, const std::string &variant = "default");

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_EXECUTION_LOADED_RUN_H
