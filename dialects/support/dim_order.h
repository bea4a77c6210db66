// SPDX-License-Identifier: Apache-2.0
//
// The order in which the dims of a tensor stand in memory.

#ifndef ASHLAR_DIALECTS_SUPPORT_DIM_ORDER_H
#define ASHLAR_DIALECTS_SUPPORT_DIM_ORDER_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"

namespace ashlar {

// Place p of memory, the first being the slowest, holds dim order[p] of the tensor: {0, 2, 3, 1} is [B, C, H, W] with the channels last.
using DimOrder = llvm::SmallVector<int64_t, 6>;

// Returns the order of the dims themselves.
inline DimOrder identityOrder(int64_t rank) {
  return llvm::to_vector<6>(llvm::seq<int64_t>(0, rank));
}

inline bool isIdentity(llvm::ArrayRef<int64_t> order) {
  return llvm::all_of(llvm::enumerate(order), [](auto entry) { return entry.value() == static_cast<int64_t>(entry.index()); });
}

// Returns the order of channels last: dim 1 moves behind the spatial dims.
inline DimOrder channelsLastOrder(int64_t rank) {
  DimOrder order = identityOrder(rank);
  order.erase(order.begin() + 1);
  order.push_back(1);
  return order;
}

// Returns the place at which a dim stands.
inline int64_t placeOf(llvm::ArrayRef<int64_t> order, int64_t dim) {
  return llvm::find(order, dim) - order.begin();
}

// Returns the places at which dims stand.
inline llvm::SmallVector<int64_t> placesOf(llvm::ArrayRef<int64_t> order, llvm::ArrayRef<int64_t> dims) {
  return llvm::map_to_vector(dims, [&](int64_t dim) { return placeOf(order, dim); });
}

// Returns one number a dim as one number a place.
inline llvm::SmallVector<int64_t> inOrder(llvm::ArrayRef<int64_t> order, llvm::ArrayRef<int64_t> numbers) {
  return llvm::map_to_vector(order, [&](int64_t dim) { return numbers[dim]; });
}

// Returns the type of a tensor whose dims stand in `order`.
inline mlir::RankedTensorType inOrder(llvm::ArrayRef<int64_t> order, mlir::RankedTensorType type) {
  return type.clone(inOrder(order, type.getShape()));
}

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_DIM_ORDER_H
