// SPDX-License-Identifier: Apache-2.0
//
// Attention of the library: from a fusion to the call and its descriptor of the runtime. A call computes an attention and the log-sum-exp
// of its scores, or all three gradients; scores are in no memory of the program.

#ifndef ASHLAR_PASSES_LOWER_CALLS_LIBRARY_ATTENTION_H
#define ASHLAR_PASSES_LOWER_CALLS_LIBRARY_ATTENTION_H

#include "passes/lower/calls/library_call.h"

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "runtime/abi/ashlar_rt.h"

#include <array>
#include <optional>

namespace ashlar::lower {

// Returns the elements from one batch, head, row and key of a mask to the next, 0 along dims of size 1; nothing where batch dims but the
// last are not one: some of them are repeated.
std::optional<std::array<int64_t, 4>> maskStrides(mlir::RankedTensorType mask, mlir::RankedTensorType query);

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
