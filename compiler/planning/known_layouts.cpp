// SPDX-License-Identifier: Apache-2.0
//
// See known_layouts.h.

#include "compiler/planning/known_layouts.h"

#include "compiler/strategy/op_names.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "passes/layout/inference/given_attributes.h"

using namespace mlir;

namespace ashlar::planning {
namespace {

// Returns the ops of a function but those of the update and constants, which are copied for each use, each with its name.
std::vector<std::pair<Operation *, strategy::OpName>> opsOf(func::FuncOp function) {
  nn::Phases phases(function.front());
  std::vector<std::pair<Operation *, strategy::OpName>> ops = strategy::nameOps(function);
  llvm::erase_if(ops, [&](const auto &each) {
    auto isScalar = [](Type type) { return cast<RankedTensorType>(type).getRank() == 0; };
    return phases.of(each.first) == nn::Phase::Update || llvm::all_of(each.first->getOperandTypes(), isScalar);
  });
  return ops;
}

// Gives a tensor a layout of its rank.
void giveTo(const layout::TensorRef &tensor, dist::LayoutAttr layout) {
  if (!layout || static_cast<int64_t>(layout.getLayout().dims.size()) != tensor.getType().getRank()) {
    return;
  }
  Builder builder(layout.getContext());
  auto origin = builder.getArrayAttr(dist::OriginAttr::get(layout.getContext(), builder.getStringAttr("the search"), {}, {}, {}));
  layout::writeGiven(tensor, {layout, builder.getDenseI64ArrayAttr({}), 0, origin});
}

} // namespace

KnownLayouts KnownLayouts::read(ModuleOp module) {
  KnownLayouts known;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    known.variables[variable.getSymName()] = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    Program &program = known.programs[function.getName()];
    for (unsigned index = 0; index < function.getNumArguments(); ++index) {
      program.arguments.push_back(function.getArgAttrOfType<dist::LayoutAttr>(index, dist::kLayoutAttr));
    }
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      program.results.push_back(function.getResultAttrOfType<dist::LayoutAttr>(index, dist::kLayoutAttr));
    }
    for (const auto &[op, name] : opsOf(function)) {
      OpLayouts &layouts = program.ops[{name.path, name.kind, name.ordinal}];
      llvm::append_range(layouts.results, llvm::map_range(op->getResults(), [](Value value) { return dist::findLayout(value); }));
      if (auto operands = op->getAttrOfType<ArrayAttr>(dist::kOperandLayoutsAttr)) {
        llvm::append_range(layouts.operands, llvm::map_range(operands, [](Attribute each) { return dyn_cast<dist::LayoutAttr>(each); }));
      }
    }
  }
  return known;
}

void KnownLayouts::give(ModuleOp module, function_ref<std::string(StringRef)> nameOf) const {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    std::optional<StringRef> of = variable.getStateOf(); // its name begins with the parameter's
    StringRef name = variable.getSymName(), parameter = of && name.starts_with(*of) ? *of : name;
    giveTo({layout::TensorRef::Variable, variable}, variables.lookup(nameOf(parameter) + name.drop_front(parameter.size()).str()));
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    auto found = programs.find(function.getName());
    if (found == programs.end()) {
      continue;
    }
    const Program &program = found->second;
    for (auto [index, layout] : llvm::enumerate(ArrayRef(program.arguments).take_front(function.getNumArguments()))) {
      giveTo({layout::TensorRef::Argument, function, static_cast<unsigned>(index)}, layout);
    }
    for (auto [index, layout] : llvm::enumerate(ArrayRef(program.results).take_front(function.getNumResults()))) {
      giveTo({layout::TensorRef::FunctionResult, function, static_cast<unsigned>(index)}, layout);
    }
    for (const auto &[op, name] : opsOf(function)) {
      auto same = program.ops.find({nameOf(name.path), name.kind, name.ordinal});
      if (same == program.ops.end()) {
        continue;
      }
      for (auto [index, layout] : llvm::enumerate(ArrayRef(same->second.results).take_front(op->getNumResults()))) {
        giveTo({layout::TensorRef::OpResult, op, static_cast<unsigned>(index)}, layout);
      }
      for (auto [index, layout] : llvm::enumerate(ArrayRef(same->second.operands).take_front(op->getNumOperands()))) {
        giveTo({layout::TensorRef::Operand, op, static_cast<unsigned>(index)}, layout);
      }
    }
  }
}

} // namespace ashlar::planning
