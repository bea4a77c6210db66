// SPDX-License-Identifier: Apache-2.0
//
// A sharding rule: every dim of an op's operands and results written as a list of factors, the way an einsum names its dims. Sharding a
// factor over a mesh axis shards every dim that holds it, and the op computes its share unchanged.
//
//   matmul  ([i, k], [k, j]) -> ([i, j])   i, j pass through; k is reduced, so splitting k leaves the result partial
//   reshape ([ij, k]) -> ([i, jk])         a dim may be several factors, major to minor
//
// A factor may count positions that each need a window of elements along a dim that holds it (WindowedDim): rows of an image, where a
// convolution takes three for each of its result. Sharding the factor shards all these dims; where a device's positions need elements
// outside its shard, the devices exchange them (docs/convolution.md).

#ifndef ASHLAR_DIALECTS_SUPPORT_SHARDING_RULE_H
#define ASHLAR_DIALECTS_SUPPORT_SHARDING_RULE_H

#include "dialects/support/enums.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace ashlar {

// The effect of sharding a factor on the op.
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

// The elements along a dim that positions need: the positions [a, b) need [a * step + first, (b - 1) * step + last).
struct Access {
  int64_t step = 1, first = 0, last = 1;
};

// Elements [begin, end) along a dim; none where end <= begin.
struct ElementRange {
  int64_t begin, end;
};

// A dim of one factor whose elements do not match the positions one by one. For an operand it holds the elements that the op reads;
// elements outside of the tensor are 0. For a result it holds the elements that the op makes: blocks of `step` elements, with `first` 0 and
// `last` `step`.
struct WindowedDim {
  unsigned tensor; // among the operands, then the results
  unsigned dim;
  int64_t size; // of the dim, in elements
  Access access;
  llvm::SmallVector<ElementRange, 0> ranges; // instead of `access`, where steps are not equal: the range of each position
};

class ShardingRule {
public:
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;
  llvm::SmallVector<WindowedDim> windows;

  // Adds a factor and returns its index.
  int64_t addFactor(int64_t size, FactorKind kind = FactorKind::PassThrough, Reduction reduction = Reduction::Sum);

  // Notes that a dim of `size` elements is windowed, unless its elements are the positions. Assumes that the tensors have their factors.
  void addWindow(unsigned tensor, unsigned dim, int64_t size, const Access &access);

  // Marks a dim of an operand, of `size` elements, as windowed, with the range of each position.
  void addWindow(unsigned operand, unsigned dim, int64_t size, llvm::SmallVector<ElementRange, 0> ranges);

  // Returns the factor that a windowed dim holds.
  int64_t factorOf(const WindowedDim &window) const;

  // Returns the size of the smallest dim that is split with a factor: its own, or the size of a windowed dim that has fewer elements.
  int64_t smallestSize(int64_t factor) const;

  // Returns the rule of an op whose operands and results all have `shape`, with every dim passing through, as element-wise ops do.
  static ShardingRule elementwise(llvm::ArrayRef<int64_t> shape, unsigned numOperands, unsigned numResults = 1);

  // Returns the rule as an einsum-like line: "([i, k], [k, j]) -> ([i, j]) {i=4, k=8, j=16} reduction={k}".
  std::string toString() const;
};

} // namespace ashlar

#endif // ASHLAR_DIALECTS_SUPPORT_SHARDING_RULE_H
