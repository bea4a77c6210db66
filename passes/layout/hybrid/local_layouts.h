// SPDX-License-Identifier: Apache-2.0
//
// The layouts of a local program, which computes on one device's shards and has its own collectives, as in models of mode HYBRID.

#ifndef ASHLAR_PASSES_LAYOUT_HYBRID_LOCAL_LAYOUTS_H
#define ASHLAR_PASSES_LAYOUT_HYBRID_LOCAL_LAYOUTS_H

#include "passes/layout/inference/layout_problem.h"

#include <vector>

namespace ashlar::layout {

// Dims known to be sharded alike. State: classes of dims by union-find, each with the axes that shard its dims, or without as long as they
// are unknown.
class DimClasses {
public:
  // Adds a dim without known axes, or one that is sharded over `axes`.
  unsigned add();
  unsigned add(AxisList axes);

  // Makes the splits of two dims one. Failure when both are known and differ; then nothing changes.
  mlir::LogicalResult merge(unsigned a, unsigned b);

  // Returns the axes that split a dim; null when not known.
  const AxisList *find(unsigned dim);

private:
  unsigned root(unsigned dim);

  std::vector<unsigned> parents;
  std::vector<std::optional<AxisList>> splits; // of roots
};

// Finds the layout of every value of a local program from the layouts of its arguments and variables. An op computes on local shapes the
// same as on global ones, so its operands and results are sharded by the same factors; a collective states its own change. Undetermined
// dims are not sharded.
class LocalLayouts {
public:
  LocalLayouts(const LayoutProblem &problem, const ProblemProgram &program)
      : problem(problem), program(program), mesh(problem.mesh), dims(problem.values.size()), layouts(problem.values.size()) {}

  // Solves the program, its arguments and variables replicated where nothing is given. Assumes that sources have one use each. Emits an
  // error where an op, or a collective, does not fit the layouts of its operands: it names the op, the layouts, and the collective that is
  // missing.
  mlir::LogicalResult run();

  // Returns the layout of a value.
  const Layout &get(mlir::Value value) const { return *layouts[problem.find(value)]; }

private:
  using Dims = llvm::SmallVector<unsigned>;

  void give(unsigned value);
  mlir::LogicalResult splitOp(const ProblemOp &op);
  mlir::LogicalResult splitRuled(const ProblemOp &op);
  mlir::LogicalResult joinFactors(const ProblemOp &op, unsigned value, const TensorFactors &tensor,
                                  llvm::SmallVectorImpl<std::optional<unsigned>> &factors);
  mlir::LogicalResult gatherDim(mlir::Operation *op, Dims &result, int64_t dim, mlir::ArrayAttr axes);
  void appendAxes(Dims &result, int64_t dim, mlir::ArrayAttr axes);
  mlir::LogicalResult layOut(const ProblemOp &op);
  mlir::LogicalResult layOutRuled(const ProblemOp &op);
  mlir::LogicalResult layOutReduction(const ProblemOp &op, mlir::ArrayAttr axes, Reduction reduction);
  mlir::LogicalResult checkBroadcast(dist::BroadcastOp op);
  Layout knownLayout(unsigned value);
  Layout knownLayout(mlir::Value value) { return knownLayout(problem.find(value)); }
  std::string describeOperands(const ProblemOp &op);

  const LayoutProblem &problem;
  const ProblemProgram &program;
  MeshAttr mesh;
  DimClasses classes;
  std::vector<Dims> dims;                     // of each value
  std::vector<std::optional<Layout>> layouts; // the same
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_HYBRID_LOCAL_LAYOUTS_H
