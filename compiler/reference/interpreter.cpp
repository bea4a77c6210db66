// SPDX-License-Identifier: Apache-2.0
//
// The loop over the ops of a function, variables, and regions. Ops compute by their ReferenceOpInterface, collectives by collectives.h.

#include "compiler/reference/interpreter.h"

#include "compiler/reference/collectives.h"

#include "dialects/dist/dist.h"
#include "dialects/dist/owners.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/repeat/flat_repeats.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::reference {

namespace {

// Returns the value an `init` attribute stands for; none when it takes random numbers.
FailureOr<Tensor> initialValue(nn::VariableOp variable) {
  if (auto elements = dyn_cast_or_null<ElementsAttr>(variable.getInitAttr())) {
    return Tensor::fromAttribute(elements);
  }
  if (auto fill = dyn_cast_or_null<nn::FillAttr>(variable.getInitAttr())) {
    return Tensor::fromAttribute(nn::splat(variable.getTensorType(), fill.getValue().getValueAsDouble()));
  }
  return failure();
}

// Returns a copy of a module that has repeats in the flat form, with nn.repeat in their place; null for one that has none.
OwningOpRef<ModuleOp> nestFlatRepeats(ModuleOp module) {
  auto isFlat = [](func::FuncOp function) { return !function.isExternal() && nn::hasFlatRepeats(function.front()); };
  OwningOpRef<ModuleOp> nested = llvm::any_of(module.getOps<func::FuncOp>(), isFlat) ? module.clone() : ModuleOp();
  for (auto function : nested ? llvm::to_vector(nested->getOps<func::FuncOp>()) : SmallVector<func::FuncOp>()) {
    if (isFlat(function) && failed(nn::nestRepeats(function.front()))) {
      break; // the ops that stay have no reference semantics
    }
  }
  return nested;
}

// Copies row `i` of `from` to row `j` of `to`, rows of `size` elements.
void copyRow(const Tensor &from, int64_t i, Tensor &to, int64_t j, int64_t size) {
  for (int64_t element = 0; element < size; ++element) {
    to.copyElement(j * size + element, from, i * size + element);
  }
}

} // namespace

Interpreter::Interpreter(ModuleOp module, int64_t numRanks, Observer observer)
    : nested(nestFlatRepeats(module)), module(nested ? nested.get() : module), numRanks(numRanks), observer(std::move(observer)) {
  for (auto variable : module.getOps<nn::VariableOp>()) {
    if (FailureOr<Tensor> value = initialValue(variable); succeeded(value)) {
      setVariable(variable.getSymName(), RankTensors(numRanks, *value));
    }
  }
}

void Interpreter::setVariable(StringRef name, RankTensors value) {
  auto variable = module.lookupSymbol<nn::VariableOp>(name);
  if (std::optional<int64_t> owner = variable ? dist::getOwner(variable) : std::nullopt) {
    for (auto [rank, tensor] : llvm::enumerate(value)) {
      if (static_cast<int64_t>(rank) != *owner) {
        spoil(tensor);
      }
    }
  }
  variables[name] = std::move(value);
}

void Interpreter::setSeed(int64_t seed) {
  if (auto variable = module.lookupSymbol<nn::VariableOp>(nn::kSeedVariable)) {
    Tensor value(variable.getTensorType());
    value.setInt(0, seed);
    setVariable(nn::kSeedVariable, RankTensors(numRanks, value));
  }
}

const RankTensors *Interpreter::getVariable(StringRef name) const {
  auto found = variables.find(name);
  return found == variables.end() ? nullptr : &found->second;
}

FailureOr<std::vector<RankTensors>> Interpreter::run(StringRef name, ArrayRef<RankTensors> inputs) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal()) {
    return module.emitError("no function @") << name << " to interpret";
  }
  if (inputs.size() != function.getNumArguments()) {
    return function.emitError("takes ") << function.getNumArguments() << " inputs, " << inputs.size() << " were given";
  }
  for (auto [i, input] : llvm::enumerate(inputs)) {
    for (const Tensor &tensor : input) {
      if (tensor.getType() != function.getArgumentTypes()[i]) {
        return function.emitError("argument ") << i << " has type " << function.getArgumentTypes()[i] << " but was given "
                                               << tensor.getType();
      }
    }
  }
  return runBlock(function.getBody().front(), inputs.vec());
}

FailureOr<std::vector<RankTensors>> Interpreter::runBlock(Block &block, std::vector<RankTensors> arguments) {
  Values values;
  for (auto [argument, tensors] : llvm::zip_equal(block.getArguments(), arguments)) {
    values[argument] = std::move(tensors);
  }
  for (Operation &op : block.without_terminator()) {
    if (failed(execute(&op, values))) {
      return failure();
    }
  }
  std::vector<RankTensors> results;
  for (Value result : block.getTerminator()->getOperands()) {
    results.push_back(values.at(result));
  }
  return results;
}

