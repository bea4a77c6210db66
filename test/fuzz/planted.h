// SPDX-License-Identifier: Apache-2.0
//
// Faults that are planted on purpose, to count in how many programs the fuzzer would see them: ops that take integers without a sign from
// the upper half of their range for negative ones. Only a run of the executable can show such a fault of the interpreter, and few programs
// become one, so enough of these have to.

#ifndef ASHLAR_TEST_FUZZ_PLANTED_H
#define ASHLAR_TEST_FUZZ_PLANTED_H

#include "mlir/IR/BuiltinOps.h"

#include <set>
#include <string>

namespace ashlar::fuzz {

// Returns the names of all faults, one for each op and type: "nn.sign ui64".
std::set<std::string> signFaults();

// Returns those that a run of the executable would show: one after the other is planted into the interpreter, which then computes other
// numbers than rounding can make of them. Nothing for a program that the interpreter cannot run.
std::set<std::string> shownSignFaults(mlir::ModuleOp program);

} // namespace ashlar::fuzz

#endif // ASHLAR_TEST_FUZZ_PLANTED_H
