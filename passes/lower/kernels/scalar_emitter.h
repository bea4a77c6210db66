// SPDX-License-Identifier: Apache-2.0
//
// Emits the scalar code that computes one element of a value inside a fusion.

#ifndef ASHLAR_PASSES_LOWER_KERNELS_SCALAR_EMITTER_H
#define ASHLAR_PASSES_LOWER_KERNELS_SCALAR_EMITTER_H

#include "dialects/support/enums.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Value.h"

#include <map>
#include <optional>
#include <vector>

namespace ashlar::lower {

// Returns an index as a constant.
mlir::Value indexConstant(mlir::ImplicitLocOpBuilder &builder, int64_t value);

// Elements are emitted on demand, from the element wanted back to the loads. State: the place of each block argument, the available values
// (reductions of the current row, copies in scratch), and the elements emitted at the current point. Invariant: everything remembered
// dominates the insertion point; code that leaves a loop body calls restore() with the result of the save() before it.
class ScalarEmitter {
public:
  using Index = llvm::SmallVector<mlir::Value>;
  using Memo = std::map<std::pair<void *, std::vector<void *>>, mlir::Value>;

  explicit ScalarEmitter(mlir::ImplicitLocOpBuilder &builder) : b(builder) {}

  // The block argument lies in `memref`, flat.
  void bind(mlir::Value argument, mlir::Value memref) { memrefs[argument] = memref; }

  // The value is the scalar `element` from here on (a reduction of the current row).
  void bindScalar(mlir::Value value, mlir::Value element) { scalars[value] = element; }

  // The value is copied to `scratch` when first emitted at flat index `at`, and read from there after markCopied().
  void bindScratch(mlir::Value value, mlir::Value scratch) { scratches[value] = {scratch, false}; }
  void markCopied(mlir::Value value) { scratches[value].second = true; }
  void setScratchIndex(mlir::Value at) { scratchIndex = at; }

  // From here on lanes[i] is the index of the i-th of some neighbouring elements; the index of the first is a multiple of their number:
  // elements that are adjacent in memory at these indices are read as one vector. Fewer than two lanes: every element is read separately.
  void setLanes(llvm::ArrayRef<mlir::Value> indices) { lanes.assign(indices.begin(), indices.end()); }

  // From here on values that are overwritten are read only where `condition` holds, and are 0 elsewhere; null: everywhere. For code that
  // also runs at places of other threads, whose results are unused there.
  void setGuard(mlir::Value condition) { guard = condition; }
  void markOverwritten(mlir::Value memref) { overwritten.insert(memref); }

  // Returns element `index` of `value`.
  mlir::Value emit(mlir::Value value, const Index &index);

  // Stores `element` at `index` of a flat memref that holds a tensor of `shape`.
  void store(mlir::Value element, mlir::Value memref, llvm::ArrayRef<int64_t> shape, const Index &index);

  // Stores the elements of all lanes; `index` is the first one's.
  void storeLanes(llvm::ArrayRef<mlir::Value> elements, mlir::Value memref, llvm::ArrayRef<int64_t> shape, const Index &index);

  // Returns element `index` of a flat memref that holds a tensor of `type`.
  mlir::Value load(mlir::Value memref, mlir::RankedTensorType type, const Index &index);

  // Returns the number of a row that element `index` of `indices` holds, as an integer of its type; whether one of the rows has it; and the
  // number as an index. An index may have fewer bits, so the question comes first.
  mlir::Value emitRow(mlir::Value indices, const Index &index);
  mlir::Value emitIsRow(mlir::Value row, int64_t rows);
  mlir::Value emitRowIndex(mlir::Value row);

  Memo save() const { return memo; }
  void restore(Memo saved) { memo = std::move(saved); }

private:
  mlir::ImplicitLocOpBuilder &b;
  llvm::DenseMap<mlir::Value, mlir::Value> memrefs;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, bool>> scratches;
  mlir::Value scratchIndex;
  llvm::SmallVector<mlir::Value> lanes;
  llvm::SmallDenseSet<mlir::Value> overwritten;
  mlir::Value guard;
  Memo memo;

  // Returns the lane of `index`, if all lanes are adjacent in memory.
  std::optional<unsigned> laneOf(llvm::ArrayRef<int64_t> shape, const Index &index) const;
  mlir::Value guarded(mlir::Value memref, mlir::Type type, llvm::function_ref<mlir::Value()> read);
  mlir::Value loadVector(mlir::Value memref, llvm::ArrayRef<int64_t> shape, const Index &index);

  // Whether an element of the value is computed by an element-wise op.
  bool isComputed(mlir::Value value) const;
  mlir::Value compute(mlir::Value value, const Index &index);
  mlir::Value emitView(mlir::Operation *op, const Index &index);
  mlir::Value emitNumber(mlir::Operation *op, const Index &index);
  mlir::Value emitConcat(mlir::Operation *op, const Index &index);
  mlir::Value emitPad(mlir::Operation *op, const Index &index);
  mlir::Value emitGather(mlir::Operation *op, const Index &index);
  mlir::Value emitWindows(mlir::Operation *op, const Index &index);
  mlir::Value emitUnwindows(mlir::Operation *op, const Index &index);
  mlir::Value selectOrZero(mlir::Value condition, mlir::Value element);
  mlir::Value emitReshape(mlir::Operation *op, const Index &index);
  mlir::Value linearize(llvm::ArrayRef<int64_t> shape, const Index &index);
};

// Emits the combination of two elements of a tensor of type `element` by a reduction, and its neutral element.
mlir::Value emitCombine(mlir::ImplicitLocOpBuilder &builder, Reduction kind, mlir::Type element, mlir::Value lhs, mlir::Value rhs);
mlir::Value emitNeutral(mlir::ImplicitLocOpBuilder &builder, Reduction kind, mlir::Type element);

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_KERNELS_SCALAR_EMITTER_H
