// SPDX-License-Identifier: Apache-2.0
//
// The output of --profile on a program: its time by kind of instruction, by module of the model, by instruction.

#ifndef ASHLAR_RUNTIME_EXECUTE_PROFILE_H
#define ASHLAR_RUNTIME_EXECUTE_PROFILE_H

#include "runtime/execute/executor.h"

namespace ashlar::rt {

// Returns the tables of a program, which was profiled, on `devices` devices of this process; "" when it never ran. Modules with less than 1
// % of the time and instructions after the 20 most expensive are in it only if `all`. The last line has the overlapped part of the time of
// asynchronous collectives, with the predicted one.
std::string profileText(const Program &program, int devices, bool all);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_PROFILE_H
