// SPDX-License-Identifier: Apache-2.0
//
// Sizes of ops as code: scalar forms, views.cpp and the polynomials of LLVM, counted once and rounded.

#include "passes/lower/kernels/kernel_size.h"

#include "dialects/support/op_interfaces.h"

using namespace mlir;

namespace ashlar::lower {

int64_t codeOf(Operation &op) {
  if (isa<IndexingOpInterface>(op)) {
    return 8; // the number of a row, whether there is one, and its place
  }
  auto compute = dyn_cast<ComputeOpInterface>(op);
  switch (compute ? compute.getCost() : Cost::Simple) {
  case Cost::Free:
    return codeOfView(op);
  case Cost::Simple:
  case Cost::Division:
  case Cost::Contraction:
    return 2;
  case Cost::Function:
    return 24;
  case Cost::LongFunction:
    return 48;
  case Cost::Random:
    return 128;
  }
  llvm_unreachable("unknown cost");
}

void KernelSize::add(const KernelSize &other) {
  code += other.code;
  passes = std::max(passes, other.passes);
  live += other.live;
  inputs.insert(other.inputs.begin(), other.inputs.end());
}

} // namespace ashlar::lower
