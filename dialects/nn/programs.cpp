// SPDX-License-Identifier: Apache-2.0
//
// What programs do for each other.

#include "dialects/nn/programs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::nn {

SmallVector<VariableOp> preparedVariables(ModuleOp module) {
  SmallVector<VariableOp> variables;
  SymbolTable symbols(module); // a look-up in the module itself is linear
  if (auto prepare = symbols.lookup<func::FuncOp>(kPrepare)) {
    for (auto write : prepare.front().getOps<WriteOp>()) {
      variables.push_back(symbols.lookup<VariableOp>(write.getVariable()));
    }
  }
  return variables;
}

} // namespace ashlar::nn
