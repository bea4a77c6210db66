// SPDX-License-Identifier: Apache-2.0
//
// Layouts as plain values, and the shapes they give.

#include "dialects/dist/layout.h"

#include "dialects/dist/dist.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ashlar::dist {

bool Layout::isSplit() const {
  return llvm::any_of(dims, [](const AxisList &axes) { return !axes.empty(); });
}

bool Layout::uses(StringAttr axis) const {
  return llvm::is_contained(partial, axis) || llvm::any_of(dims, [&](const AxisList &axes) { return llvm::is_contained(axes, axis); });
}

bool Layout::operator==(const Layout &other) const {
  bool sameParts = partial.size() == other.partial.size() && (partial.empty() || reduction == other.reduction) &&
                   llvm::all_of(partial, [&](StringAttr axis) { return llvm::is_contained(other.partial, axis); });
  return sameParts && dims == other.dims;
}

std::string Layout::toString() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto printAxes = [&](ArrayRef<StringAttr> axes) {
    os << '{';
    llvm::interleaveComma(axes, os, [&](StringAttr axis) { os << axis; });
    os << '}';
  };
  os << '[';
  llvm::interleaveComma(dims, os, [&](const AxisList &axes) { printAxes(axes); });
  os << ']';
  if (isPartial()) {
    os << ", partial = " << stringifyReduction(reduction) << ' ';
    AxisList sorted = partial;
    llvm::sort(sorted, [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); });
    printAxes(sorted);
  }
  return text;
}

SmallVector<int64_t> pieceSizes(MeshAttr mesh, int64_t size, ArrayRef<StringAttr> axes) {
  SmallVector<int64_t> sizes;
  for (StringAttr axis : axes) {
    size = llvm::divideCeil(size, mesh.axisSize(axis));
    sizes.push_back(size);
  }
  return sizes;
}

Range pieceRange(MeshAttr mesh, int64_t size, ArrayRef<StringAttr> axes, int64_t device) {
  int64_t start = 0, end = size;
  for (auto [axis, piece] : llvm::zip_equal(axes, pieceSizes(mesh, size, axes))) {
    start += mesh.axisIndex(device, {axis}) * piece;
    end = std::min(end, start + piece);
  }
  return {start, std::max<int64_t>(0, end - start)};
}

SmallVector<int64_t> localShape(MeshAttr mesh, ArrayRef<int64_t> shape, const Layout &layout) {
  SmallVector<int64_t> local;
  for (auto [size, axes] : llvm::zip_equal(shape, layout.dims)) {
    local.push_back(axes.empty() ? size : pieceSizes(mesh, size, axes).back());
  }
  return local;
}

RankedTensorType localType(MeshAttr mesh, RankedTensorType type, const Layout &layout) {
  return type.clone(localShape(mesh, type.getShape(), layout));
}

bool isEven(MeshAttr mesh, int64_t size, ArrayRef<StringAttr> axes) {
  return size % mesh.groupSize(axes) == 0;
}

Layout withoutUnitAxes(MeshAttr mesh, const Layout &layout) {
  Layout kept = layout;
  auto isUnit = [&](StringAttr axis) { return mesh.groupSize({axis}) == 1; };
  for (AxisList &axes : kept.dims) {
    llvm::erase_if(axes, isUnit);
  }
  llvm::erase_if(kept.partial, isUnit);
  return kept;
}

AxisList inMeshOrder(MeshAttr mesh, AxisList axes) {
  llvm::sort(axes, [&](StringAttr a, StringAttr b) { return mesh.findAxis(a) < mesh.findAxis(b); });
  return axes;
}

} // namespace ashlar::dist
