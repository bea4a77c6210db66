// SPDX-License-Identifier: Apache-2.0
//
// Random meshes and layouts; see random_layout.h.

#include "test/fuzz/random_layout.h"

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kMaxDevices = 12;
constexpr int64_t kMaxAxes = 3;

} // namespace

dist::MeshAttr randomMesh(Dice &dice, MLIRContext &context) {
  constexpr StringLiteral kNames[kMaxAxes] = {"x", "y", "z"};
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  int64_t room = kMaxDevices;
  for (int64_t axes = 1 + dice.roll(kMaxAxes); static_cast<int64_t>(names.size()) < axes;) {
    // An even choice of what fits would leave later axes nothing: two draws, the smaller one, unless it is the only axis.
    int64_t size = 1 + std::min(dice.roll(room), axes == 1 ? room - 1 : dice.roll(room));
    names.push_back(StringAttr::get(&context, kNames[names.size()]));
    sizes.push_back(size);
    room /= size;
  }
  return dist::MeshAttr::get(&context, names, sizes);
}

SmallVector<int64_t> randomSizes(Dice &dice, dist::MeshAttr mesh) {
  constexpr int64_t kPlain[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12};
  SmallVector<int64_t> sizes;
  for (int64_t i = 0; i < 3; ++i) {
    int64_t size = 1 + dice.roll(2);
    for (int64_t axis : mesh.getSizes()) {
      size *= dice.oneIn(2) ? axis : 1;
    }
    sizes.push_back(size);
    sizes.push_back(dice.pick(kPlain));
  }
  return sizes;
}

dist::Layout randomLayout(Dice &dice, dist::MeshAttr mesh, ArrayRef<int64_t> shape, bool uneven) {
  dist::Layout layout = dist::Layout::replicated(shape.size());
  SmallVector<StringAttr> axes(mesh.getAxes());
  for (size_t i = axes.size(); i > 1; --i) {
    std::swap(axes[i - 1], axes[dice.roll(i)]);
  }
  for (StringAttr axis : axes) {
    if (shape.empty() || dice.oneIn(4)) {
      continue;
    }
    // Of two draws one may fit.
    for (int64_t attempt = 0; attempt < 2; ++attempt) {
      size_t d = dice.roll(shape.size());
      layout.dims[d].push_back(axis);
      if (uneven || dist::isEven(mesh, shape[d], layout.dims[d])) {
        break;
      }
      layout.dims[d].pop_back();
    }
  }
  return layout;
}

} // namespace ashlar::fuzz
