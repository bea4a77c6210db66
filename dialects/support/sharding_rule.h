// SPDX-License-Identifier: Apache-2.0
//
// A sharding rule: every dim of an op's operands and results written as a list of factors, the way an einsum names its dims. Splitting a
// factor over a mesh axis splits every dim that holds it, and the op computes its share without knowing.
//
//   matmul  ([i, k], [k, j]) -> ([i, j])   i, j pass through; k is reduced, so splitting k leaves the result partial
//   reshape ([ij, k]) -> ([i, jk])         a dim may be several factors, major to minor

#ifndef ASHLAR_DIALECTS_SUPPORT_SHARDING_RULE_H
#define ASHLAR_DIALECTS_SUPPORT_SHARDING_RULE_H

#include "dialects/support/enums.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace ashlar {

// What splitting a factor means for the op.
enum class FactorKind {
  PassThrough,     // each device computes its part; nothing to combine
  Reduction,       // each device computes a partial result, combined by Factor::reduction
  NeedReplication, // the op needs the whole of it on each device
  Expanded,        // the op needs the whole of it; where it is split, the op's expansion is computed instead (ExpandableOpInterface)
  Permutation      // elements move along it: computed with the whole of it, but a split of the operand carries on to the result
};

// Returns true when an op can be computed while a factor of this kind is split.
inline bool mayBeSplit(FactorKind kind) {
  return kind == FactorKind::PassThrough || kind == FactorKind::Reduction;
}

struct Factor {
  int64_t size; // of a Permutation factor, the smallest of the dims that hold it
  FactorKind kind;
  Reduction reduction = Reduction::Sum; // of a Reduction factor
};

// The factors of one tensor: for each dim the indices of its factors, major to minor. An empty list is a dim that may not be split (size
// 1).
using TensorFactors = llvm::SmallVector<llvm::SmallVector<int64_t, 2>>;

class ShardingRule {
public:
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;

  // Adds a factor and returns its index.
  int64_t addFactor(int64_t size, FactorKind kind = FactorKind::PassThrough, Reduction reduction = Reduction::Sum);

  // Returns the rule of an op whose operands and results all have `shape`, with every dim passing through, as element-wise ops do.
  static ShardingRule elementwise(llvm::ArrayRef<int64_t> shape, unsigned numOperands, unsigned numResults = 1);

  // Returns the rule as an einsum-like line: "([i, k], [k, j]) -> ([i, j]) {i=4, k=8, j=16} reduction={k}".
  std::string toString() const;
};

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_SHARDING_RULE_H
