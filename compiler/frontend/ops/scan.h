// SPDX-License-Identifier: Apache-2.0
//
// Running sums and products, for handlers of other families.

#ifndef ASHLAR_COMPILER_FRONTEND_OPS_SCAN_H
#define ASHLAR_COMPILER_FRONTEND_OPS_SCAN_H

#include "compiler/frontend/node.h"

namespace ashlar::frontend {

// Returns the product of the elements up to each one along `dim`: [2, 3, 4] gives [2, 6, 24].
mlir::Value multiplyUpTo(const Node &node, mlir::Value value, int64_t dim);

// Returns the sum of the elements up to each one along `dim`: [2, 3, 4] gives [2, 5, 9].
mlir::Value sumUpTo(const Node &node, mlir::Value value, int64_t dim);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_OPS_SCAN_H
