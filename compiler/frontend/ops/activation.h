// SPDX-License-Identifier: Apache-2.0
//
// Activations of several nn ops, for handlers of other families.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_ACTIVATION_H
#define ASHLAR_COMPILER_FRONTEND_OPS_ACTIVATION_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// max(x, 0) + alpha (e^(min(x, 0) / width) - 1): Elu, Celu.
mlir::Value exponentialUnit(const Node &node, mlir::Value x, double alpha, double width);

// max(0, min(1, alpha x + beta))
mlir::Value hardSigmoid(const Node &node, mlir::Value x, double alpha, double beta);

// alpha x + beta
mlir::Value scaleAndShift(const Node &node, mlir::Value x, double alpha, double beta);

// Bounds every element by [low, high].
mlir::Value clamp(const Node &node, mlir::Value x, double low, double high);

// log(1 + e^x)
mlir::Value softplus(const Node &node, mlir::Value x);

// x / (1 + |x|)
mlir::Value softsign(const Node &node, mlir::Value x);

// x above alpha, else 0.
mlir::Value thresholdedRelu(const Node &node, mlir::Value x, double alpha);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_ACTIVATION_H
