// SPDX-License-Identifier: Apache-2.0
//
// How reports call an op.

#include "passes/layout/describe_op.h"

#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::layout {

std::string describeOp(Operation *op) {
  StringRef path = nn::getPath(op->getLoc()), kind = op->getName().getStringRef();
  return path.empty() ? kind.str() : (path + " (" + kind + ")").str();
}

} // namespace ashlar::layout
