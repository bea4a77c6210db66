// SPDX-License-Identifier: Apache-2.0
//
// The planner of redistributions: the only place that chooses the collectives that take a tensor from one layout to another, except a
// model's own collectives (single_step.h). Later passes merge collectives and drop some; they make none.
//
// A plan is a shortest path: layouts are the nodes, single collectives (and the free slice) the edges, their time over the links of the
// mesh the cost; fewer bytes, then fewer steps are the tie-break. No layout on the path takes more memory than the larger of both ends,
// unless no such path is found.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_H

#include "passes/analysis/planner/mesh_refinement.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace ashlar::analysis {

// One step of a plan; the op of the same name has its meaning.
struct Step {
  CollectiveKind kind = CollectiveKind::Slice;
  dist::AxisList axes;                    // of the group, major to minor
  int64_t dim = -1;                       // that is sliced, scattered, gathered, or split (AllToAll); -1 for AllReduce and Permute
  int64_t concatDim = -1;                 // of AllToAll
  llvm::SmallVector<dist::AxisList> dims; // of Permute: the axes that split each dim after it
  int64_t bytes = 0;                      // that a rank sends
  int64_t timePs = 0;                     // by the costs of the mesh
};

// How a tensor gets from one layout to another.
struct Plan {
  llvm::SmallVector<Step> steps;
  int64_t bytes = 0;                               // that a rank sends, all steps together
  int64_t timePs = 0;                              // of all steps, one after the other
  int64_t peakBytes = 0;                           // the most that a device holds of the tensor, ends included
  int64_t leastPs = 0;                             // no plan takes less; timePs where every way was looked at
  int64_t wholePs = 0;                             // of the best plan that moves axes of the mesh as a whole
  std::shared_ptr<const MeshRefinement> cuts = {}; // whose parts of axes the steps name; null: steps name axes of the mesh
};

// Whether the plans of a planner may cut axes of the mesh into parts, which are no axes of it.
enum class Cuts { None, Allowed };

// Plans over the links of one mesh. State: the plans made so far, by type and layouts, so that layer after layer costs one look-up, and
// planners of meshes whose axes are parts of this one's. Plans are optimal where the layouts and the usable idle axes are at most four
// axes. Above that, axes that begin a dim at both ends stay where they are, and axes of equal links that are adjacent at both ends are
// moved as one. If more than four remain, the search takes only paths that lead towards the end, a bounded number of them; Plan::leastPs
// gives the optimality gap.
//
// Idle axes help where their links are faster than one that an end uses: a sum over slow "dp" of a tensor that is replicated along fast
// "tp" is sliced over tp, reduced over dp, and gathered over tp. No permute moves an idle axis.
//
// With Cuts::Allowed an axis of size a * b may be two, a major and b minor, where that is faster (cutMovedAxes): the mesh is to be refined
// by Plan::cuts before the steps are taken.
class Planner {
public:
  // Takes the costs that stand on the mesh.
  explicit Planner(dist::MeshOp mesh, Cuts cuts = Cuts::None) : Planner(mesh.getMesh(), linksOf(mesh), cuts) {}
  explicit Planner(dist::MeshAttr mesh, dist::CostsAttr costs = {}, Cuts cuts = Cuts::None)
      : Planner(mesh, MeshLinks{axisLinks(mesh, costs)}, cuts) {}

  // Returns the fastest plan for a tensor of the global `type`; it does not name axes of size 1. Assumes that `to` is partial only where
  // `from` is. The reference stays valid. A dim is split unevenly on the way only if it is at one of the ends.
  //   [{}], partial = sum {"dp"} -> [{}]       all_reduce dp
  //   [{}], partial = sum {"dp"} -> [{"dp"}]   reduce_scatter dim 0 dp
  //   [{"x"}, {}] -> [{}, {"x"}]               all_to_all split 1 concat 0 x
  //   [{"x", "y"}] -> [{"y", "x"}]             permute x, y
  const Plan &plan(mlir::RankedTensorType type, const dist::Layout &from, const dist::Layout &to);

  // Returns the runner-up: the fastest plan whose kinds of collectives differ from plan()'s. Nothing when all plans have the same kinds.
  std::optional<Plan> runnerUp(mlir::RankedTensorType type, const dist::Layout &from, const dist::Layout &to);

  // Returns the link that a group over these axes goes by.
  Link linkOf(llvm::ArrayRef<mlir::StringAttr> axes) const { return groupLink(mesh, links.axes, axes); }

  // Returns the links of the mesh.
  const MeshLinks &getLinks() const { return links; }

  // Returns the planner of the refined mesh, which cuts no axes. It is made once and kept.
  Planner &ofParts(const MeshRefinement &refinement);

  // Returns the planner of the same mesh that cuts no axes: this one, or one that it keeps.
  Planner &withoutCuts();

  // Returns the number of layouts from which steps were tried in all searches so far, on this mesh: the cost of planning, independent of
  // the machine.
  int64_t countExpanded() const { return expandedLayouts; }

private:
  Planner(dist::MeshAttr mesh, MeshLinks links, Cuts cuts) : mesh(mesh), links(std::move(links)), cuts(cuts) {}

  std::optional<Plan> search(mlir::RankedTensorType type, const dist::Layout &from, const dist::Layout &to,
                             const llvm::SmallVector<CollectiveKind> *avoided);
  std::optional<Plan> searchCut(mlir::RankedTensorType type, const dist::Layout &from, const dist::Layout &to, const Plan &whole);

  dist::MeshAttr mesh;
  MeshLinks links;
  Cuts cuts;
  llvm::DenseMap<std::tuple<mlir::Type, mlir::Attribute, mlir::Attribute>, std::unique_ptr<Plan>> plans;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<Planner>> finerPlanners; // by mesh
  int64_t expandedLayouts = 0;
};

// Returns the layout after a step. Assumes that the step applies to `layout`.
dist::Layout applyStep(const dist::Layout &layout, const Step &step);

// Returns for each device of the group of a Permute the device of the group whose piece it takes. A device that holds its piece already
// keeps it. Assumes that the step applies to `layout`.
llvm::SmallVector<int64_t> permuteSources(dist::MeshAttr mesh, const dist::Layout &layout, const Step &step);

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_REDISTRIBUTION_H
