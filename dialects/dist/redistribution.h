// SPDX-License-Identifier: Apache-2.0
//
// The planner of redistributions: the only place that decides which collectives take a tensor from one layout to another.
//
// A plan is a shortest path: layouts are the nodes, single collectives (and the free slice) the edges, bytes sent by a rank the cost, fewer
// steps the tie-break. No layout on the way takes more memory than the larger of both ends, unless there is no such way.

#ifndef ASHLAR_DIALECTS_DIST_REDISTRIBUTION_H
#define ASHLAR_DIALECTS_DIST_REDISTRIBUTION_H

#include "dialects/dist/dist.h"

namespace ashlar::dist {

// One step of a plan; the ops of the same names say what it does.
struct Step {
  enum Kind { Slice, AllReduce, ReduceScatter, AllToAll, AllGather };
  Kind kind;
  AxisList axes;          // of the group, major to minor
  int64_t dim = -1;       // that is sliced, scattered, gathered, or split (AllToAll); -1 for AllReduce
  int64_t concatDim = -1; // of AllToAll
};

// Returns the steps that take a tensor of the global `type` from one layout to another. Assumes that `to` is partial only where `from` is.
// Bytes are those of whole pieces, padding included.
//   [{}], partial = sum {"dp"} -> [{}]       all_reduce dp
//   [{}], partial = sum {"dp"} -> [{"dp"}]   reduce_scatter dim 0 dp
//   [{"x"}, {}] -> [{}, {"x"}]               all_to_all split 1 concat 0 x
llvm::SmallVector<Step> planRedistribution(MeshAttr mesh, mlir::RankedTensorType type, const Layout &from, const Layout &to);

// Returns the layout after a step. Assumes that the step applies to `layout`.
Layout applyStep(const Layout &layout, const Step &step);

// Returns the bytes a rank sends in the plan between two layouts.
int64_t redistributionBytes(MeshAttr mesh, mlir::RankedTensorType type, const Layout &from, const Layout &to);

} // namespace ashlar::dist

#endif // ASHLAR_DIALECTS_DIST_REDISTRIBUTION_H
