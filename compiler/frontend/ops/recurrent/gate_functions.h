// SPDX-License-Identifier: Apache-2.0
//
// The activations of LSTM, GRU and RNN.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_GATE_FUNCTIONS_H
#define ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_GATE_FUNCTIONS_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

struct GateFunctionKind;

// An activation with its numbers.
struct GateFunction {
  const GateFunctionKind *kind;
  double alpha, beta;

  mlir::Value apply(const Node &node, mlir::Value x) const;
};

// Returns the functions of each direction, one direction after the other: those of the attribute "activations", or `defaults` for each.
// Activations that take an alpha or a beta take the next one of "activation_alpha" or "activation_beta", and ONNX's default when none is
// left. Fails for other numbers of them, and for unknown names.
llvm::SmallVector<GateFunction> readGateFunctions(Node &node, int64_t directions, llvm::ArrayRef<llvm::StringRef> defaults);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_RECURRENT_GATE_FUNCTIONS_H
