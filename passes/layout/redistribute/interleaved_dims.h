// SPDX-License-Identifier: Apache-2.0
//
// The dims whose elements -ashlar-interleave-parts puts in another order. Loops cut such a dim into parts of one size, as the gates of an
// LSTM, and shard the parts as they shard the dim. In the order of the model the shards of the dim are no shards of the parts.

#ifndef ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_INTERLEAVED_DIMS_H
#define ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_INTERLEAVED_DIMS_H

#include "passes/layout/inference/layout_problem.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/IntEqClasses.h"

namespace ashlar::layout {

// An order of the elements of a dim of `parts` parts, in which each of `shards` shards holds its share of every part.
//   2 parts of 4 elements, a b c d and A B C D, in 2 shards: a b A B, c d C D
struct PartOrder {
  int64_t parts, shards;
  AxisList axes;           // of the shards
  mlir::ArrayAttr origins; // kOriginsAttr of an op that has these axes; may be null

  bool operator==(const PartOrder &other) const { return parts == other.parts && axes == other.axes; }
};

// An op that takes parts out of a dim, or puts parts together: all its tensors have one or more parts of `unit` elements along the dim.
struct PartCut {
  unsigned op, dim;
  int64_t unit;
  PartOrder order; // of the dim with all parts
};

// State: the dims of all values in classes, so that an op that has a dim of a class as a factor computes the same on any order of its
// elements; for some classes an order. Nothing has to be put in order in a loop. Each round over the cuts, and over the problem, lowers a
// unit, takes up a cut or drops an order, and few do.
class InterleavedDims {
public:
  // Assumes that all tensors of the problem have a given layout.
  explicit InterleavedDims(const LayoutProblem &problem);

  // Returns the order in which the maker of a value leaves a dim of it; null for the order of the model.
  const PartOrder *findMade(unsigned value, unsigned dim) const;

  // Returns the order in which an op takes a dim of an operand; null for the order of the model.
  const PartOrder *findTaken(unsigned op, unsigned operand, unsigned dim) const;

  // Returns the cuts of dims that have an order.
  llvm::SmallVector<PartCut> getCuts() const;

private:
  using Class = unsigned;

  void addCuts(unsigned op);
  void unite();
  void orderClasses();
  bool takeUp(PartCut &cut, llvm::DenseSet<Class> &parts);
  bool refuseInLoops();
  bool isFixed(unsigned value) const;
  bool isOrdered(const PartCut &cut) const;
  const PartOrder *findOrder(unsigned op, unsigned tensor, unsigned dim) const;
  const PartOrder *orderOf(Class of) const;
  Class classOf(unsigned value, unsigned dim) const { return classes[firstDims[value] + dim]; }
  int64_t sizeOf(unsigned value, unsigned dim) const { return problem.typeOf(value).getDimSize(dim); }

  const LayoutProblem &problem;
  llvm::SmallVector<PartCut> cuts; // by op
  std::vector<unsigned> firstDims; // of each value, among the dims of all values
  llvm::IntEqClasses classes;
  llvm::DenseMap<Class, PartOrder> orders;
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_REDISTRIBUTE_INTERLEAVED_DIMS_H
