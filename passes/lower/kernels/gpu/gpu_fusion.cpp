// SPDX-License-Identifier: Apache-2.0
//
// Widths of accesses, and what sums take beside them.

#include "passes/lower/kernels/gpu/gpu_fusion.h"

#include "passes/lower/kernels/row_passes.h"

#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

constexpr int64_t kAccessBytes = 16; // the most a thread can read or write at once
constexpr int64_t kMostLanes = 8;

} // namespace

int64_t widestAccess(exec::FusionOp fusion, const KernelShape &shape) {
  int64_t elements = ShapedType::getNumElements(shape.domain), widest = 0;
  auto take = [&](Value value) { widest = std::max(widest, elementBytes(typeOf(value).getElementType())); };
  auto isAll = [&](Value value) { return typeOf(value).getNumElements() == elements; };
  llvm::for_each(llvm::make_filter_range(fusion.getInputs(), isAll), take);
  llvm::for_each(llvm::make_filter_range(fusion.getOutputs(), isAll), take);
  if (widest == 0) { // everything is read through views, or summed up
    llvm::for_each(fusion.getInputs(), take);
    llvm::for_each(fusion.getOutputs(), take);
  }
  return std::clamp<int64_t>(kAccessBytes / widest, 1, kMostLanes);
}

int64_t lanesOf(exec::FusionOp fusion, const KernelShape &shape, ArrayRef<LoopDim> loops) {
  int64_t lanes = loops.empty() ? 1 : widestAccess(fusion, shape);
  while (lanes > 1 && loops.back().size % lanes != 0) {
    lanes /= 2;
  }
  return lanes;
}

int64_t countBlocks(exec::FusionOp fusion, const KernelShape &shape) {
  SplitLoops loops(shape);
  if (fusion.getKind() == exec::FusionKind::Loop) {
    return llvm::divideCeil(llvm::divideCeil(countIterations(loops.kept), lanesOf(fusion, shape, shape.loops)), kLoopThreads);
  }
  RowPasses passes(fusion.getBody().front(), shape.domain);
  GpuRowShape row =
      shareOutRows(countIterations(loops.kept), countIterations(loops.reduced), lanesOf(fusion, shape, loops.reduced), passes.heldBytes());
  return llvm::divideCeil(countIterations(loops.kept), row.rowsABlock);
}

GpuColumnShape columnShapeOf(exec::FusionOp fusion, const KernelShape &shape) {
  SplitLoops loops(shape);
  LoopDim innermost = loops.kept.back();
  int64_t accumulatorBytes = 0;
  for (auto reduce : fusion.getBody().front().getOps<nn::ReduceOp>()) {
    accumulatorBytes += elementBytes(computedType(reduce.getType().getElementType()));
  }
  return shareOutColumns(countIterations(loops.reduced), innermost.size, lanesOf(fusion, shape, {innermost}), accumulatorBytes);
}

} // namespace ashlar::lower
