// SPDX-License-Identifier: Apache-2.0
//
// The passes of this room, described in passes.td.

#ifndef ASHLAR_PASSES_DECODE_PASSES_H
#define ASHLAR_PASSES_DECODE_PASSES_H

#include "dialects/nn/nn.h"

#include "mlir/Pass/Pass.h"

namespace ashlar::decode {

// On the program decode, an i64: the positions of the model.
inline constexpr llvm::StringLiteral kContextAttr = "nn.context";

// The name of the input of programs that holds the number of their first position.
inline constexpr llvm::StringLiteral kPositionInput = "ashlar.position";

#define GEN_PASS_DECL
#include "passes/decode/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/decode/passes.h.inc"

} // namespace ashlar::decode

#endif // ASHLAR_PASSES_DECODE_PASSES_H
