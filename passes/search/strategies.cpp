// SPDX-License-Identifier: Apache-2.0
//
// Giving layouts, and pricing what follows.

#include "passes/search/strategies.h"

#include "dialects/nn/nn.h"
#include "passes/layout/given_attributes.h"

using namespace mlir;

namespace ashlar::search {

SmallVector<WeightedProgram> programsOfStep(ModuleOp module, int64_t runs) {
  SmallVector<WeightedProgram> programs;
  const bool updatesLater = static_cast<bool>(module.lookupSymbol(nn::kUpdate));
  for (auto [number, function] : llvm::enumerate(module.getOps<func::FuncOp>())) {
    StringRef name = function.getName();
    if (name == nn::kTrainStep || name == nn::kUpdate || name == nn::kForward) {
      programs.push_back({static_cast<unsigned>(number), updatesLater && name == nn::kTrainStep ? runs : 1});
    }
  }
  return programs;
}

FailureOr<Prediction> predict(ModuleOp module, int64_t runs) {
  FailureOr<layout::Price> price = layout::priceLayouts(module);
  if (failed(price)) {
    return failure();
  }
  Prediction prediction;
  for (const WeightedProgram &weighted : programsOfStep(module, runs)) {
    prediction.stepPs += price->programs[weighted.program].timePs() * weighted.runs;
  }
  prediction.parameterBytes = price->parameterBytes;
  prediction.stateBytes = price->stateBytes;
  prediction.inputOutputBytes = price->inputOutputBytes;
  prediction.memoryBytes = price->memoryBytes();
  prediction.valueBytes = prediction.memoryBytes - price->parameterBytes - price->stateBytes - price->inputOutputBytes;
  return prediction;
}

void giveLayouts(const layout::LayoutProblem &problem, const DecidedLayouts &decided) {
  MLIRContext *context = problem.mesh.getContext();
  Builder builder(context);
  auto origin = builder.getArrayAttr(dist::OriginAttr::get(context, builder.getStringAttr("the search"), {}, {}, {}));
  auto give = [&](const layout::TensorRef &tensor, dist::LayoutAttr layout) {
    layout::writeGiven(tensor, {layout, builder.getDenseI64ArrayAttr({}), 0, origin});
  };
  auto isOpen = [&](unsigned tensor) { return decided.tensors[tensor] && !problem.tensors[tensor].given; };
  for (auto [variable, tensor] : problem.variables) {
    if (isOpen(tensor)) {
      give({layout::TensorRef::Variable, variable}, decided.tensors[tensor]);
    }
  }
  for (const layout::ProblemProgram &program : problem.programs) {
    func::FuncOp function = program.function;
    for (BlockArgument argument : function.getArguments()) {
      if (unsigned tensor = problem.values[problem.find(argument)].tensor; isOpen(tensor)) {
        give({layout::TensorRef::Argument, function, argument.getArgNumber()}, decided.tensors[tensor]);
      }
    }
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      if (unsigned tensor = problem.resultTensor(program, index); isOpen(tensor)) {
        give({layout::TensorRef::FunctionResult, function, index}, decided.tensors[tensor]);
      }
    }
  }
  for (auto [number, op] : llvm::enumerate(problem.ops)) {
    for (auto [index, value] : llvm::enumerate(op.results)) {
      if (unsigned tensor = problem.values[value].tensor; !op.variable && isOpen(tensor)) {
        give({layout::TensorRef::OpResult, op.op, static_cast<unsigned>(index)}, decided.tensors[tensor]);
      }
    }
    for (auto [index, layout] : llvm::enumerate(decided.operands[number])) {
      if (layout && !op.taken[index]) {
        give({layout::TensorRef::Operand, op.op, static_cast<unsigned>(index)}, layout);
      }
    }
  }
}

bool splitBatch(ModuleOp module, int64_t batch) {
  dist::MeshAttr mesh = dist::findMesh(module).getMesh();
  bool anySplit = false;
  for (auto function : module.getOps<func::FuncOp>()) {
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      batch = batch == 0 && tensor.getRank() > 0 ? tensor.getDimSize(0) : batch;
      if (tensor.getRank() == 0 || tensor.getDimSize(0) != batch || function.getArgAttr(index, dist::kLayoutAttr)) {
        continue;
      }
      dist::Layout layout = dist::Layout::replicated(tensor.getRank());
      layout.dims.front().assign(mesh.getAxes().begin(), mesh.getAxes().end());
      if (!dist::isEven(mesh, batch, layout.dims.front())) {
        return false;
      }
      function.setArgAttr(index, dist::kLayoutAttr, dist::LayoutAttr::get(module.getContext(), layout));
      anySplit = true;
    }
  }
  return anySplit;
}

} // namespace ashlar::search
