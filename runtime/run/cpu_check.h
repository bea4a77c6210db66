// SPDX-License-Identifier: Apache-2.0
//
// Whether this machine can run the program: without the check it would end in an illegal instruction, somewhere.

#ifndef ASHLAR_RUNTIME_RUN_CPU_CHECK_H
#define ASHLAR_RUNTIME_RUN_CPU_CHECK_H

#include "runtime/base/status.h"

namespace ashlar::rt {

// Checks that the CPU has the features of the list, names separated by commas; null: none are needed. A name that is not in
// runtime/abi/cpu_features.h counts as lacking.
Status checkCpu(const char *features);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CPU_CHECK_H
