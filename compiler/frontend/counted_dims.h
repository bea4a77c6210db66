// SPDX-License-Identifier: Apache-2.0
//
// Dims whose size only a run of the program finds, such as NonZero's: the tensor has the largest possible size, the first `count` elements
// along the dim are valid, and the others are padding. A tensor that is computed from such a one has the dim, too, if the op treats the
// elements along the dim apart: if its sharding rule passes the dim through, since an op that may compute shard by shard may compute
// without the padding. An op that would mix the elements with the padding is a fault, unless its handler removes the padding first
// (fillMissing).

#ifndef ASHLAR_COMPILER_FRONTEND_COUNTED_DIMS_H
#define ASHLAR_COMPILER_FRONTEND_COUNTED_DIMS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace ashlar::frontend {

class CountedDims {
public:
  // Marks only the first `count` elements of dim `dim` as valid; `count` is an i64 scalar.
  void declare(mlir::Value value, int64_t dim, mlir::Value count);

  // Marks all elements along a dim as valid.
  void settle(mlir::Value value, int64_t dim);

  // Returns the count of each dim of a value, null for a dim of fixed size; nothing where all are. Assumes that advance() has seen the
  // value.
  llvm::ArrayRef<mlir::Value> of(mlir::Value value) const;

  // An op that may not read a tensor with a counted dim.
  struct Fault {
    mlir::Value operand;
    int64_t dim;
    std::string why; // a clause with "the op" as its subject
  };

  // Finds the counted dims of the results of ops that were added at the end of the block since the last call. Returns the first fault;
  // results of such an op have no counted dims.
  std::optional<Fault> advance(mlir::Block &block);

  // Follows the ops of a body from now on, until it is left. Bodies nest.
  void enter(mlir::Block &body);
  void leave();

  // Why an op may not read a counted dim.
  static constexpr llvm::StringLiteral kMixes = "would mix them with the padding after them";

private:
  std::optional<Fault> follow(mlir::Operation *op);

  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 4>> counts; // of values that have a counted dim
  mlir::Operation *last = nullptr;                                       // that was seen
  llvm::SmallVector<std::pair<mlir::Block *, mlir::Operation *>> bodies; // entered, each with the last op seen before
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_COUNTED_DIMS_H
