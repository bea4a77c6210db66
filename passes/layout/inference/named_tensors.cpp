// SPDX-License-Identifier: Apache-2.0
//
// The tables of names.

#include "passes/layout/inference/named_tensors.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/phases.h"
#include "dialects/nn/result_names.h"

#include <functional>

using namespace mlir;

namespace ashlar::layout {

RankedTensorType TensorRef::getType() const {
  switch (kind) {
  case Variable:
    return cast<nn::VariableOp>(op).getTensorType();
  case Argument:
    return cast<RankedTensorType>(cast<func::FuncOp>(op).getArgumentTypes()[index]);
  case FunctionResult:
    return cast<RankedTensorType>(cast<func::FuncOp>(op).getResultTypes()[index]);
  case OpResult:
    return cast<RankedTensorType>(op->getResult(index).getType());
  case Operand:
    return cast<RankedTensorType>(op->getOperand(index).getType());
  }
  llvm_unreachable("unknown tensor");
}

std::string TensorRef::describe() const {
  auto quoted = [](StringAttr name) { return name ? " \"" + name.str() + "\"" : std::string(); };
  switch (kind) {
  case Variable:
    return (cast<nn::VariableOp>(op).getTrainable() ? "parameter" : "variable") + quoted(cast<nn::VariableOp>(op).getSymNameAttr());
  case Argument:
    return "input" + quoted(cast<func::FuncOp>(op).getArgAttrOfType<StringAttr>(index, nn::kNameAttr));
  case FunctionResult:
    return "output" + quoted(cast<func::FuncOp>(op).getResultAttrOfType<StringAttr>(index, nn::kNameAttr));
  case OpResult: {
    auto names = op->getAttrOfType<ArrayAttr>(nn::kOutputsAttr);
    return names ? "tensor" + quoted(cast<StringAttr>(names[index])) : "the result of op \"" + nn::getPath(op->getLoc()).str() + "\"";
  }
  case Operand:
    return "operand " + std::to_string(index) + " of op \"" + nn::getPath(op->getLoc()).str() + "\" (" +
           op->getName().getStringRef().str() + ")";
  }
  llvm_unreachable("unknown tensor");
}

bool TensorRef::operator<(const TensorRef &other) const {
  return std::tie(kind, op, index) < std::tie(other.kind, other.op, other.index);
}

llvm::MapVector<Value, SmallVector<OpOperand *>> OpGroup::inputs() const {
  llvm::MapVector<Value, SmallVector<OpOperand *>> inputs;
  DenseSet<Operation *> own(llvm::from_range, ops), seen;
  // From the result back, left operands first: the broadcast of a bias stands before the add, but is what the add takes second.
  auto visit = [&](Operation *op) {
    SmallVector<OpOperand *> pending; // the next one last
    auto enter = [&](Operation *entered) {
      if (seen.insert(entered).second) {
        for (OpOperand &operand : llvm::reverse(entered->getOpOperands())) {
          pending.push_back(&operand);
        }
      }
    };
    enter(op);
    while (!pending.empty()) {
      OpOperand *operand = pending.pop_back_val();
      Operation *maker = operand->get().getDefiningOp();
      bool isConstant = maker && maker->getNumOperands() == 0 && !isa<nn::ReadOp>(maker);
      if (maker && own.contains(maker)) {
        enter(maker);
      } else if (!isConstant) {
        inputs[operand->get()].push_back(operand);
      }
    }
  };
  for (OpResult output : outputs()) {
    visit(output.getOwner());
  }
  llvm::for_each(ops, visit); // what no output depends on
  return inputs;
}

SmallVector<OpResult> OpGroup::outputs() const {
  SmallVector<OpResult> outputs;
  for (Operation *op : ops) {
    for (OpResult result : op->getResults()) {
      // A name makes a result an output, whoever uses it: gradients use inner results as well.
      bool isNamed = op->hasAttr(nn::kOutputsAttr);
      bool leaves = llvm::any_of(result.getUsers(), [&](Operation *user) {
        return !llvm::is_contained(ops, user) && nn::getPath(user->getLoc()) != nn::getPath(op->getLoc());
      });
      if (isNamed || leaves) {
        outputs.push_back(result);
      }
    }
  }
  // Where the model names results only those count.
  if (llvm::any_of(outputs, [](OpResult result) { return result.getOwner()->hasAttr(nn::kOutputsAttr); })) {
    llvm::erase_if(outputs, [](OpResult result) { return !result.getOwner()->hasAttr(nn::kOutputsAttr); });
  }
  return outputs;
}

NamedTensors::NamedTensors(ModuleOp module) {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (!variable.getInternal()) {
      addTensor(variable.getSymName(), {TensorRef::Variable, variable});
    }
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    addFunction(function);
    addOps(function);
  }
}

