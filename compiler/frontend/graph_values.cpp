// SPDX-License-Identifier: Apache-2.0
//
// The table of names.

#include "compiler/frontend/graph_values.h"

#include "compiler/frontend/import_error.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/nn/result_names.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <exception>

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
  defined.push_back(name.str());
  return it->second;
}

void GraphValues::forgetBehind(size_t count) {
  for (const std::string &name : ArrayRef(defined).drop_front(count)) {
    forget(name);
  }
  defined.resize(count);
}

void GraphValues::define(StringRef name, Value value) {
  add(name).value = value;
  addName(value, name);
}

// The first name of a result is its own; those that follow are aliases. Parameters and inputs have theirs already.
void GraphValues::addName(Value value, StringRef name) {
  auto result = dyn_cast_or_null<OpResult>(value);
  if (result && !isa<nn::ReadOp>(result.getOwner())) {
    nn::addName(result, name);
  }
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

GraphValues::BodyScope::BodyScope(GraphValues &values, Body &body)
    : values(values), outside(values.builder.saveInsertionPoint()), exceptions(std::uncaught_exceptions()) {
  if (values.bodies.empty()) {
    values.outside = outside;
  }
  values.bodies.push_back(&body);
  values.builder.setInsertionPointToEnd(body.block.get());
}

GraphValues::BodyScope::~BodyScope() {
  if (std::uncaught_exceptions() > exceptions) {
    std::unique_ptr<Block> &block = values.bodies.back()->block;
    block->dropAllReferences();
    values.discarded.push_back(std::move(block));
  }
  values.bodies.pop_back();
  values.builder.restoreInsertionPoint(outside);
}

OpBuilder GraphValues::outsideBuilder() const {
  OpBuilder outer(builder.getContext());
  outer.restoreInsertionPoint(bodies.empty() ? builder.saveInsertionPoint() : outside);
  return outer;
}

int64_t GraphValues::countIterations() const {
  int64_t count = 1;
  for (const Body *body : bodies) {
    count *= body->count;
  }
  return count;
}

Value GraphValues::perIteration(Type element, ArrayRef<APInt> elements) {
  SmallVector<int64_t> shape = llvm::map_to_vector(bodies, [](const Body *body) { return body->count; });
  SmallVector<APInt> byPlace;
  for (int64_t at = 0; at < static_cast<int64_t>(elements.size()); ++at) {
    int64_t rest = at, iteration = 0, stride = 1; // innermost body first
    for (const Body *body : llvm::reverse(bodies)) {
      const int64_t place = rest % body->count;
      iteration += stride * (body->reversed ? body->count - 1 - place : place);
      rest /= body->count;
      stride *= body->count;
    }
    byPlace.push_back(elements[iteration]);
  }
  OpBuilder outer = outsideBuilder();
  auto type = RankedTensorType::get(shape, element);
  Value rows = nn::ConstantOp::create(outer, outer.getUnknownLoc(), DenseElementsAttr::get(type, byPlace));
  for (Body *body : bodies) {
    body->sliced.push_back(rows);
    rows = body->block->addArgument(nn::rowType(cast<RankedTensorType>(rows.getType())), rows.getLoc());
  }
  return rows;
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
  return freshConstants || !bodies.empty() ? constant : entry.value = constant;
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
    if (argument.getOwner()->getParentOp() != function) {
      return std::nullopt; // of a body
    }
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
    OpBuilder outer = outsideBuilder();
    read = nn::ReadOp::create(outer, locationOf(entry.parameter), entry.parameterType, entry.parameter);
  }
  return read;
}

Value GraphValues::readScalarVariable(StringRef name, std::optional<int64_t> init) {
  Value &read = reads[name];
  if (!read) {
    auto type = RankedTensorType::get({}, builder.getI64Type());
    declareVariable(name, type, init ? Attribute(DenseElementsAttr::get(type, *init)) : Attribute(), Role::Internal);
    OpBuilder outer = outsideBuilder();
    read = nn::ReadOp::create(outer, locationOf(name), type, name);
  }
  return read;
}

} // namespace ashlar::frontend
