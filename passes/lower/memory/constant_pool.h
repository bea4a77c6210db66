// SPDX-License-Identifier: Apache-2.0
//
// The constants of an image: each distinct value once, at an aligned offset, in the order of first use.

#ifndef ASHLAR_PASSES_LOWER_MEMORY_CONSTANT_POOL_H
#define ASHLAR_PASSES_LOWER_MEMORY_CONSTANT_POOL_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace ashlar::lower {

// Hands out offsets. Values are compared by attribute: MLIR makes equal dense attributes one, and a resource is its handle.
class ConstantPool {
public:
  // Returns the offset of `value`, which it takes in when it is new.
  uint64_t offsetOf(mlir::ElementsAttr value);

  // Takes in the exec.constant ops of a module, with the offsets they have. Assumes that the pool is empty.
  void read(mlir::ModuleOp module);

  // Adds one exec.constant a value at the end of the module.
  void write(mlir::ModuleOp module) const;

  // Returns the bytes up to the end of the last constant.
  uint64_t getBytes() const { return bytes; }

private:
  llvm::MapVector<mlir::Attribute, uint64_t> offsets;
  uint64_t bytes = 0;
};

} // namespace ashlar::lower

#endif // ASHLAR_PASSES_LOWER_MEMORY_CONSTANT_POOL_H
