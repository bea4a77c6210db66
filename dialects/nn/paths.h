// SPDX-License-Identifier: Apache-2.0
//
// The module paths of a program, which rules of the user name.

#ifndef ASHLAR_DIALECTS_NN_PATHS_H
#define ASHLAR_DIALECTS_NN_PATHS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace ashlar::nn {

// Returns the module paths of the ops of a block and of the bodies in it, each once, in the order of the ops.
llvm::SmallVector<llvm::StringRef> pathsOf(mlir::Block &body);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_PATHS_H
