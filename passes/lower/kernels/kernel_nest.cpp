// SPDX-License-Identifier: Apache-2.0
//
// Places of values in a loop nest, whatever the target.

#include "passes/lower/kernels/kernel_nest.h"

#include "passes/lower/kernels/fusible.h"

#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ashlar::lower {

KernelNest::KernelNest(exec::FusionOp fusion, func::FuncOp function, ArrayRef<int64_t> alias)
    : fusion(fusion), function(function), b(fusion.getLoc(), fusion.getContext()), scalars(b), shape(KernelShape::get(fusion)),
      body(fusion.getBody().front()) {
  b.setInsertionPointToStart(&function.getBody().front());
  unsigned next = fusion.getInputs().size();
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    scalars.bind(argument, function.getArgument(i));
  }
  for (int64_t operand : alias) {
    outputs.push_back(function.getArgument(operand >= 0 ? operand : next++));
    if (operand >= 0) {
      scalars.markOverwritten(outputs.back());
    }
  }
  zero = constant(0);
  index.assign(shape.domain.size(), zero);
}

void KernelNest::setExtent(int64_t extent, int64_t grain) {
  function->setAttr(exec::kExtentAttr, b.getI64IntegerAttr(extent));
  function->setAttr(exec::kGrainAttr, b.getI64IntegerAttr(grain));
}

Value KernelNest::constant(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

OperandRange KernelNest::yielded() {
  return cast<exec::YieldOp>(body.getTerminator()).getValues();
}

bool KernelNest::isFull(Value value) const {
  return shapeOf(value) == ArrayRef<int64_t>(shape.domain);
}

bool KernelNest::computesRowValue(Operation &op) const {
  ArrayRef<int64_t> rows = ArrayRef<int64_t>(shape.domain).take_front(shape.rowRank);
  return isElementwise(&op) && !isFull(op.getResult(0)) && shapeOf(op.getResult(0)) == rows;
}

KernelNest::Index KernelNest::indexOf(Value value) {
  if (isFull(value)) {
    return index;
  }
  Index kept;
  ArrayRef<int64_t> reducedDims = reductions().front().getDims();
  for (auto [d, i] : llvm::enumerate(index)) {
    if (!llvm::is_contained(reducedDims, static_cast<int64_t>(d))) {
      kept.push_back(i);
    }
  }
  return kept;
}

Value KernelNest::outputOf(Value value) {
  auto found = llvm::find(yielded(), value);
  return outputs[std::distance(yielded().begin(), found)];
}

SmallVector<nn::ReduceOp> KernelNest::reductions() {
  return llvm::to_vector(body.getOps<nn::ReduceOp>());
}

Value KernelNest::neutralOf(nn::ReduceOp reduce) {
  return emitNeutral(b, reduce.getKind(), reduce.getType().getElementType());
}

Value KernelNest::combine(nn::ReduceOp reduce, Value lhs, Value rhs) {
  return emitCombine(b, reduce.getKind(), reduce.getType().getElementType(), lhs, rhs);
}

SplitLoops::SplitLoops(const KernelShape &shape) {
  for (const LoopDim &dim : shape.loops) {
    (dim.last < shape.batchDims ? batch : dim.reduced ? reduced : kept).push_back(dim);
  }
}

int64_t countIterations(ArrayRef<LoopDim> loops) {
  int64_t iterations = 1;
  for (const LoopDim &dim : loops) {
    iterations *= dim.size;
  }
  return iterations;
}

} // namespace ashlar::lower
