// SPDX-License-Identifier: Apache-2.0
//
// One redistribution in the search's terms: which axes may serve, from names to numbers and back.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_NUMBERED_PROBLEM_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_NUMBERED_PROBLEM_H

#include "passes/analysis/planner/redistribution_search.h"

namespace ashlar::analysis {

// State: the mesh axes behind each number. With more axes in use than a limit the problem is made smaller first. Leaving out axes over
// which both ends are partial loses nothing: no step may touch them. The other two reductions may lose a better plan, in corner cases: -
// axes that begin a dim at both ends stay, and the dim shrinks to its part behind them; - axes of equal links that are adjacent at both
// ends, or summed, or idle, are one axis, where they cut evenly. They could be apart in between, which
//   pays only where a dim is too short for all of them.
class NumberedProblem {
public:
  // Assumes layouts without axes of size 1. `limit`: up to so many axes each is one of the search, and idle ones are added.
  NumberedProblem(dist::MeshAttr mesh, llvm::ArrayRef<Link> links, mlir::RankedTensorType type, const dist::Layout &from,
                  const dist::Layout &to, size_t limit = kExactAxes);

  // Returns the problem; its ends are the given ones, less the axes left out.
  const SearchProblem &get() const { return problem; }

  // Returns the plan that a search found.
  Plan name(llvm::ArrayRef<SearchStep> steps) const;

private:
  using Names = llvm::ArrayRef<mlir::StringAttr>;

  void leaveOutFixed(dist::Layout &from, dist::Layout &to);
  llvm::SmallVector<dist::AxisList> joinAxes(Names axes, const dist::Layout &from, const dist::Layout &to) const;
  llvm::SmallVector<mlir::StringAttr> usedAxes(const dist::Layout &from, const dist::Layout &to) const;
  bool cutsAtOnce(Names axes, const dist::Layout &layout) const;
  void addIdle(Names used, size_t limit);
  void addAxis(dist::AxisList parts);
  const Link &linkOf(mlir::StringAttr axis) const { return links[*mesh.findAxis(axis)]; }
  NumberedLayout number(const dist::Layout &layout) const;
  dist::AxisList nameAxes(llvm::ArrayRef<uint8_t> list) const;

  dist::MeshAttr mesh;
  llvm::ArrayRef<Link> links;
  mlir::RankedTensorType type;
  const dist::Layout from, to;
  bool isSmaller = false; // than the original problem
  SearchProblem problem;
  llvm::SmallVector<dist::AxisList> names;  // of each axis of the search
  llvm::SmallVector<dist::AxisList> before; // the axes left out, one list a dim
};

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_NUMBERED_PROBLEM_H
