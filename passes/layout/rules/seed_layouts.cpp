// SPDX-License-Identifier: Apache-2.0
//
// ashlar-seed-layouts: the mesh, and the split batch on the arguments that hold it.

#include "dialects/nn/programs.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_SEEDLAYOUTSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Parses axes like "dp=4" into a mesh.
FailureOr<dist::MeshAttr> parseMesh(ModuleOp module, ArrayRef<std::string> axes) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const std::string &axis : axes) {
    auto [name, sizeText] = StringRef(axis).split('=');
    int64_t size;
    if (name.empty() || sizeText.getAsInteger(10, size)) {
      return module.emitError("mesh axis \"") << axis << "\" is not name=size";
    }
    names.push_back(StringAttr::get(module.getContext(), name));
    sizes.push_back(size);
  }
  auto emitError = [&] { return module.emitError(); };
  auto mesh = dist::MeshAttr::getChecked(function_ref<InFlightDiagnostic()>(emitError), module.getContext(), ArrayRef<StringAttr>(names),
                                         ArrayRef<int64_t>(sizes));
  if (!mesh) {
    return failure();
  }
  return mesh;
}

// Returns the mesh of the module, created from the option when it has none yet.
FailureOr<dist::MeshAttr> createMesh(ModuleOp module, ArrayRef<std::string> axes) {
  dist::MeshOp existing = dist::findMesh(module);
  if (axes.empty()) {
    return existing ? FailureOr<dist::MeshAttr>(existing.getMesh()) : module.emitError("has no dist.mesh and no mesh is given");
  }
  FailureOr<dist::MeshAttr> mesh = parseMesh(module, axes);
  if (failed(mesh)) {
    return failure();
  }
  if (existing && existing.getMesh() != *mesh) {
    return existing.emitOpError("is ") << existing.getMesh() << " but mesh " << *mesh << " is given";
  }
  if (!existing) {
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    dist::MeshOp::create(builder, module.getLoc(), nn::freeSymbol(module, "mesh"), *mesh);
  }
  return mesh;
}

// Splits dim 0 of the arguments of `function` that hold the batch.
LogicalResult splitBatch(func::FuncOp function, dist::MeshAttr mesh, ArrayRef<StringAttr> axes, int64_t batch) {
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getRank() == 0 || function.getArgAttr(index, dist::kLayoutAttr)) {
      continue;
    }
    batch = batch == 0 ? tensor.getDimSize(0) : batch;
    if (tensor.getDimSize(0) != batch) {
      continue;
    }
    dist::Layout layout = dist::Layout::replicated(tensor.getRank());
    layout.dims.front().assign(axes.begin(), axes.end());
    if (failed(checkGivenLayout(function, nameArgument(function, index), mesh, tensor, layout))) {
      return failure();
    }
    function.setArgAttr(index, dist::kLayoutAttr, dist::LayoutAttr::get(function.getContext(), layout));
  }
  return success();
}

struct SeedLayouts : impl::SeedLayoutsPassBase<SeedLayouts> {
  using SeedLayoutsPassBase::SeedLayoutsPassBase;

  void runOnOperation() override {
    FailureOr<dist::MeshAttr> created = createMesh(getOperation(), *mesh);
    if (failed(created)) {
      return signalPassFailure();
    }
    dist::AxisList axes;
    for (const std::string &axis : batchAxes) {
      axes.push_back(StringAttr::get(&getContext(), axis));
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!axes.empty() && failed(splitBatch(function, *created, axes, globalBatch))) {
        return signalPassFailure();
      }
    }
  }
};

} // namespace

} // namespace ashlar::layout
