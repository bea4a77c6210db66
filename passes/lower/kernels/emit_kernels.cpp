// SPDX-License-Identifier: Apache-2.0
//
// Kernel functions and what they may overwrite; the loop nests are in emit_cpu_*.cpp and emit_gpu_*.cpp.

#include "passes/lower/kernels/kernel_emitter.h"

#include "passes/lower/kernels/cpu/cpu_kernel.h"
#include "passes/lower/kernels/fusible.h"
#include "passes/lower/kernels/gpu/attention_kernel.h"
#include "passes/lower/kernels/gpu/gpu_kernel.h"

#include "dialects/exec/target_traits.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {

namespace {

// The memref of a tensor in a kernel: flat.
MemRefType flatType(RankedTensorType type) {
  return MemRefType::get({type.getNumElements()}, storedType(type.getElementType()));
}

} // namespace

FailureOr<func::FuncOp> emitKernel(exec::FusionOp fusion, ArrayRef<int64_t> alias, SymbolTable &symbols, StringRef name,
                                   exec::Target target) {
  if (exec::isLibraryCall(fusion.getKind())) {
    return fusion.emitOpError("of kind ") << stringifyFusionKind(fusion.getKind()) << " has no generated kernel";
  }
  SmallVector<Type> arguments;
  for (Value input : fusion.getInputs()) {
    arguments.push_back(flatType(typeOf(input)));
  }
  for (auto [output, operand] : llvm::zip_equal(fusion.getOutputs(), alias)) {
    if (operand < 0) {
      arguments.push_back(flatType(typeOf(output)));
    }
  }
  OpBuilder builder(fusion.getContext());
  if (exec::traitsOf(target).cutsLoops) {
    arguments.append(2, builder.getIndexType());
  }
  auto function = func::FuncOp::create(fusion.getLoc(), name, builder.getFunctionType(arguments, {}));
  symbols.insert(function);
  function.addEntryBlock();
  switch (target) {
  case exec::Target::Cpu:
    CpuKernel(fusion, function, alias).emit();
    break;
  case exec::Target::Cuda:
    fusion.getKind() == exec::FusionKind::AttentionKernel ? emitAttentionKernel(fusion, function, alias)
                                                          : GpuKernel(fusion, function, alias).emit();
    break;
  }
  return function;
}

bool mayAlias(exec::FusionOp fusion, unsigned operand, unsigned result, exec::Target target) {
  if (!exec::isLoopNest(fusion.getKind()) || fusion.getInputs()[operand].getType() != fusion.getOutputs()[result].getType()) {
    return false;
  }
  // Every element-wise op reads the operand where it writes; a view may read it elsewhere, a reduction's own result is accumulated before
  // all is read.
  Value argument = fusion.getBody().getArgument(operand);
  Value yielded = fusion.getBody().front().getTerminator()->getOperand(result);
  if (auto reduce = yielded.getDefiningOp<nn::ReduceOp>(); reduce && fusion.getKind() == exec::FusionKind::Columns) {
    return false;
  }
  KernelShape shape = KernelShape::get(fusion);
  bool isFull = shapeOf(yielded) == ArrayRef<int64_t>(shape.domain);
  // All threads of a row read what belongs to the row, one of them writes, and they do not wait for each other before it does.
  if (!isFull && exec::traitsOf(target).sharesRows) {
    return false;
  }
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    return isElementwise(user) || (isFull && isa<nn::ReduceOp>(user)) || isa<exec::YieldOp>(user);
  });
}

} // namespace ashlar::lower
