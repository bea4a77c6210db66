// SPDX-License-Identifier: Apache-2.0
//
// Sizes of ops as code: what scalar_ops.cpp, scalar_emitter.cpp and the polynomials of LLVM make of them, counted once and rounded.

#include "passes/lower/kernels/kernel_size.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::lower {

int64_t codeOf(Operation &op) {
  auto rank = [&] { return static_cast<int64_t>(shapeOf(op.getResult(0)).size()); };
  return llvm::TypeSwitch<Operation *, int64_t>(&op)
      .Case<nn::BroadcastOp, nn::ConstantOp, nn::TransposeOp>([](auto) { return 1; })
      .Case<nn::IndexOp, nn::SliceOp>([&](auto) { return 2 * rank() + 1; })
      .Case([&](nn::PadOp) { return 9 * rank() + 2; })
      .Case([](nn::ConcatOp concat) { return 5 * static_cast<int64_t>(concat.getInputs().size()); })
      .Case<nn::GatherOp, nn::ScatterAddOp>([](auto) { return 8; })
      .Case<nn::ExpOp, nn::LogOp, nn::SigmoidOp, nn::TanhOp>([](auto) { return 24; })
      .Case<nn::ErfOp, nn::GeluOp, nn::PowOp>([](auto) { return 48; })
      .Case([](nn::RandomOp) { return 128; })
      .Default([](Operation *) { return 2; });
}

void KernelSize::add(const KernelSize &other) {
  code += other.code;
  passes = std::max(passes, other.passes);
  live += other.live;
  inputs.insert(other.inputs.begin(), other.inputs.end());
}

} // namespace ashlar::lower
