// SPDX-License-Identifier: Apache-2.0
//
// Which inputs hold class labels or numbers of rows of a table, and how many there are, so that the program can refuse a data set with
// others. The loss knows the classes: one that the job names, or a SoftmaxCrossEntropyLoss or NegativeLogLikelihoodLoss of the model.

#ifndef ASHLAR_COMPILER_DRIVER_CLASS_LABELS_H
#define ASHLAR_COMPILER_DRIVER_CLASS_LABELS_H

#include "compiler/job/job.pb.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <optional>

namespace ashlar::driver {

// The labels of one input: 0 .. classes - 1, and the label that the loss ignores, a class or not.
struct ClassLabels {
  uint64_t classes = 0;
  std::optional<int64_t> ignored;
};

// Returns the inputs of @forward that hold class labels under the job's loss, by name. Assumes an imported module, before the loss is
// added. A job without a loss has none; a loss that names a missing tensor is left to the loss pass.
llvm::StringMap<ClassLabels> findClassLabels(const job::Job &job, mlir::ModuleOp module);

// Returns the inputs of @forward that index the rows of a table, such as tokens of an embedding, by name; with the rows of the smallest
// table. Indices that are computed from an input are not its own: only casts, reshapes and transposes, and counting from the end, may lie
// between them. Assumes the same module.
llvm::StringMap<uint64_t> findTableRows(mlir::ModuleOp module);

} // namespace ashlar::driver

#endif // ASHLAR_COMPILER_DRIVER_CLASS_LABELS_H
