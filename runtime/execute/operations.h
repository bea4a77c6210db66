// SPDX-License-Identifier: Apache-2.0
//
// The operations of a program, from its tables alone. Counted are library calls: products, convolutions, attention.

#ifndef ASHLAR_RUNTIME_EXECUTE_OPERATIONS_H
#define ASHLAR_RUNTIME_EXECUTE_OPERATIONS_H

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

// Returns the additions and multiplications of an instruction, two for each multiply-add; 0 for one that is no library call. Of attention,
// two for each score and column of the query or value; its gradient has five products of each score instead of two. Half of that where it
// is causal.
double operationsOf(const ashlar_rt_instr &instr);

// Whether the operands of a library call are bf16 or f16.
bool isNarrow(const ashlar_rt_instr &instr);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_OPERATIONS_H
