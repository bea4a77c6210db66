// SPDX-License-Identifier: Apache-2.0
//
// Checks of given layouts, with the errors a user gets.

#include "passes/layout/given_layout.h"

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
  for (auto [dim, axes] : llvm::enumerate(layout.dims)) {
    int64_t left = type.getDimSize(dim);
    for (StringAttr axis : axes) {
      if (!mesh.findAxis(axis)) {
        return op->emitError() << what << " is split over axis " << axis << ", which is not in mesh " << mesh;
      }
      int64_t size = mesh.axisSize(axis);
      if (left % size != 0) {
        InFlightDiagnostic error = op->emitError()
                                   << what << " has size " << type.getDimSize(dim) << " in dim " << dim << ", not divisible by ";
        if (axes.size() == 1) {
          return error << "mesh axis " << axis << " of size " << size << "; use a multiple of " << size;
        }
        return error << "the " << mesh.groupSize(axes) << " devices of its mesh axes; use a multiple of " << mesh.groupSize(axes);
      }
      left /= size;
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
