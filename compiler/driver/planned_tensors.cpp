// SPDX-License-Identifier: Apache-2.0
//
// Reads names and layouts off a module on global shapes.

#include "compiler/driver/planned_tensors.h"

#include "compiler/pipelines/local_model.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::driver {
namespace {

// Returns the ranks of n points when nothing is said of them: 0, 1, 2, ...
std::vector<int64_t> plainRanks(int64_t count) {
  auto ranks = llvm::seq<int64_t>(0, count);
  return std::vector<int64_t>(ranks.begin(), ranks.end());
}

} // namespace

frontend::DeviceMesh makeDeviceMesh(const job::Job &job, MLIRContext *context) {
  dist::MeshAttr mesh = pipelines::makeMesh(job, context);
  const auto &given = job.mesh().device_ids();
  return {mesh, given.empty() ? plainRanks(mesh.numDevices()) : std::vector<int64_t>(given.begin(), given.end())};
}

frontend::DeviceMesh makeDeviceMesh(ModuleOp module) {
  dist::MeshOp mesh = dist::findMesh(module);
  std::optional<ArrayRef<int64_t>> given = mesh.getDeviceIds();
  return {mesh.getMesh(), given ? given->vec() : plainRanks(mesh.getMesh().numDevices())};
}

llvm::StringMap<frontend::PlannedTensor> plannedTensors(ModuleOp module) {
  llvm::StringMap<frontend::PlannedTensor> tensors;
  auto add = [&](StringAttr name, Type type, dist::LayoutAttr layout) {
    if (name && layout) {
      tensors[name] = {llvm::to_vector(cast<RankedTensorType>(type).getShape()), layout.getLayout()};
    }
  };
  for (auto variable : module.getOps<nn::VariableOp>()) {
    add(variable.getSymNameAttr(), variable.getTensorType(), variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr));
  }
  func::FuncOp function = nn::findMain(module);
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    add(function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr), argument.getType(), dist::findLayout(argument));
  }
  function.walk([&](Operation *op) {
    auto names = op->getAttrOfType<ArrayAttr>(nn::kOutputsAttr);
    for (auto [result, name] : llvm::zip(op->getResults(), names ? names.getValue() : ArrayRef<Attribute>())) {
      add(cast<StringAttr>(name), result.getType(), dist::findLayout(result));
    }
  });
  return tensors;
}

} // namespace ashlar::driver
