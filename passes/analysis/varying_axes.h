// SPDX-License-Identifier: Apache-2.0
//
// Which devices hold equal values.

#ifndef ASHLAR_PASSES_ANALYSIS_VARYING_AXES_H
#define ASHLAR_PASSES_ANALYSIS_VARYING_AXES_H

#include "dialects/dist/layout.h"
#include "dialects/nn/repeat.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace ashlar::analysis {

// For the values of a program of one device the mesh axes along which devices may hold different elements: those of the layouts of inputs
// and variables, handed on from operands to results. An all-reduce, a gather or a broadcast makes devices along its axes equal; what else
// depends on the coordinates of a device makes them differ.
//   %y = dist.all_reduce sum %x over ["tp"], x varies along dp and tp   ->  y along dp
class VaryingAxes {
public:
  using AxisSet = llvm::SmallPtrSet<mlir::StringAttr, 4>;

  // Begins with the arguments of a program. `symbols`: of its module.
  VaryingAxes(mlir::func::FuncOp function, const mlir::SymbolTable &symbols);

  // Adds the results of the next op of the program, and the values of its body where it is a repeat.
  void visit(mlir::Operation *op);

  // Returns the axes of a value that was added; none for any other.
  AxisSet of(mlir::Value value) const { return axes.lookup(value); }

  // Forgets a value that is erased.
  void forget(mlir::Value value) { axes.erase(value); }

private:
  void visitRepeat(nn::RepeatOp repeat);
  AxisSet axesOfResults(mlir::Operation *op) const;

  const mlir::SymbolTable &symbols;
  llvm::DenseMap<mlir::Value, AxisSet> axes;
};

} // namespace ashlar::analysis

#endif // ASHLAR_PASSES_ANALYSIS_VARYING_AXES_H
