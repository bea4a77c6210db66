// SPDX-License-Identifier: Apache-2.0
//
// The named tensors of a variant: variables, states, inputs and outputs, each at a fixed place at the front of the arena, shared by all
// programs of the variant.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_TENSOR_TABLE_H
#define ASHLAR_PASSES_LOWER_MEMORY_TENSOR_TABLE_H

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace ashlar::lower {

// One named tensor.
struct NamedTensor {
  std::string name;
  exec::Role role;
  mlir::RankedTensorType type; // on one device
  llvm::SmallVector<int64_t> globalShape;
  llvm::SmallVector<llvm::SmallVector<int64_t>> splits; // for each dim the indices of mesh axes, major to minor
  uint64_t offset;                                      // in the arena, or in the slot
  mlir::Location loc;
  mlir::StringAttr stateOf = {};     // of a state of the optimizer: the parameter; null otherwise
  bool isInternal = false;           // the compiler added it for itself
  bool isScratch = false;            // a state that no checkpoint holds
  std::optional<int64_t> owner = {}; // the one device that holds it; nothing: all do
  bool isInSlot = false;             // each micro-batch in flight has its own
  mlir::ArrayAttr counts = {};       // of an output with sizes that a run finds (nn::kCountsAttr)
};

// Lays the mesh coordinates (at offset 0) and the named tensors one after the other. Variables of one owner follow each other, too, but
// variables of different owners begin at the same place: no device holds both.
class TensorTable {
public:
  // Without a mesh there are no axes.
  explicit TensorTable(dist::MeshOp mesh);

  // Adds the variables of a module. Fails with an error when a layout cannot be held.
  mlir::LogicalResult addVariables(mlir::ModuleOp module);

  // Adds the inputs and outputs of a function, and what it takes from the slot or puts there. Functions share the input, output, or place
  // in the slot, of one name; it must be of one type.
  mlir::LogicalResult addSignature(mlir::func::FuncOp function);

  // Returns the tensor of a variable. Assumes addVariables.
  unsigned variable(llvm::StringRef name) const { return variables.lookup(name); }

  // Returns the tensors of a function's arguments or results, in order. Assumes addSignature.
  llvm::ArrayRef<unsigned> inputs(mlir::func::FuncOp function) const { return signatures.find(function)->second.inputs; }
  llvm::ArrayRef<unsigned> outputs(mlir::func::FuncOp function) const { return signatures.find(function)->second.outputs; }

  // Returns the tensor of a place in the slot. Assumes addSignature.
  unsigned passed(llvm::StringRef name) const { return passedByName.lookup(name); }

  // Returns all tensors; the indices above count in this list.
  llvm::ArrayRef<NamedTensor> tensors() const { return list; }

  // Returns the arena offset of the device's coordinate on an axis, an i64.
  static uint64_t coordinateOffset(unsigned axis) { return axis * sizeof(int64_t); }

  // Returns the bytes up to the end of the last tensor, and the bytes of a slot.
  uint64_t bytes() const { return end; }
  uint64_t slotBytes() const { return slotEnd; }

  // Returns the device that holds most bytes of variables alone; nothing when none does.
  std::optional<int64_t> largestOwner() const;

  // Returns the symbol of each tensor inside a variant: its name, or a derived one where `taken` or an earlier tensor has the name.
  std::vector<std::string> symbols(llvm::ArrayRef<llvm::StringRef> taken) const;

private:
  struct Signature {
    llvm::SmallVector<unsigned> inputs, outputs;
  };

  // Moves the variables with owners behind the variables of all devices.
  void placeOwned();

  // Adds a tensor. A null `layout` or `globalType` means: every device holds all of it.
  mlir::FailureOr<unsigned> add(mlir::Location loc, llvm::StringRef name, exec::Role role, mlir::Type type, mlir::Attribute layout,
                                mlir::Attribute globalType, bool isInSlot = false);

  // Adds an input or output of `function`, or finds the one that another function already has.
  mlir::LogicalResult share(mlir::func::FuncOp function, mlir::DictionaryAttr attributes, mlir::Type type, exec::Role role,
                            llvm::StringMap<unsigned> &known, llvm::SmallVectorImpl<unsigned> &indices);

  // Adds what a function takes from the slot, or what it puts there.
  mlir::LogicalResult addPassed(mlir::func::FuncOp function, bool sources);

  dist::MeshAttr mesh;
  uint64_t end, slotEnd = 0;
  llvm::SmallVector<NamedTensor> list;
  std::map<int64_t, uint64_t> ownedBytes; // by device
  llvm::StringMap<unsigned> variables, inputsByName, outputsByName, passedByName;
  llvm::DenseMap<mlir::Operation *, Signature> signatures;
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_TENSOR_TABLE_H
