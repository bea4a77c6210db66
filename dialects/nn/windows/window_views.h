// SPDX-License-Identifier: Apache-2.0
//
// The shapes, constraints and sharding rules that ops over windows share. `dims` are the dims that have windows, `windows` theirs.

#ifndef ASHLAR_DIALECTS_NN_WINDOWS_WINDOW_VIEWS_H
#define ASHLAR_DIALECTS_NN_WINDOWS_WINDOW_VIEWS_H

#include "dialects/nn/nn.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace ashlar::nn {

inline WindowAttr windowAt(mlir::ArrayAttr windows, size_t i) {
  return llvm::cast<WindowAttr>(windows[i]);
}

// Returns the dims of the windows in the result of nn.windows: {1, 2} over a rank of 4 -> {3, 4}.
llvm::SmallVector<int64_t> windowDims(llvm::ArrayRef<int64_t> dims);

// Returns a shape with positions instead of elements; fails, with an error at `loc`, on (C1), (C2) and (C3) of nn.windows.
mlir::FailureOr<llvm::SmallVector<int64_t>> positionShape(std::optional<mlir::Location> loc, llvm::ArrayRef<int64_t> shape,
                                                          llvm::ArrayRef<int64_t> dims, mlir::ArrayAttr windows);

// Returns the shape with the dims of the windows behind the last of `dims`.
llvm::SmallVector<int64_t> withWindows(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims, mlir::ArrayAttr windows);

// Returns whether a window reaches out of a dim of an operand of this shape.
bool hasPadding(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims, mlir::ArrayAttr windows);

// Adds the factors of tensors that hold elements, or positions, along `dims`, and the same dims besides. `shape` has how many there are,
// along `dims` the positions; `kind`: of the factors that have windows.
TensorFactors addWindowFactors(ShardingRule &rule, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims, FactorKind kind);

// Calls `body` with each element that stands in a window: its position in the operand, and its index in nn.windows' result.
void forEachPlace(llvm::ArrayRef<int64_t> elements, llvm::ArrayRef<int64_t> dims, mlir::ArrayAttr windows,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t> element, llvm::ArrayRef<int64_t> place)> body);

// Drops the dims of the windows from an index.
llvm::SmallVector<int64_t, 4> withoutWindows(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> dims);

} // namespace ashlar::nn

#endif // ASHLAR_DIALECTS_NN_WINDOWS_WINDOW_VIEWS_H
