// SPDX-License-Identifier: Apache-2.0
//
// Module -> Strategy.

#include "compiler/strategy/op_names.h"
#include "compiler/strategy/strategy.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/plain_text.h"
#include "dialects/nn/nn.h"

using namespace mlir;

namespace ashlar::strategy {
namespace {

void setOrigin(job::Strategy::Origin &made, dist::OriginAttr origin) {
  made.set_source(origin.getSource().str());
  if (StringAttr axis = origin.getAxis()) {
    made.set_axis(axis.str());
  }
  if (StringAttr path = origin.getPath()) {
    made.set_path(path.str());
  }
  if (StringAttr op = origin.getOp()) {
    made.set_op(op.str());
  }
}

void setTensor(job::Strategy::Tensor &tensor, StringRef name, Type type, dist::LayoutAttr layout, ArrayAttr origins) {
  if (!name.empty()) {
    tensor.set_name(name.str());
  }
  tensor.set_type(dist::typeText(type));
  tensor.set_layout(dist::layoutText(layout.getLayout()));
  if (origins) {
    llvm::for_each(origins.getAsRange<dist::OriginAttr>(), [&](dist::OriginAttr origin) { setOrigin(*tensor.add_origins(), origin); });
  }
}

// Sets an argument or result of a function from its attributes.
void setTensor(job::Strategy::Tensor &tensor, Type type, DictionaryAttr attributes) {
  auto name = attributes.getAs<StringAttr>(nn::kNameAttr);
  setTensor(tensor, name ? name.getValue() : StringRef(), type, attributes.getAs<dist::LayoutAttr>(dist::kLayoutAttr),
            attributes.getAs<ArrayAttr>(dist::kOriginAttr));
}

void setOp(job::Strategy::Op &made, Operation *op, const OpName &name) {
  if (!name.path.empty()) {
    made.set_path(name.path);
  }
  made.set_kind(name.kind);
  if (name.ordinal != 0) {
    made.set_ordinal(name.ordinal);
  }
  auto origins = op->getAttrOfType<ArrayAttr>(dist::kOriginsAttr);
  for (OpResult result : op->getResults()) {
    auto origin = origins ? cast<ArrayAttr>(origins[result.getResultNumber()]) : ArrayAttr();
    setTensor(*made.add_results(), "", result.getType(), dist::findLayout(result), origin);
  }
  if (auto operands = op->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr)) {
    for (Attribute operand : operands) {
      auto layout = dyn_cast<dist::LayoutAttr>(operand);
      made.add_operands(layout ? dist::layoutText(layout.getLayout()) : "");
    }
  }
}

void setProgram(job::Strategy::Program &program, func::FuncOp function) {
  program.set_name(function.getName().str());
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    setTensor(*program.add_arguments(), type, function.getArgAttrDict(index));
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    setTensor(*program.add_results(), type, function.getResultAttrDict(index));
  }
  for (const auto &[op, name] : nameOps(function)) {
    setOp(*program.add_ops(), op, name);
  }
}

} // namespace

job::Strategy readStrategy(ModuleOp module) {
  job::Strategy strategy;
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  for (auto [name, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes())) {
    job::Mesh::Axis *axis = strategy.mutable_mesh()->add_axes();
    axis->set_name(name.str());
    axis->set_size(size);
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    setTensor(*strategy.add_variables(), variable.getSymName(), variable.getTensorType(),
              variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr), variable->getAttrOfType<ArrayAttr>(dist::kOriginAttr));
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    setProgram(*strategy.add_programs(), function);
  }
  return strategy;
}

} // namespace ashlar::strategy
