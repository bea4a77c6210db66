// SPDX-License-Identifier: Apache-2.0
//
// Rows written into a tensor at an index that is known when the instruction runs.

#ifndef ASHLAR_RUNTIME_EXECUTE_CPU_INSERT_H
#define ASHLAR_RUNTIME_EXECUTE_CPU_INSERT_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"
#include "runtime/device/cpu/thread_pool.h"

namespace ashlar::rt {

// Fails where an instruction of kind insert has other buffers, or buffers of other sizes, than its description.
Status checkInsert(const ashlar_rt_instr &instr);

// Writes the rows. buffers: {rows, index, target} of an instruction that was checked. Bytes outside of the target stay as they are,
// whatever the index is.
void runInsert(const ashlar_rt_instr &instr, void *const *buffers, ThreadPool &pool);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CPU_INSERT_H
