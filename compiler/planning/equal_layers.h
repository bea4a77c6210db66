// SPDX-License-Identifier: Apache-2.0
//
// The equal layers of an imported model, and the model with fewer of them: what a layer costs is found on a short model, as the search
// decides equal layers as one.

#ifndef ASHLAR_COMPILER_PLANNING_EQUAL_LAYERS_H
#define ASHLAR_COMPILER_PLANNING_EQUAL_LAYERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <utility>
#include <vector>

namespace ashlar::planning {

// Layers that compute the same, each on the results of the one before it. An op of a layer has the same place in all of them.
struct EqualLayers {
  std::vector<std::vector<mlir::Operation *>> ops; // by layer, then by place, in program order

  int64_t count() const { return static_cast<int64_t>(ops.size()); }
};

// Returns the longest row of equal layers of a program of an imported model; none where it has another form. A layer is a block of module
// paths (passes/search/name_globs.h). Layers are equal where their ops, attributes, types and operands are; the first one may read
// any values, and only the next layer, behind the last one any op, reads the results of a layer. Linear in the ops.
//
//   embedding, layer0.fc, layer0.relu, layer1.fc, layer1.relu, head  ->  {layer0.fc, layer0.relu}, {layer1.fc, layer1.relu}
EqualLayers findEqualLayers(mlir::func::FuncOp program);

// Erases all equal layers of the programs of an imported model but the first `kept` ones, at least one, with their parameters: what read
// the last layer reads the last one kept. Returns false, and leaves a useless model, where a program has fewer.
bool keepLayers(mlir::ModuleOp model, int64_t kept);

// The names of the ops and parameters of equal layers: module paths and variables. Valid when the layers are gone.
class LayerNames {
public:
  explicit LayerNames(const EqualLayers &layers);

  // Returns the name that the same op or parameter has in a model of `to` layers, at least two, where it is called `name` in one of `from`:
  // the first layer is the first one, the last layer the last one, and each layer between them is one between them. A name from elsewhere
  // is the same in both.
  //   from 96 to 4: layer0.fc -> layer0.fc, layer50.fc -> layer2.fc, layer95.fc -> layer3.fc
  std::string counterpart(llvm::StringRef name, int64_t from, int64_t to) const;

private:
  std::vector<std::vector<std::string>> names;        // by layer, then by place
  llvm::StringMap<std::pair<int64_t, size_t>> places; // by name: layer and place
};

} // namespace ashlar::planning

#endif // ASHLAR_COMPILER_PLANNING_EQUAL_LAYERS_H
