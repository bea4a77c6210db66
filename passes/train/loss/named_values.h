// SPDX-License-Identifier: Apache-2.0
//
// Finding the tensors of a function by their names in the model.

#ifndef ASHLAR_PASSES_TRAIN_LOSS_NAMED_VALUES_H
#define ASHLAR_PASSES_TRAIN_LOSS_NAMED_VALUES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::train {

// Returns the value called `name`: a result of the function (`nn.name`), or of an op in it (`nn.outputs`). An empty name means the only
// result. Emits an error that lists the nearest names when there is none.
mlir::FailureOr<mlir::Value> findNamedValue(mlir::func::FuncOp function, llvm::StringRef name);

// Returns the argument with `nn.name` = `name`; nothing when there is none.
std::optional<unsigned> findNamedArgument(mlir::func::FuncOp function, llvm::StringRef name);

} // namespace ashlar::train

#endif // ASHLAR_PASSES_TRAIN_LOSS_NAMED_VALUES_H
