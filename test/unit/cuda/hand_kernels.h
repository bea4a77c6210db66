// SPDX-License-Identifier: Apache-2.0
//
// Kernels written by hand, in the form that passes/lower emits.

#ifndef ASHLAR_TEST_UNIT_CUDA_HAND_KERNELS_H
#define ASHLAR_TEST_UNIT_CUDA_HAND_KERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace ashlar::test {

// Returns the context of the modules below.
mlir::MLIRContext &cudaContext();

// Returns the module of `text`.
mlir::OwningOpRef<mlir::ModuleOp> parseKernels(const std::string &text);

// Returns the PTX of the kernels in `text`.
std::string ptxOf(const std::string &text, unsigned capability = 90);

// Elements of the kernels that elementwise() writes, and their grid.
constexpr int64_t kElements = 4096;
constexpr unsigned kBlocks = 8, kThreads = 128;

// Returns @loop_0(x, y) of 4 elements a thread, where `body` computes %y from %x, with %t, %u and %v in between. TYPE in `body` is the
// element type.
std::string elementwise(const std::string &body, const std::string &type = "f32");

// Returns @rows_0(x, sums, coordinate): a block of 128 threads sums a row of 128 by shuffles within warps and shared memory between them,
// and adds the coordinate. `wide`: its indices are of 64 bits.
constexpr int64_t kRowCount = 64, kRowElements = 128;
std::string rowSums(bool wide = false);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_CUDA_HAND_KERNELS_H
