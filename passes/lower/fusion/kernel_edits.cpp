// SPDX-License-Identifier: Apache-2.0
//
// Both walk the body once.

#include "passes/lower/fusion/kernel_edits.h"

#include "passes/lower/kernels/kernel_shape.h"
#include "passes/lower/kernels/row_passes.h"

using namespace mlir;

namespace ashlar::lower {

KernelSize sizeOf(exec::FusionOp kernel) {
  Block &body = kernel.getBody().front();
  KernelSize size;
  for (Operation &op : body.without_terminator()) {
    size.code += codeOf(op);
  }
  if (kernel.getKind() == exec::FusionKind::Rows) {
    size.passes = RowPasses(body, KernelShape::get(kernel).domain).lastLevel() + 1;
  }
  size.live = kernel.getNumResults();
  size.inputs.insert(kernel.getInputs().begin(), kernel.getInputs().end());
  return size;
}

void dropUnused(exec::FusionOp fusion) {
  Block &body = fusion.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body))) {
    if (op.use_empty() && &op != body.getTerminator()) {
      op.erase();
    }
  }
  for (unsigned i = body.getNumArguments(); i-- > 0;) {
    if (body.getArgument(i).use_empty()) {
      body.eraseArgument(i);
      fusion.getInputsMutable().erase(i);
    }
  }
}

} // namespace ashlar::lower
