// SPDX-License-Identifier: Apache-2.0
//
// The names that a model gives to results of ops: the first one in nn.outputs, an entry a result, and further ones in nn.aliases. Of an op
// with several results nn.aliases holds an array for each.

#ifndef ASHLAR_DIALECTS_NN_RESULT_NAMES_H
#define ASHLAR_DIALECTS_NN_RESULT_NAMES_H

#include "mlir/IR/Operation.h"

namespace ashlar::nn {

// Gives a result one more name.
void addName(mlir::OpResult result, llvm::StringRef name);

// Returns all names of a result, the first one first.
llvm::SmallVector<llvm::StringRef> namesOf(mlir::OpResult result);

// Gives all names of a result to another one too, behind its own.
void moveNames(mlir::OpResult from, mlir::OpResult to);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_RESULT_NAMES_H