LogicalResult Interpreter::execute(Operation *op, Values &values) {
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    const RankTensors *value = getVariable(read.getVariable());
    if (!value) {
      return op->emitOpError("reads variable @") << read.getVariable() << ", which has no value yet; run @init first";
    }
    values[read] = *value;
    return success();
  }
  if (auto write = dyn_cast<nn::WriteOp>(op)) {
    setVariable(write.getVariable(), values.at(write.getValue()));
    return success();
  }
  if (auto place = dyn_cast<dist::SlotOpInterface>(op); place && slot.take) {
    if (!place.isSource()) {
      slot.put(op, values.at(place.getSlotValue()));
      return success();
    }
    FailureOr<RankTensors> taken = slot.take(op);
    if (succeeded(taken)) {
      values[place.getSlotValue()] = std::move(*taken);
    }
    return taken;
  }
  if (isa<exec::AwaitOp>(op)) { // a collective is done as soon as it is run
    for (auto [started, result] : llvm::zip_equal(op->getOperands(), op->getResults())) {
      values[result] = values.at(started);
    }
    return success();
  }
  if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
    return executeRepeat(repeat, values);
  }
  // An op with its own block, as exec.fusion: the operands go in as block arguments, what the terminator takes are the results.
  if (op->getNumRegions() == 1 && op->hasTrait<OpTrait::IsIsolatedFromAbove>() && op->getRegion(0).hasOneBlock() &&
      op->getRegion(0).getNumArguments() == op->getNumOperands()) {
    std::vector<RankTensors> arguments;
    for (Value operand : op->getOperands()) {
      arguments.push_back(values.at(operand));
    }
    FailureOr<std::vector<RankTensors>> results = runBlock(op->getRegion(0).front(), std::move(arguments));
    if (failed(results)) {
      return failure();
    }
    for (auto [result, tensors] : llvm::zip_equal(op->getResults(), *results)) {
      values[result] = std::move(tensors);
    }
    return success();
  }
  FailureOr<std::vector<RankTensors>> results = executeSimple(op, values);
  if (failed(results)) {
    return failure();
  }
  for (auto [result, tensors] : llvm::zip_equal(op->getResults(), *results)) {
    values[result] = std::move(tensors);
  }
  return success();
}

// Returns whether the condition of a repeat holds. All ranks have to agree on it.
static FailureOr<bool> holds(nn::RepeatOp op, const DenseMap<Value, RankTensors> &values) {
  if (!op.getCondition()) {
    return true;
  }
  const RankTensors &conditions = values.at(op.getCondition());
  const bool first = conditions.front().getNumber(0) != 0;
  if (llvm::any_of(conditions, [&](const Tensor &each) { return (each.getNumber(0) != 0) != first; })) {
    return op.emitOpError("has a condition that holds on some ranks only");
  }
  return first;
}

LogicalResult Interpreter::executeRepeat(nn::RepeatOp op, Values &values) {
  std::vector<RankTensors> carried, stacked;
  for (Value value : op.getCarried()) {
    carried.push_back(values.at(value));
  }
  for (Value result : op.getStackedResults()) {
    stacked.emplace_back(numRanks, Tensor(typeOf(result)));
  }
  FailureOr<bool> runs = holds(op, values);
  if (failed(runs)) {
    return failure();
  }
  for (int64_t iteration = 0; *runs && iteration < static_cast<int64_t>(op.getCount()); ++iteration) {
    const int64_t place = op.getPlace(iteration);
    std::vector<RankTensors> arguments = std::move(carried);
    for (auto [value, argument] : llvm::zip_equal(op.getSliced(), op.getSlicedArguments())) {
      RankTensors &rows = arguments.emplace_back(numRanks, Tensor(typeOf(argument)));
      for (auto [row, whole] : llvm::zip_equal(rows, values.at(value))) {
        copyRow(whole, place, row, 0, row.getNumElements());
      }
    }
    for (Value value : op.getCaptured()) {
      arguments.push_back(values.at(value));
    }
    FailureOr<std::vector<RankTensors>> yielded = runBlock(op.getBody().front(), std::move(arguments));
    if (failed(yielded)) {
      return failure();
    }
    const size_t carriedCount = op.getCarried().size();
    for (auto [whole, rows] : llvm::zip_equal(stacked, ArrayRef(*yielded).drop_front(carriedCount))) {
      for (auto [to, row] : llvm::zip_equal(whole, rows)) {
        copyRow(row, 0, to, place, row.getNumElements());
      }
    }
    yielded->resize(carriedCount);
    carried = std::move(*yielded);
  }
  std::move(stacked.begin(), stacked.end(), std::back_inserter(carried));
  for (auto [result, tensors] : llvm::zip_equal(op->getResults(), carried)) {
    values[result] = std::move(tensors);
  }
  return success();
}

FailureOr<std::vector<RankTensors>> Interpreter::executeSimple(Operation *op, const Values &values) {
  std::vector<std::vector<Tensor>> ranks(numRanks);
  for (Value operand : op->getOperands()) {
    const RankTensors &tensors = values.find(operand)->second;
    for (int64_t rank = 0; rank < numRanks; ++rank) {
      ranks[rank].reserve(op->getNumOperands());
      ranks[rank].push_back(tensors[rank]);
    }
  }
  if (auto computed = dyn_cast<ReferenceOpInterface>(op)) {
    RankTensors result;
    bool isSame = op->getNumOperands() == 0 && !observer; // on every rank
    for (int64_t rank = 0; rank < numRanks; ++rank) {
      result.push_back(rank > 0 && isSame ? result.front() : computed.evaluate(ranks[rank]));
      if (observer) {
        observer(op, ranks[rank], result.back());
      }
    }
    return std::vector<RankTensors>{std::move(result)};
  }
  if (CollectiveSemantics semantics = findCollective(op)) {
    dist::MeshOp mesh = dist::findMesh(module);
    if (!mesh || mesh.getMesh().numDevices() != numRanks) {
      return op->emitOpError("runs on a mesh of ") << (mesh ? mesh.getMesh().numDevices() : 0) << " devices but the interpreter simulates "
                                                   << numRanks << " ranks; set ranks to the size of the mesh";
    }
    std::vector<RankTensors> results;
    for (unsigned number = 0; number < op->getNumResults(); ++number) {
      results.push_back(semantics(op, number, ranks));
    }
    return results;
  }
  return op->emitOpError("has no reference semantics");
}

} // namespace ashlar::reference
