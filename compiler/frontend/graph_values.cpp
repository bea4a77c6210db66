// SPDX-License-Identifier: Apache-2.0
//
// The table of names.

#include "compiler/frontend/graph_values.h"

#include "compiler/frontend/import_error.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

namespace ashlar::frontend {

Location GraphValues::locationOf(StringRef path) {
  return NameLoc::get(builder.getStringAttr(path));
}

GraphValues::Entry &GraphValues::find(StringRef name) {
  auto it = entries.find(name);
  if (it == entries.end()) {
    throw ImportError("\"" + name + "\" is read but nothing before defines it");
  }
  return it->second;
}

GraphValues::Entry &GraphValues::findTensor(StringRef name) {
  Entry &entry = find(name);
  if (entry.sequence) {
    throw ImportError("\"" + name + "\" is a sequence of " + llvm::Twine(entry.sequence->size()) + " tensors but is used as a tensor");
  }
  return entry;
}

GraphValues::Entry &GraphValues::add(StringRef name) {
  auto [it, inserted] = entries.try_emplace(name);
  if (!inserted) {
    throw ImportError("\"" + name + "\" is defined twice");
  }
  return it->second;
}

void GraphValues::define(StringRef name, Value value) {
  add(name).value = value;
  addName(value, name);
}

// The first name of a result is its own; those that follow are aliases. Parameters and inputs have theirs already.
void GraphValues::addName(Value value, StringRef name) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  if (!op || isa<nn::ReadOp>(op)) {
    return;
  }
  if (!op->hasAttr(nn::kOutputsAttr)) {
    op->setAttr(nn::kOutputsAttr, builder.getStrArrayAttr({name}));
    return;
  }
  SmallVector<Attribute> aliases;
  if (auto existing = op->getAttrOfType<ArrayAttr>(nn::kAliasesAttr)) {
    llvm::append_range(aliases, existing);
  }
  aliases.push_back(builder.getStringAttr(name));
  op->setAttr(nn::kAliasesAttr, builder.getArrayAttr(aliases));
}

void GraphValues::define(StringRef name, DenseElementsAttr constant) {
  add(name).constant = constant;
}

void GraphValues::replace(StringRef name, DenseElementsAttr constant) {
  Entry &entry = find(name);
  entry = Entry();
  entry.constant = constant;
}

void GraphValues::defineParameter(StringRef name, RankedTensorType type, std::function<Attribute()> makeInit) {
  Entry &entry = add(name);
  entry.parameterType = type;
  entry.makeInit = std::move(makeInit);
  entry.parameter = name.str();
}

void GraphValues::defineSequence(StringRef name, std::vector<std::string> elements) {
  add(name).sequence = std::move(elements);
}

const std::vector<std::string> *GraphValues::getSequence(StringRef name) {
  Entry &entry = find(name);
  return entry.sequence ? &*entry.sequence : nullptr;
}

void GraphValues::alias(StringRef name, StringRef other) {
  Entry entry = find(other);
  if (!entry.constant) {
    addName(entry.value, name);
  }
  add(name) = std::move(entry);
}

Value GraphValues::getValue(StringRef name) {
  Entry &entry = findTensor(name);
  if (entry.value) {
    return entry.value;
  }
  if (!entry.constant) {
    return entry.value = readParameter(entry);
  }
  Value constant = nn::ConstantOp::create(builder, locationOf(name), entry.constant.getType(), entry.constant);
  return freshConstants ? constant : entry.value = constant;
}

DenseElementsAttr GraphValues::getConstant(StringRef name) {
  return find(name).constant;
}

RankedTensorType GraphValues::getType(StringRef name) {
  const Entry &entry = findTensor(name);
  if (entry.value) {
    return cast<RankedTensorType>(entry.value.getType());
  }
  return entry.constant ? cast<RankedTensorType>(entry.constant.getType()) : entry.parameterType;
}

std::optional<GraphValues::Tensor> GraphValues::describe(StringRef name) const {
  auto it = entries.find(name);
  if (it == entries.end() || !it->second.value || it->second.constant) {
    return std::nullopt;
  }
  const Entry &entry = it->second;
  auto type = cast<RankedTensorType>(entry.value.getType());
  if (auto argument = dyn_cast<BlockArgument>(entry.value)) {
    auto named = cast<FunctionOpInterface>(function).getArgAttrOfType<StringAttr>(argument.getArgNumber(), nn::kNameAttr);
    return Tensor{named.str(), type};
  }
  auto names = entry.value.getDefiningOp()->getAttrOfType<ArrayAttr>(nn::kOutputsAttr);
  if (!entry.parameter.empty() || !names) {
    return entry.parameter.empty() ? std::nullopt : std::optional(Tensor{entry.parameter, type});
  }
  return Tensor{cast<StringAttr>(names[0]).str(), type};
}

StringRef GraphValues::getParameter(StringRef name) {
  return find(name).parameter;
}

void GraphValues::keepAsState(StringRef name) {
  StringRef parameter = find(name).parameter;
  if (states.insert(parameter).second && reads.lookup(parameter)) {
    throw ImportError("\"" + parameter +
                      "\" is a running statistic, which nothing trains, but a node before reads it as a parameter; untie: AUTO in the job "
                      "makes two of them");
  }
}

void GraphValues::declareVariable(StringRef name, RankedTensorType type, Attribute init, Role role) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(function);
  nn::VariableOp::create(builder, locationOf(name), builder.getStringAttr(name), TypeAttr::get(type), init,
                         role == Role::Parameter ? builder.getUnitAttr() : UnitAttr(), /*state_of=*/FlatSymbolRefAttr(),
                         /*internal=*/role == Role::Internal ? builder.getUnitAttr() : UnitAttr());
}

Value GraphValues::readParameter(const Entry &entry) {
  Value &read = reads[entry.parameter];
  if (!read) {
    if (StringRef(entry.parameter).starts_with("ashlar.")) {
      throw ImportError("parameter \"" + entry.parameter + "\" has a name that the compiler uses itself; rename it in the model");
    }
    declareVariable(entry.parameter, entry.parameterType, entry.makeInit(),
                    states.contains(entry.parameter) ? Role::State : Role::Parameter);
    read = nn::ReadOp::create(builder, locationOf(entry.parameter), entry.parameterType, entry.parameter);
  }
  return read;
}

Value GraphValues::readScalarVariable(StringRef name, std::optional<int64_t> init) {
  Value &read = reads[name];
  if (!read) {
    auto type = RankedTensorType::get({}, builder.getI64Type());
    declareVariable(name, type, init ? Attribute(DenseElementsAttr::get(type, *init)) : Attribute(), Role::Internal);
    read = nn::ReadOp::create(builder, locationOf(name), type, name);
  }
  return read;
}

} // namespace ashlar::frontend
