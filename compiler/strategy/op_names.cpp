// SPDX-License-Identifier: Apache-2.0
//
// Numbers ops that have the same path and kind.

#include "compiler/strategy/op_names.h"

#include "dialects/nn/nn.h"
#include "passes/layout/inference/expand_split_ops.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;

namespace ashlar::strategy {

std::vector<std::pair<Operation *, OpName>> nameOps(func::FuncOp function) {
  std::vector<std::pair<Operation *, OpName>> ops;
  std::map<std::pair<StringRef, StringRef>, int64_t> counts;
  for (Operation &op : function.front()) {
    if (op.getNumResults() == 0 || isa<nn::ReadOp>(op)) {
      continue;
    }
    StringRef path = nn::getPath(op.getLoc()), kind = op.getName().getStringRef();
    if (std::optional<StringRef> expanded = layout::expandedName(&op)) {
      if (expanded->empty()) {
        continue;
      }
      kind = *expanded;
    }
    ops.emplace_back(&op, OpName{path.str(), kind.str(), counts[{path, kind}]++});
  }
  return ops;
}

} // namespace ashlar::strategy
