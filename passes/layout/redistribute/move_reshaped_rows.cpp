// SPDX-License-Identifier: Apache-2.0
//
// ashlar-move-reshaped-rows: which reshapes cannot follow an even split on this mesh.

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/passes.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_MOVERESHAPEDROWSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Whether a tensor has a dim of several factors of which no axis divides the first one, though each device of one could have a part of it.
bool hasUnevenDim(const ShardingRule &rule, const TensorFactors &tensor, dist::MeshAttr mesh) {
  return llvm::any_of(tensor, [&](const auto &factors) {
    const int64_t size = factors.size() > 1 ? rule.factors[factors.front()].size : 1;
    auto cuts = [&](int64_t axis) { return axis > 1 && axis <= size; };
    return llvm::any_of(mesh.getSizes(), cuts) &&
           llvm::none_of(mesh.getSizes(), [&](int64_t axis) { return cuts(axis) && size % axis == 0; });
  });
}

struct MoveReshapedRows : impl::MoveReshapedRowsPassBase<MoveReshapedRows> {
  void runOnOperation() override {
    const dist::MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    getOperation().walk([&](nn::ReshapeOp reshape) {
      const ShardingRule rule = reshape.getShardingRule();
      if (hasUnevenDim(rule, rule.operands.front(), mesh) || hasUnevenDim(rule, rule.results.front(), mesh)) {
        reshape.setMovesRows(true);
      }
    });
  }
};

} // namespace

} // namespace ashlar::layout
