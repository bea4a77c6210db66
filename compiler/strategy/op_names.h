// SPDX-License-Identifier: Apache-2.0
//
// How a strategy names ops, so that a program that was changed elsewhere still finds them.

#ifndef ASHLAR_COMPILER_STRATEGY_OP_NAMES_H
#define ASHLAR_COMPILER_STRATEGY_OP_NAMES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace ashlar::strategy {

// An op by its module path, its kind, and its number among the ops of its function that have both.
struct OpName {
  std::string path, kind;
  int64_t ordinal = 0;
};

// Returns the ops of a function whose results have layouts of their own, each with its name, in program order. Reads of variables have the
// variable's name. The expansion of an op counts as that op: the layouts inside follow from its layout.
std::vector<std::pair<mlir::Operation *, OpName>> nameOps(mlir::func::FuncOp function);

} // namespace ashlar::strategy

#endif // ASHLAR_COMPILER_STRATEGY_OP_NAMES_H
