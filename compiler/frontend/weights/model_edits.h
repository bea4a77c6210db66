// SPDX-License-Identifier: Apache-2.0
//
// The changes that an import makes to the graph of the file before it reads it, so that --export can make the same changes in the file.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_MODEL_EDITS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_MODEL_EDITS_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar::frontend {

// Nodes are named by their first result.
struct ModelEdits {
  // An initializer with the content of another one, or a Constant node.
  struct Added {
    std::string name, from;
  };
  // An input of a node that reads another initializer.
  struct Input {
    std::string node;
    int64_t index = 0;
    std::string name;
  };
  std::vector<Added> added;
  std::vector<Input> inputs;
  std::vector<std::string> dropped; // nodes

  bool isEmpty() const { return added.empty() && inputs.empty() && dropped.empty(); }

  // Writes them to an attribute of the imported module, and reads them from there.
  void attachTo(mlir::ModuleOp module) const;
  static ModelEdits of(mlir::ModuleOp module);
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_MODEL_EDITS_H
