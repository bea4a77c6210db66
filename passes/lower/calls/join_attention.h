// SPDX-License-Identifier: Apache-2.0
//
// Which ops of an attention become a call of the library, which a generated kernel.

#ifndef ASHLAR_PASSES_LOWER_CALLS_JOIN_ATTENTION_H
#define ASHLAR_PASSES_LOWER_CALLS_JOIN_ATTENTION_H

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace ashlar::lower {

// Returns the kind of fusion that an op becomes; nothing where it is expanded.
std::optional<exec::FusionKind> attentionKind(nn::AttentionOp op, exec::Target target);
std::optional<exec::FusionKind> attentionKind(nn::AttentionGradientOp op, exec::Target target);

// Makes one call of each attention and its log-sum-exp, and one of the three gradients of each, where the target's library takes them; or
// generated kernels of these ops, where the target has them; the others stay. Not by the rows of library_call.h: a call has several
// results, and ops that do not read each other.
//   %l = nn.attention_log_sum %q, %k;  %y = nn.attention %q, %k, %v, %l
//   ==>  %l, %y = exec.fusion attention(%q, %k, %v) { both; exec.yield both }
// Transposes between (rows, heads) and (heads, rows) of what they read and give become the call's, too.
void joinAttention(mlir::func::FuncOp function, exec::Target target);

// Returns the tensor of a fusion's operands, or of its body, that has a tensor's values with their heads inside their rows; the tensor
// itself where there is none.
mlir::Value withHeadsInside(mlir::Value tensor);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_JOIN_ATTENTION_H
