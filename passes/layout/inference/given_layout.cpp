// SPDX-License-Identifier: Apache-2.0
//
// Checks of given layouts, with the errors a user gets.

#include "passes/layout/inference/given_layout.h"

#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::layout {

LogicalResult checkGivenLayout(Operation *op, const Twine &what, dist::MeshAttr mesh, RankedTensorType type, const dist::Layout &layout) {
  if (static_cast<int64_t>(layout.dims.size()) != type.getRank()) {
    return op->emitError() << what << " has type " << type << " but a layout of rank " << layout.dims.size();
  }
  if (layout.isPartial()) {
    return op->emitError() << what << " has layout " << layout.toString() << "; a given layout cannot be partial";
  }
  for (ArrayRef<StringAttr> axes : layout.dims) {
    for (StringAttr axis : axes) {
      if (!mesh.findAxis(axis)) {
        return op->emitError() << what << " is split over axis " << axis << ", which is not in mesh " << mesh;
      }
    }
  }
  return success();
}

std::string nameArgument(FunctionOpInterface function, unsigned index) {
  std::string text = "argument " + std::to_string(index);
  if (auto name = function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr)) {
    text += " (\"" + name.str() + "\")";
  }
  return text + " of @" + function.getName().str();
}

dist::MeshAttr requirePrograms(ModuleOp module) {
  for (auto function : module.getOps<FunctionOpInterface>()) {
    if (!function.getFunctionBody().hasOneBlock()) {
      function.emitError() << "function @" << function.getName() << " is no program: it has "
                           << function.getFunctionBody().getBlocks().size() << " blocks, not one";
      return {};
    }
  }
  if (dist::MeshOp mesh = dist::findMesh(module)) {
    return mesh.getMesh();
  }
  module.emitOpError("has no dist.mesh; run ashlar-seed-layouts first");
  return {};
}

} // namespace ashlar::layout
