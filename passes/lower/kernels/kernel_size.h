// SPDX-License-Identifier: Apache-2.0
//
// The limits of one kernel. Fusion checks them before an op joins a group, so the time to compile a kernel, its registers and its streams
// through memory have bounds that do not depend on the model.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_KERNEL_SIZE_H
#define ASHLAR_PASSES_LOWER_KERNELS_KERNEL_SIZE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

namespace ashlar::lower {

// Scalar instructions of one element, over all passes of a row. LLVM's passes over a block are linear up to about here (80 us an
// instruction) and quadratic beyond: 8000 instructions took 150 us each. The largest kernel of docs/jobs has 267.
constexpr int64_t kMaxKernelCode = 2048;

// Buffers that a kernel reads and writes. Each is a page that the loop is in: processors keep the addresses of 64 pages at hand
// (first-level TLB), and a GPU's thread holds two of its 255 registers for each. The largest kernel of docs/jobs has 12.
constexpr int64_t kMaxKernelBuffers = 64;

// Scalar instructions of a view. It is copied into every kernel that reads through it, and where it is read at several places into one
// kernel several times; a larger one is computed once, into memory.
constexpr int64_t kMaxViewCode = 256;

// Returns about how many scalar instructions compute one element of the op's result from its operands' elements.
int64_t codeOf(mlir::Operation &op);

// As codeOf, for an op that only reads elements of its operands, or makes them (views.cpp).
int64_t codeOfView(mlir::Operation &op);

// The size of a kernel.
struct KernelSize {
  int64_t code = 0;   // scalar instructions of one element, in one pass
  int64_t passes = 1; // over a row; each may recompute everything
  int64_t live = 0;   // values that something outside may still read: each can become a result
  llvm::SmallDenseSet<mlir::Value, 8> inputs;

  // Returns whether one kernel may hold this.
  bool fits() const { return code * passes <= kMaxKernelCode && live + static_cast<int64_t>(inputs.size()) <= kMaxKernelBuffers; }

  // Adds the content of another kernel with which this one shares no value.
  void add(const KernelSize &other);
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_KERNEL_SIZE_H
