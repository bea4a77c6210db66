// SPDX-License-Identifier: Apache-2.0
//
// The layouts of a local program: one that computes on what one device holds and names its collectives, as models of mode HYBRID do.

#ifndef ASHLAR_PASSES_LAYOUT_LOCAL_LAYOUTS_H
#define ASHLAR_PASSES_LAYOUT_LOCAL_LAYOUTS_H

#include "passes/layout/factor_split.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <vector>

namespace ashlar::layout {

// Dims whose splits are equal, as far as they are known. State: classes of dims by union-find, each with the axes that split its dims, or
// without when nothing has said so yet.
class DimClasses {
public:
  // Adds a dim of which nothing is known, or one that is split over `axes`.
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

// Finds the layout of every value of a local program from the layouts of its arguments and variables. An op computes on local shapes what
// it would compute on global ones, so its operands and results are split by the same factors; a collective says what it changes. What
// nothing decides is not split.
class LocalLayouts {
public:
  // `variables`: the layouts of all variables of the module, by name.
  LocalLayouts(mlir::func::FuncOp function, MeshAttr mesh, const llvm::MapVector<mlir::StringAttr, Layout> &variables)
      : function(function), mesh(mesh), variables(variables) {}

  // Solves the function. Assumes that its arguments have layouts, and that sources have one use each. Emits an error where an op, or a
  // collective, does not fit the layouts of its operands: it names the op, the layouts, and the collective that is missing.
  mlir::LogicalResult run();

  // Returns the layout of a value.
  const Layout &get(mlir::Value value) const { return layouts.find(value)->second; }

private:
  using Dims = llvm::SmallVector<unsigned>;

  Dims addDims(const Layout &layout);
  mlir::LogicalResult splitOp(mlir::Operation *op);
  mlir::LogicalResult splitRuled(mlir::Operation *op, const ShardingRule &rule);
  mlir::LogicalResult joinFactors(mlir::Operation *op, mlir::Value value, const TensorFactors &tensor, const ShardingRule &rule,
                                  llvm::SmallVectorImpl<std::optional<unsigned>> &factors);
  mlir::LogicalResult gatherDim(mlir::Operation *op, Dims &result, int64_t dim, mlir::ArrayAttr axes);
  void appendAxes(Dims &result, int64_t dim, mlir::ArrayAttr axes);
  mlir::LogicalResult layOut(mlir::Operation *op);
  mlir::LogicalResult layOutRuled(mlir::Operation *op, const ShardingRule &rule);
  mlir::LogicalResult layOutReduction(mlir::Operation *op, mlir::ArrayAttr axes, Reduction reduction);
  mlir::LogicalResult checkBroadcast(dist::BroadcastOp op);
  Layout knownLayout(mlir::Value value);
  std::string describeOperands(mlir::Operation *op);

  mlir::func::FuncOp function;
  MeshAttr mesh;
  const llvm::MapVector<mlir::StringAttr, Layout> &variables;
  DimClasses classes;
  llvm::DenseMap<mlir::Value, Dims> dims;
  llvm::DenseMap<mlir::Value, Layout> layouts;
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_LOCAL_LAYOUTS_H
