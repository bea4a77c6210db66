// SPDX-License-Identifier: Apache-2.0
//
// Finding the pairs; see shape_pairs.h.

#include "test/fuzz/shape_pairs.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

#include <algorithm>

using namespace mlir;

namespace ashlar::fuzz {

namespace {

class ShapePairs {
public:
  explicit ShapePairs(dist::MeshAttr mesh) : mesh(mesh), b(mesh.getContext()) {}

  void give(ModuleOp module) {
    module.walk([&](nn::ReshapeOp first) {
      for (Operation *user : first.getInput().getUsers()) {
        if (auto second = dyn_cast<nn::ReshapeOp>(user)) {
          givePair(first, second);
        }
      }
    });
  }

private:
  void givePair(nn::ReshapeOp first, nn::ReshapeOp second) {
    ArrayRef<int64_t> shape = first.getType().getShape(), other = second.getType().getShape();
    if (shape.size() != other.size()) {
      return;
    }
    const size_t dim = std::mismatch(shape.begin(), shape.end(), other.begin()).first - shape.begin();
    SmallVector<int64_t> moved(shape); // the factor to the next dim
    if (dim + 1 < shape.size()) {
      moved[dim + 1] *= std::exchange(moved[dim], 1);
    }
    StringAttr inner = axisOf([&](StringAttr, int64_t size) { return dim < shape.size() && size == shape[dim]; });
    StringAttr outer = axisOf([&](StringAttr axis, int64_t) { return axis != inner; });
    if (ArrayRef<int64_t>(moved) != other || !inner || !outer) {
      return;
    }
    for (size_t along = 0; along < shape.size(); ++along) {
      if (along != dim && along != dim + 1 && shape[along] > 1) {
        giveOne(first, dim, inner, along, outer);
        return giveOne(second, dim + 1, inner, along, outer);
      }
    }
  }

  // Returns the first axis of several devices that fits, if there is one.
  StringAttr axisOf(llvm::function_ref<bool(StringAttr axis, int64_t size)> fits) {
    for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes())) {
      if (size > 1 && fits(axis, size)) {
        return axis;
      }
    }
    return {};
  }

  void giveOne(nn::ReshapeOp op, size_t dim, StringAttr inner, size_t along, StringAttr outer) {
    dist::Layout used = dist::Layout::replicated(op.getType().getRank());
    used.dims[dim] = {inner};
    dist::Layout made = used;
    made.dims[along] = {outer};
    for (StringRef name : {dist::kOpensAttr, dist::kPrioritiesAttr}) {
      op->removeAttr(name);
    }
    op->setAttr(dist::kLayoutsAttr, b.getArrayAttr(dist::LayoutAttr::get(b.getContext(), made)));
    for (OpOperand &use : op->getUses()) {
      if (isa<nn::TanhOp>(use.getOwner())) {
        use.getOwner()->setAttr(dist::kOperandLayoutsAttr, b.getArrayAttr(dist::LayoutAttr::get(b.getContext(), used)));
      }
    }
  }

  dist::MeshAttr mesh;
  Builder b;
};

} // namespace

void giveShapePairs(dist::MeshAttr mesh, ModuleOp module) {
  ShapePairs(mesh).give(module);
}

bool hasShapePair(ModuleOp program) {
  llvm::DenseMap<Value, int64_t> shapes;
  program.walk([&](nn::ReshapeOp op) {
    shapes[op.getInput()] += op->hasAttr(dist::kLayoutsAttr) &&
                             llvm::any_of(op->getUsers(), [](Operation *user) { return user->hasAttr(dist::kOperandLayoutsAttr); });
  });
  return llvm::any_of(shapes, [](const auto &entry) { return entry.second > 1; });
}

} // namespace ashlar::fuzz
