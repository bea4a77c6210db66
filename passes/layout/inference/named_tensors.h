// SPDX-License-Identifier: Apache-2.0
//
// The tensors and ops of a module of programs, found by the names in rules.

#ifndef ASHLAR_PASSES_LAYOUT_INFERENCE_NAMED_TENSORS_H
#define ASHLAR_PASSES_LAYOUT_INFERENCE_NAMED_TENSORS_H

#include "dialects/support/rule_set.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <string>
#include <vector>

namespace ashlar::layout {

// A tensor that can be given a layout.
struct TensorRef {
  enum Kind { Variable, Argument, FunctionResult, OpResult, Operand };
  Kind kind;
  mlir::Operation *op; // the variable, the function, or the op
  unsigned index = 0;  // of the argument, result or operand

  mlir::RankedTensorType getType() const;

  // Returns how errors call it: parameter "fc1.weight".
  std::string describe() const;

  bool operator<(const TensorRef &other) const;
};

// The ops of one function that one node of the model became, as far as its outputs depend on them: gradients are not among them.
struct OpGroup {
  llvm::SmallVector<mlir::Operation *> ops;

  // Returns the tensors that come from outside, each once, constants left out, in the order of the expression that the ops are; and
  // of each the operands that take it.
  llvm::MapVector<mlir::Value, llvm::SmallVector<mlir::OpOperand *>> inputs() const;

  // Returns the results that are used outside.
  llvm::SmallVector<mlir::OpResult> outputs() const;
};

// Finds tensors and ops by name. Names of tensors: names of variables except the compiler's own, of inputs and outputs of functions, and of
// intermediate tensors. Names of ops: their module paths.
class NamedTensors {
public:
  explicit NamedTensors(mlir::ModuleOp module);

  // Returns all tensors whose name matches the glob, and the results of the ops whose path does.
  llvm::SmallVector<TensorRef> findTensors(llvm::StringRef glob) const;

  // Returns the groups of ops whose path matches the glob, each with its path.
  llvm::SmallVector<std::pair<llvm::StringRef, const OpGroup *>> findOps(llvm::StringRef glob) const;

  // Returns the names of the tensors and ops.
  const NameTable &names() const { return table; }

private:
  void addTensor(llvm::StringRef name, const TensorRef &tensor);
  void addFunction(mlir::func::FuncOp function);
  void addOps(mlir::func::FuncOp function);

  NameTable table;
  llvm::DenseMap<llvm::StringRef, llvm::SmallVector<TensorRef, 2>> tensors;
  llvm::DenseMap<llvm::StringRef, std::vector<OpGroup>> groups;
};

} // namespace ashlar::layout

#endif // ASHLAR_PASSES_LAYOUT_INFERENCE_NAMED_TENSORS_H
