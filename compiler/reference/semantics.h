// SPDX-License-Identifier: Apache-2.0
//
// What each op computes: a table from op names to functions, filled by one file for each op family.

#ifndef ASHLAR_COMPILER_REFERENCE_SEMANTICS_H
#define ASHLAR_COMPILER_REFERENCE_SEMANTICS_H

#include "compiler/reference/tensor.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

namespace ashlar::reference {

// Computes the one result of an op from its operands on one rank.
using LocalSemantics = Tensor (*)(mlir::Operation *op, llvm::ArrayRef<Tensor> operands);

// Computes result `number` of an op on all ranks from the operand of that number on all ranks: ranks[r] holds the operands of rank r.
using CollectiveSemantics = std::vector<Tensor> (*)(mlir::Operation *op, unsigned number, llvm::ArrayRef<std::vector<Tensor>> ranks);

struct SemanticsTable {
  llvm::StringMap<LocalSemantics> local;
  llvm::StringMap<CollectiveSemantics> collective;

  // Enters the semantics of the op class `Op`.
  template <typename Op> void add(LocalSemantics semantics) { local[Op::getOperationName()] = semantics; }
  template <typename Op> void addCollective(CollectiveSemantics semantics) { collective[Op::getOperationName()] = semantics; }
};

// Returns the table of all ops, filled once.
const SemanticsTable &getSemantics();

// Returns the type of the op's first result.
mlir::RankedTensorType resultType(mlir::Operation *op);

// Each enters one family of ops.
void addCollectiveSemantics(SemanticsTable &table);
void addContractionSemantics(SemanticsTable &table);
void addConvolutionSemantics(SemanticsTable &table);
void addElementwiseSemantics(SemanticsTable &table);
void addLossSemantics(SemanticsTable &table);
void addShapeSemantics(SemanticsTable &table);
void addSourceSemantics(SemanticsTable &table);
void addWindowSemantics(SemanticsTable &table);

} // namespace ashlar::reference

#endif // ASHLAR_COMPILER_REFERENCE_SEMANTICS_H
