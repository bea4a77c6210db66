// SPDX-License-Identifier: Apache-2.0
//
// Layouts written as splits of the factors of a sharding rule, and back. A dim that is several factors is split major factor first: a
// minor factor can only be split when all factors before it are split completely.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_FACTOR_SPLIT_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_FACTOR_SPLIT_H

#include "dialects/dist/dist.h"
#include "dialects/support/sharding_rule.h"

namespace ashlar::layout {

using dist::AxisList;
using dist::Layout;
using dist::MeshAttr;

// For each factor of a rule the axes that split it, major to minor.
using FactorSplit = llvm::SmallVector<AxisList, 4>;

// Returns the layout of one tensor as a split of factors; axes that fit no factor are left out. A dim that is one factor takes any axes; in
// a dim that is several the axes must divide them.
//   dim [ij] with i=2, j=6 on x=2, y=3:  [{"x", "y"}] -> i: {x}, j: {y}    [{"y"}] -> nothing, 3 does not divide 2
FactorSplit project(MeshAttr mesh, const ShardingRule &rule, const TensorFactors &tensor, const Layout &layout);

// Returns the layout of one tensor under a split of factors; not partial. Assumes that a factor with axes is preceded, in each dim, only by
// factors that are split completely (isSplittable).
Layout unproject(const TensorFactors &tensor, const FactorSplit &split);

// Returns true when every dim that holds the factor is that factor alone. Only then may its pieces be uneven: padding at the end of a piece
// would otherwise lie in the middle of a dim.
bool isWholeDim(llvm::ArrayRef<TensorFactors> tensors, int64_t factor);

// Returns true when `axis` can shard `factor` further, on top of `split`, in every tensor of `tensors` that holds the factor: the factor is
// all of its dims, or `axis` divides the rest of it, factors before it in a dim are sharded completely and factors after it not at all.
bool isSplittable(MeshAttr mesh, const ShardingRule &rule, llvm::ArrayRef<TensorFactors> tensors, const FactorSplit &split, int64_t factor,
                  mlir::StringAttr axis);

// Returns true when some dim of the tensor holds the factor.
bool holdsFactor(const TensorFactors &tensor, int64_t factor);

// Returns the layouts of the results that an op computes under a split: partial over the axes of factors that are reduced. Failure when
// factors of different reductions are split at once.
mlir::FailureOr<llvm::SmallVector<Layout>> resultLayouts(const ShardingRule &rule, const FactorSplit &split);

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_FACTOR_SPLIT_H
