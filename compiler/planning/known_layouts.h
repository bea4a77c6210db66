// SPDX-License-Identifier: Apache-2.0
//
// The layouts that a search found for a model, for the same model with another number of equal layers, or of micro-batches.

#ifndef ASHLAR_COMPILER_PLANNING_KNOWN_LAYOUTS_H
#define ASHLAR_COMPILER_PLANNING_KNOWN_LAYOUTS_H

#include "dialects/dist/dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <string>
#include <tuple>

namespace ashlar::planning {

class KnownLayouts {
public:
  // Reads the layouts of the variables, arguments and results of programs, and of all their ops except constants and the update, which are
  // inferred. Assumes the output of inferLayouts.
  static KnownLayouts read(mlir::ModuleOp programs);

  // Gives them to programs on the same mesh without layouts, in addition to rules. `nameOf` returns the name that a module path or a
  // parameter of `programs` has in the module that was read. Tensors without a counterpart of the same rank are inferred.
  void give(mlir::ModuleOp programs, llvm::function_ref<std::string(llvm::StringRef)> nameOf) const;

private:
  struct OpLayouts {
    llvm::SmallVector<dist::LayoutAttr> results, operands; // operands: null where it takes the operand as it is, or none at all
  };
  struct Program {
    std::map<std::tuple<std::string, std::string, int64_t>, OpLayouts> ops; // by path, kind and ordinal (compiler/strategy/op_names.h)
    llvm::SmallVector<dist::LayoutAttr> arguments, results;
  };

  llvm::StringMap<dist::LayoutAttr> variables;
  llvm::StringMap<Program> programs; // by name
};

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_KNOWN_LAYOUTS_H
