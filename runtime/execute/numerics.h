// SPDX-License-Identifier: Apache-2.0
//
// Checks for numbers that are not finite: --check-numerics, and checkpoints.

#ifndef ASHLAR_RUNTIME_EXECUTE_NUMERICS_H
#define ASHLAR_RUNTIME_EXECUTE_NUMERICS_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <cstddef>
#include <functional>

namespace ashlar::rt {

class Program;

// Returns the index of the first element that is NaN; -1 when there is none, or the type has no NaN.
int64_t findNan(uint32_t dtype, const void *data, size_t bytes);

// Returns the index of the first element that is infinite or NaN; -1 when there is none, or the type has neither.
int64_t findNonfinite(uint32_t dtype, const void *data, size_t bytes);

// Checks the results of an instruction, right after it ran, and fails naming the first NaN. `load` returns the bytes of a buffer on the
// host, or null after it put a failure into the status.
Status checkNumerics(const Program &program, size_t instr, int device,
                     const std::function<const void *(const ashlar_rt_buffer &buffer, Status &status)> &load);

// The same for the inputs, before a run, so that no instruction is blamed for a NaN in the data.
Status checkInputs(const Program &program, const ashlar_rt_variant &variant, int device,
                   const std::function<const void *(const ashlar_rt_buffer &buffer, Status &status)> &load);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_NUMERICS_H
