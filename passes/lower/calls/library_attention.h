// SPDX-License-Identifier: Apache-2.0
//
// Attention of the library: which ops of a program a call can be, from there to the descriptor of the runtime. A call computes an attention
// and the log-sum-exp of its scores, or all three gradients; scores are in no memory of the program.

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_ATTENTION_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_ATTENTION_H

#include "passes/lower/calls/library_call.h"

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "runtime/abi/ashlar_rt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::lower {

// Makes one call of each attention and its log-sum-exp, and one of the three gradients of each, where the target's library takes their
// types; the others stay. Not by the rows of library_call.h: a call has several results, and ops that do not read each other.
//   %l = nn.attention_log_sum %q, %k;  %y = nn.attention %q, %k, %v, %l
//   ==>  %l, %y = exec.fusion attention(%q, %k, %v) { both; exec.yield both }
// Transposes between (rows, heads) and (heads, rows) of what they read and give become the call's, too.
void joinAttention(mlir::func::FuncOp function, exec::Target target);

// Returns the bytes that a call needs: for each thread, or of the device where its workspace has a fixed place.
uint64_t attentionWorkspace(const ashlar_rt_attention_desc &desc, exec::Target target);

// Returns the same for the call that an op becomes; 0 where it becomes none.
uint64_t attentionWorkspace(mlir::Operation *op, exec::Target target);

// Builds the call that a fusion of kind attention becomes. Fails, with an error, where its body is not one of these.
mlir::LogicalResult buildAttentionCall(const CallSite &site);

// Returns the call as the runtime gets it.
ashlar_rt_attention_desc describeAttention(exec::AttentionOp call);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_CALLS_LIBRARY_ATTENTION_H