void NamedTensors::addTensor(StringRef name, const TensorRef &tensor) {
  table.add(NameKind::Tensor, name);
  tensors[name].push_back(tensor);
}

void NamedTensors::addFunction(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
    if (name && !function.getArgAttr(i, nn::kInternalAttr)) {
      addTensor(name.getValue(), {TensorRef::Argument, function, i});
    }
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr)) {
      addTensor(name.getValue(), {TensorRef::FunctionResult, function, i});
    }
  }
}

namespace {

// Equal ops of two nodes are one after common subexpressions are merged, and have the path of the first: three products of one input share
// the reshape to rows. What has no name is no output of that node, so it is a part of every node that uses it.
void addSharedOps(OpGroup &group, const nn::Phases &phases) {
  if (llvm::none_of(group.ops, [](Operation *op) { return op->hasAttr(nn::kOutputsAttr); })) {
    return; // a module without names
  }
  for (size_t i = 0; i < group.ops.size(); ++i) {
    for (Value operand : group.ops[i]->getOperands()) {
      Operation *maker = operand.getDefiningOp();
      bool isInner = maker && phases.of(maker) == nn::Phase::Forward && maker->getNumOperands() != 0 && !isa<nn::ReadOp>(maker) &&
                     !maker->hasAttr(nn::kOutputsAttr);
      if (isInner && !llvm::is_contained(group.ops, maker)) {
        group.ops.push_back(maker);
      }
    }
  }
}

} // namespace

// The forward phase is the model.
void NamedTensors::addOps(func::FuncOp function) {
  nn::Phases phases(function.front());
  llvm::MapVector<StringRef, OpGroup> ofFunction;
  for (Operation &op : function.front()) {
    StringRef path = nn::getPath(op.getLoc());
    if (phases.of(&op) != nn::Phase::Forward || isa<nn::ReadOp>(op) || op.getNumOperands() == 0) {
      continue;
    }
    if (!path.empty()) {
      ofFunction[path].ops.push_back(&op);
    }
    for (OpResult result : op.getResults()) {
      for (StringRef name : nn::namesOf(result)) {
        addTensor(name, {TensorRef::OpResult, &op, result.getResultNumber()});
      }
    }
  }
  for (auto &[path, group] : ofFunction) {
    addSharedOps(group, phases);
    table.add(NameKind::Op, path);
    groups[path].push_back(std::move(group));
  }
}

SmallVector<TensorRef> NamedTensors::findTensors(StringRef glob) const {
  SmallVector<TensorRef> found;
  for (StringRef name : table.match(NameKind::Tensor, glob)) {
    llvm::append_range(found, tensors.at(name));
  }
  for (auto [path, group] : findOps(glob)) {
    for (OpResult result : group->outputs()) {
      found.push_back({TensorRef::OpResult, result.getOwner(), result.getResultNumber()});
    }
  }
  return found;
}

SmallVector<std::pair<StringRef, const OpGroup *>> NamedTensors::findOps(StringRef glob) const {
  SmallVector<std::pair<StringRef, const OpGroup *>> found;
  for (StringRef path : table.match(NameKind::Op, glob)) {
    for (const OpGroup &group : groups.at(path)) {
      found.emplace_back(path, &group);
    }
  }
  return found;
}

} // namespace ashlar::layout
