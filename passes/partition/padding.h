// SPDX-License-Identifier: Apache-2.0
//
// Sizes that do not divide. A piece may end in padding (dist::pieceSizes): dims are lengthened before they are cut, shortened after they
// are joined, and padding is masked where an op would count it.

#ifndef ASHLAR_PASSES_PARTITION_PADDING_H
#define ASHLAR_PASSES_PARTITION_PADDING_H

#include "dialects/dist/dist.h"
#include "dialects/support/sharding_rule.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace ashlar::partition {

// Lengthens `dim` of a local value so that `axes` cut it into the equal shards of dist::pieceSizes; the new elements are 0.
//   size 5 over an axis of 2: 5 -> 6         size 4 over axes of 2 and 3: 4 -> (2, 2) -> (2, 3) -> 6
mlir::Value padToPieces(mlir::ImplicitLocOpBuilder &builder, dist::MeshAttr mesh, mlir::Value value, int64_t dim,
                        llvm::ArrayRef<mlir::StringAttr> axes);

// Takes the padding out of `dim`, which is the pieces of a dim of `size` joined over `axes`: the inverse of padToPieces.
mlir::Value trimPieces(mlir::ImplicitLocOpBuilder &builder, dist::MeshAttr mesh, mlir::Value value, int64_t dim, int64_t size,
                       llvm::ArrayRef<mlir::StringAttr> axes);

// Returns the number, as a scalar, of the first element that the device holds of a dim of `size`, times `stride`.
mlir::Value emitPieceStart(mlir::ImplicitLocOpBuilder &builder, dist::MeshAttr mesh, int64_t size, llvm::ArrayRef<mlir::StringAttr> axes,
                           int64_t stride = 1);

// Returns the local value with the padding of `dim`, of global `size`, replaced by elements of `filler`.
mlir::Value maskPadding(mlir::ImplicitLocOpBuilder &builder, dist::MeshAttr mesh, mlir::Value value, int64_t dim, int64_t size,
                        llvm::ArrayRef<mlir::StringAttr> axes, mlir::DenseElementsAttr filler);

// Returns elements that change no value they are combined with.
mlir::DenseElementsAttr neutralElements(mlir::RankedTensorType type, Reduction reduction);

// Returns numbers of elements of a dim of `size` as counted from the first that the device holds. A number of any other element becomes one
// outside of the piece.
mlir::Value emitLocalNumbers(mlir::ImplicitLocOpBuilder &builder, dist::MeshAttr mesh, mlir::Value numbers, int64_t size,
                             llvm::ArrayRef<mlir::StringAttr> axes);

// Returns where a device's part of a windowed dim begins.
RunStart emitRunStart(mlir::ImplicitLocOpBuilder &b, dist::MeshAttr mesh, const dist::SplitWindow &window);

// Returns a device's segments along windowed dims with 0 where they are outside of the tensor.
mlir::Value maskRun(mlir::ImplicitLocOpBuilder &b, dist::MeshAttr mesh, mlir::Value run, llvm::ArrayRef<dist::SplitWindow> windows);

// Returns a device's segments of a constant with the equal elements of `splat`, along windowed dims: 0 outside of the tensor. `splat` has
// the type of a shard.
mlir::Value emitRunOf(mlir::ImplicitLocOpBuilder &b, dist::MeshAttr mesh, mlir::DenseElementsAttr splat,
                      llvm::ArrayRef<dist::SplitWindow> windows);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_PADDING_H
