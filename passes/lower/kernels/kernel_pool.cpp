// SPDX-License-Identifier: Apache-2.0
//
// Finds equal fusions by a hash of their regions, then compares.

#include "passes/lower/kernels/kernel_pool.h"

#include "passes/lower/kernels/kernel_emitter.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

// Hashes what decides the kernel: kind, operand types, alias, and for each op its name, attributes, result types and where its operands
// come from (numbers of values in the order of the region). Locations and the values outside do not count.
size_t hashFusion(exec::FusionOp fusion, ArrayRef<int64_t> alias) {
  llvm::hash_code hash = llvm::hash_combine(fusion.getKind(), llvm::hash_combine_range(alias));
  DenseMap<Value, unsigned> numbers;
  for (BlockArgument argument : fusion.getBody().getArguments()) {
    numbers[argument] = numbers.size();
    hash = llvm::hash_combine(hash, argument.getType());
  }
  for (Operation &op : fusion.getBody().front()) {
    hash = llvm::hash_combine(hash, op.getName(), op.getRawDictionaryAttrs(), op.hashProperties());
    for (Value operand : op.getOperands()) {
      hash = llvm::hash_combine(hash, numbers.lookup(operand));
    }
    for (Value result : op.getResults()) {
      numbers[result] = numbers.size();
      hash = llvm::hash_combine(hash, result.getType());
    }
  }
  return hash;
}

bool areEqual(exec::FusionOp a, exec::FusionOp b) {
  return a.getKind() == b.getKind() && a.getInputs().getTypes() == b.getInputs().getTypes() &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

} // namespace

FailureOr<func::FuncOp> KernelPool::kernelFor(exec::FusionOp fusion, ArrayRef<int64_t> alias) {
  SmallVector<Entry, 1> &candidates = entries[hashFusion(fusion, alias)];
  for (Entry &entry : candidates) {
    if (ArrayRef<int64_t>(entry.alias) == alias && areEqual(entry.fusion, fusion)) {
      return entry.kernel;
    }
  }
  std::string name = (prefix + exec::stringifyFusionKind(fusion.getKind()) + "_" + Twine(count++)).str();
  FailureOr<func::FuncOp> kernel = emitKernel(fusion, alias, symbols, name, target);
  if (succeeded(kernel)) {
    candidates.push_back({fusion, SmallVector<int64_t>(alias), *kernel});
  }
  return kernel;
}

} // namespace ashlar::lower
