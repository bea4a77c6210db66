// SPDX-License-Identifier: Apache-2.0
//
// How reports call an op.

#ifndef ASHLAR_PASSES_LAYOUT_DESCRIBE_OP_H
#define ASHLAR_PASSES_LAYOUT_DESCRIBE_OP_H

#include "mlir/IR/Operation.h"

#include <string>

namespace ashlar::layout {

// Returns the module path and the kind of an op: "fc1 (nn.matmul)"; only the kind when it has no path.
std::string describeOp(mlir::Operation *op);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_DESCRIBE_OP_H
