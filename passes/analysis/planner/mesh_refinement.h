// SPDX-License-Identifier: Apache-2.0
//
// Cuts mesh axes into the parts that rules name, or that redistributions are faster with, so that everything after sees plain axes.

#ifndef ASHLAR_PASSES_ANALYSIS_PLANNER_MESH_REFINEMENT_H
#define ASHLAR_PASSES_ANALYSIS_PLANNER_MESH_REFINEMENT_H

#include "passes/analysis/costs.h"

#include <map>
#include <set>
#include <string>

namespace ashlar::analysis {

// A mesh axis, or the part of one that tp:(4)2 names: the axis is cut into parts whose sizes multiply to its own, parts of 4 in all stand
// before this one of size 2 (the first part is major).
struct AxisPart {
  std::string axis;
  int64_t before = 1;
  int64_t size = 0; // 0: the whole axis

  // Returns the axis or part as it is written.
  std::string toString() const;
};

// State: for each axis the places where it is cut, as the number of parts before the cut. An axis of size 8 with cuts 1, 2, 8 becomes
// "tp:(1)2" = 2 and "tp:(2)4" = 4. Devices keep their numbers: the parts stand where the axis stood, in order.
class MeshRefinement {
public:
  explicit MeshRefinement(dist::MeshAttr mesh) : mesh(mesh) {}

  // A part of an axis, [before, end): `before` as in AxisPart, `end` the `before` of the next part.
  using Piece = std::pair<int64_t, int64_t>;

  // Returns the parts into which an axis is cut so far, none of size 1.
  llvm::SmallVector<Piece> pieces(mlir::StringAttr axis) const;

  // Returns the mesh as it was.
  dist::MeshAttr getMesh() const { return mesh; }

  // Cuts the mesh where the part begins and ends. An axis that the mesh lacks, or a part that does not divide it, is an error.
  mlir::LogicalResult cut(const AxisPart &part, llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  // Checks that the parts of each axis fit together: each cut divides the next. Call it after all cuts, before the functions below.
  mlir::LogicalResult check(llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const;

  // Returns the axes of the refined mesh that a part consists of, major to minor.
  dist::AxisList expand(const AxisPart &part) const;

  // Returns the refined mesh.
  dist::MeshAttr refinedMesh() const;

  // Returns the links of the refined mesh from the links of the mesh: by their hosts, or, where these are not known, a part has the link of
  // its axis.
  MeshLinks refineLinks(const MeshLinks &links) const;

  // Returns a layout on the refined mesh.
  dist::Layout refine(const dist::Layout &layout) const;

  // Gives the module the refined mesh and writes it into all its layouts.
  void apply(mlir::ModuleOp module) const;

private:
  dist::MeshAttr mesh;
  std::map<std::string, std::set<int64_t>> cuts; // of the axes that are cut; with 1 and the axis' size
};

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_PLANNER_MESH_REFINEMENT_H
