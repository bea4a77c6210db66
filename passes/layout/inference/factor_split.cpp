// SPDX-License-Identifier: Apache-2.0
//
// Projection between layouts and splits of factors.

#include "passes/layout/inference/factor_split.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ashlar::layout {

FactorSplit project(MeshAttr mesh, const ShardingRule &rule, const TensorFactors &tensor, const Layout &layout) {
  FactorSplit split(rule.factors.size());
  for (auto [factors, axes] : llvm::zip_equal(tensor, layout.dims)) {
    if (factors.size() == 1) {
      split[factors.front()] = axes; // the factor is the dim: pieces of any size
      continue;
    }
    size_t position = 0;
    int64_t left = factors.empty() ? 1 : rule.factors[factors.front()].size;
    for (StringAttr axis : axes) {
      int64_t size = mesh.axisSize(axis);
      while (left == 1 && size > 1 && position + 1 < factors.size()) {
        left = rule.factors[factors[++position]].size;
      }
      if (factors.empty() || left % size != 0) {
        break;
      }
      left /= size;
      split[factors[position]].push_back(axis);
    }
  }
  return split;
}

Layout unproject(const TensorFactors &tensor, const FactorSplit &split) {
  Layout layout = Layout::replicated(tensor.size());
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    for (int64_t factor : factors) {
      llvm::append_range(layout.dims[dim], split[factor]);
    }
  }
  return layout;
}

bool holdsFactor(const TensorFactors &tensor, int64_t factor) {
  return llvm::any_of(tensor, [&](ArrayRef<int64_t> dim) { return llvm::is_contained(dim, factor); });
}

bool isWholeDim(ArrayRef<TensorFactors> tensors, int64_t factor) {
  return llvm::all_of(tensors, [&](const TensorFactors &tensor) {
    return llvm::all_of(tensor, [&](ArrayRef<int64_t> dim) { return dim.size() == 1 || !llvm::is_contained(dim, factor); });
  });
}

bool isSplittable(MeshAttr mesh, const ShardingRule &rule, ArrayRef<TensorFactors> tensors, const FactorSplit &split, int64_t factor,
                  StringAttr axis) {
  if (isWholeDim(tensors, factor)) {
    return rule.factors[factor].size != 0;
  }
  int64_t left = rule.factors[factor].size / mesh.groupSize(split[factor]);
  if (rule.factors[factor].size == 0 || left % mesh.axisSize(axis) != 0) {
    return false;
  }
  for (const TensorFactors &tensor : tensors) {
    for (ArrayRef<int64_t> dim : tensor) {
      const int64_t *position = llvm::find(dim, factor);
      if (position == dim.end()) {
        continue;
      }
      bool majorsDone =
          std::all_of(dim.begin(), position, [&](int64_t major) { return mesh.groupSize(split[major]) == rule.factors[major].size; });
      bool minorsFree = std::all_of(position + 1, dim.end(), [&](int64_t minor) { return split[minor].empty(); });
      if (!majorsDone || !minorsFree) {
        return false;
      }
    }
  }
  return true;
}

FailureOr<SmallVector<Layout>> resultLayouts(const ShardingRule &rule, const FactorSplit &split) {
  AxisList partial;
  std::optional<Reduction> kind;
  for (auto [factor, axes] : llvm::zip_equal(rule.factors, split)) {
    if (factor.kind != FactorKind::Reduction || axes.empty()) {
      continue;
    }
    if (kind && *kind != factor.reduction) {
      return failure();
    }
    kind = factor.reduction;
    llvm::append_range(partial, axes);
  }
  SmallVector<Layout> layouts;
  for (const TensorFactors &result : rule.results) {
    Layout &layout = layouts.emplace_back(unproject(result, split));
    layout.partial = partial;
    layout.reduction = kind.value_or(Reduction::Sum);
  }
  return layouts;
}

} // namespace ashlar::layout
