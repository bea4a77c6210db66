// SPDX-License-Identifier: Apache-2.0
//
// A layout as a plain value: passes compute with it. LayoutAttr is the same thing inside the IR; dist_base.td has its meaning.

#ifndef ASHLAR_DIALECTS_DIST_LAYOUT_H
#define ASHLAR_DIALECTS_DIST_LAYOUT_H

#include "dialects/support/enums.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

namespace ashlar::dist {

class LayoutAttr;
class MeshAttr;

// Mesh axes by name, major to minor.
using AxisList = llvm::SmallVector<mlir::StringAttr, 2>;

struct Layout {
  llvm::SmallVector<AxisList> dims; // the axes that split each dim
  AxisList partial;                 // the axes over which the value is partial, in no order
  Reduction reduction{};            // how the parts combine; of no meaning when `partial` is empty

  // Returns the layout of a tensor that every device holds whole.
  static Layout replicated(int64_t rank) { return {llvm::SmallVector<AxisList>(rank), {}, {}}; }

  // Returns true when every device holds the whole value.
  bool isReplicated() const { return !isPartial() && !isSplit(); }

  // Returns true when some dim is split.
  bool isSplit() const;

  // Returns true when the devices hold parts of the value that are still to be combined.
  bool isPartial() const { return !partial.empty(); }

  // Returns true when the axis splits a dim or the value is partial over it.
  bool uses(mlir::StringAttr axis) const;

  // Returns true when both are equal; the order of `partial` does not count.
  bool operator==(const Layout &other) const;
  bool operator!=(const Layout &other) const { return !(*this == other); }

  // Returns the layout as it reads inside an attribute: [{"dp"}, {}], partial = sum {"tp"}.
  std::string toString() const;
};

// Returns the size of a shard after each axis: a dim is cut along its axes one after the other, major first, each time into shards of equal
// size, rounded up. The excess beyond the end of the dim, or of the shard that was cut, is padding.
//   size 12 over axes of 2 and 3: {6, 2}      size 4: {2, 1}, devices hold 0 | 1 | - and 2 | 3 | -
llvm::SmallVector<int64_t> pieceSizes(MeshAttr mesh, int64_t size, llvm::ArrayRef<mlir::StringAttr> axes);

// A run of elements of a dim.
struct Range {
  int64_t start, size;
};

// Returns the elements of a dim that a device holds: the first of its piece and how many of it are no padding (0 when all are).
Range pieceRange(MeshAttr mesh, int64_t size, llvm::ArrayRef<mlir::StringAttr> axes, int64_t device);

// Returns the shape that each device holds of a tensor of the global `shape`, padding included.
llvm::SmallVector<int64_t> localShape(MeshAttr mesh, llvm::ArrayRef<int64_t> shape, const Layout &layout);

// Returns the type that each device holds.
mlir::RankedTensorType localType(MeshAttr mesh, mlir::RankedTensorType type, const Layout &layout);

// Returns true when the axes divide the size, so that no piece holds padding.
bool isEven(MeshAttr mesh, int64_t size, llvm::ArrayRef<mlir::StringAttr> axes);

// Returns the layout without the axes of size 1: they neither split nor make partial, so redistributing over them is nothing to do.
Layout withoutUnitAxes(MeshAttr mesh, const Layout &layout);

// Returns the axes sorted as the mesh has them.
AxisList inMeshOrder(MeshAttr mesh, AxisList axes);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_LAYOUT_H
