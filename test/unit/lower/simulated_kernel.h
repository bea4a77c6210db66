// SPDX-License-Identifier: Apache-2.0
//
// Runs a kernel of the cuda target as it stands after ashlar-plan-memory, on the CPU: the threads of a block op by op together.

#ifndef ASHLAR_TEST_UNIT_LOWER_SIMULATED_KERNEL_H
#define ASHLAR_TEST_UNIT_LOWER_SIMULATED_KERNEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::test {

// Runs all blocks of the grid of `kernel` on `buffers`, one an argument, of the sizes of the arguments' types. Throws std::runtime_error
// when a thread leaves a buffer, when a barrier or a shuffle is not reached by all threads of the block or warp, or at an unknown op. Does
// not see races: between two ops all threads are at the same place.
void simulateKernel(mlir::func::FuncOp kernel, llvm::ArrayRef<char *> buffers);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_LOWER_SIMULATED_KERNEL_H
