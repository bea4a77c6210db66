// SPDX-License-Identifier: Apache-2.0
//
// Scattering, gathering and comparing; see equivalence.h.

#include "compiler/reference/equivalence.h"

#include "dialects/dist/owners.h"
#include "dialects/nn/nn.h"

#include <algorithm>
#include <optional>

using namespace mlir;

namespace ashlar::reference {

namespace {

// Where an argument, a result or a variable lives: nothing when every rank holds the whole of it.
struct Placement {
  RankedTensorType globalType;
  std::optional<dist::Layout> layout;
  std::optional<int64_t> owner = std::nullopt; // the one device that has it
};

Placement placementOf(Type type, Attribute layout, Attribute globalType) {
  if (auto global = dyn_cast_or_null<TypeAttr>(globalType)) {
    return {cast<RankedTensorType>(global.getValue()), cast<dist::LayoutAttr>(layout).getLayout()};
  }
  return {cast<RankedTensorType>(type), std::nullopt};
}

Placement argumentPlacement(func::FuncOp function, unsigned i) {
  return placementOf(function.getArgumentTypes()[i], function.getArgAttr(i, dist::kLayoutAttr),
                     function.getArgAttr(i, dist::kGlobalTypeAttr));
}

Placement resultPlacement(func::FuncOp function, unsigned i) {
  return placementOf(function.getResultTypes()[i], function.getResultAttr(i, dist::kLayoutAttr),
                     function.getResultAttr(i, dist::kGlobalTypeAttr));
}

Placement variablePlacement(nn::VariableOp variable) {
  Placement placement =
      placementOf(variable.getTensorType(), variable->getAttr(dist::kLayoutAttr), variable->getAttr(dist::kGlobalTypeAttr));
  placement.owner = dist::getOwner(variable);
  return placement;
}

dist::MeshAttr meshOf(Interpreter &interpreter) {
  return dist::findMesh(interpreter.getModule()).getMesh();
}

// The part of a global tensor that a device holds: where its piece begins, and how much of the piece is no padding.
struct Region {
  Index origin, size;
};

Region regionOf(const dist::Layout &layout, dist::MeshAttr mesh, ArrayRef<int64_t> globalShape, int64_t device) {
  Region region;
  for (auto [axes, size] : llvm::zip_equal(layout.dims, globalShape)) {
    dist::Range range = dist::pieceRange(mesh, size, axes, device);
    region.origin.push_back(range.start);
    region.size.push_back(range.size);
  }
  return region;
}

Index sumOf(ArrayRef<int64_t> x, ArrayRef<int64_t> y) {
  Index sum;
  for (auto [a, b] : llvm::zip_equal(x, y)) {
    sum.push_back(a + b);
  }
  return sum;
}

RankTensors toRanks(Interpreter &interpreter, const Placement &placement, const Tensor &global) {
  return placement.layout ? scatter(global, *placement.layout, meshOf(interpreter)) : RankTensors(interpreter.getNumRanks(), global);
}

FailureOr<Tensor> fromRanks(Interpreter &interpreter, const Placement &placement, ArrayRef<Tensor> pieces) {
  if (placement.owner) { // it has all of it
    return pieces[*placement.owner];
  }
  if (placement.layout) {
    return gather(pieces, placement.globalType, *placement.layout, meshOf(interpreter));
  }
  for (const Tensor &piece : pieces) {
    if (maxDifference(pieces.front(), piece) != 0) {
      return failure();
    }
  }
  return pieces.front();
}

} // namespace

RankTensors scatter(const Tensor &global, const dist::Layout &layout, dist::MeshAttr mesh) {
  RankedTensorType localType = dist::localType(mesh, global.getType(), layout);
  const Tensor zero(RankedTensorType::get({}, localType.getElementType()));
  RankTensors pieces;
  for (int64_t device = 0; device < mesh.numDevices(); ++device) {
    Tensor piece(localType);
    bool isTerm = layout.isPartial() && layout.reduction == Reduction::Sum && mesh.axisIndex(device, layout.partial) != 0;
    spoil(piece);
    Region region = regionOf(layout, mesh, global.getType().getShape(), device);
    forEachIndex(region.size, [&](ArrayRef<int64_t> index, int64_t) {
      piece.copyElement(piece.linearize(index), isTerm ? zero : global, isTerm ? 0 : global.linearize(sumOf(region.origin, index)));
    });
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

FailureOr<Tensor> gather(ArrayRef<Tensor> pieces, RankedTensorType globalType, const dist::Layout &layout, dist::MeshAttr mesh) {
  Tensor global(globalType);
  // The combined pieces of one group over the partial axes fill their place; every later group that holds the same place must agree.
  std::vector<bool> filled(global.getNumElements(), false);
  Tensor combined(RankedTensorType::get({}, globalType.getElementType()));
  bool agree = true;
  for (ArrayRef<int64_t> group : mesh.groups(layout.partial)) {
    Region region = regionOf(layout, mesh, globalType.getShape(), group.front());
    forEachIndex(region.size, [&](ArrayRef<int64_t> index, int64_t) {
      int64_t i = pieces[group.front()].linearize(index);
      combined.copyElement(0, pieces[group.front()], i);
      for (int64_t device : group.drop_front()) {
        double x = combined.getNumber(0), y = pieces[device].getNumber(i);
        double value = layout.reduction == Reduction::Sum ? x + y : layout.reduction == Reduction::Max ? std::max(x, y) : std::min(x, y);
        if (combined.isFloat()) {
          combined.setFloat(0, value);
        } else {
          combined.setInt(0, static_cast<int64_t>(value));
        }
      }
      int64_t place = global.linearize(sumOf(region.origin, index));
      double before = global.getNumber(place), now = combined.getNumber(0);
      agree &= !filled[place] || before == now || (before != before && now != now);
      global.copyElement(place, combined, 0);
      filled[place] = true;
    });
  }
  if (!agree) {
    return failure();
  }
  return global;
}

Tensor randomTensor(RankedTensorType type, std::mt19937_64 &generator, int64_t intLimit) {
  Tensor tensor(type);
  int64_t limit = type.getElementType().isInteger(1) ? 2 : intLimit;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    uint64_t bits = generator();
    if (tensor.isFloat()) {
      tensor.setFloat(i, (bits >> 11) * 0x1p-52 - 1);
    } else {
      tensor.setInt(i, static_cast<int64_t>((bits >> 1) % limit));
    }
  }
  return tensor;
}

SmallVector<RankedTensorType> globalArgumentTypes(func::FuncOp function) {
  SmallVector<RankedTensorType> types;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    types.push_back(argumentPlacement(function, i).globalType);
  }
  return types;
}

RankTensors scatterArgument(Interpreter &interpreter, func::FuncOp function, unsigned i, const Tensor &global) {
  return toRanks(interpreter, argumentPlacement(function, i), global);
}

FailureOr<Tensor> gatherResult(Interpreter &interpreter, func::FuncOp function, unsigned i, ArrayRef<Tensor> pieces) {
  FailureOr<Tensor> global = fromRanks(interpreter, resultPlacement(function, i), pieces);
  if (failed(global)) {
    return function.emitError("result ") << i << " differs between ranks that should hold the same value";
  }
  return global;
}

FailureOr<std::vector<Tensor>> runGlobal(Interpreter &interpreter, StringRef name, ArrayRef<Tensor> inputs) {
  auto function = interpreter.getModule().lookupSymbol<func::FuncOp>(name);
  if (!function || function.getNumArguments() != inputs.size()) {
    return interpreter.getModule().emitError("no function @") << name << " with " << inputs.size() << " arguments to interpret";
  }
  std::vector<RankTensors> arguments;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    arguments.push_back(scatterArgument(interpreter, function, i, input));
  }
  FailureOr<std::vector<RankTensors>> results = interpreter.run(name, arguments);
  if (failed(results)) {
    return failure();
  }
  std::vector<Tensor> globals;
  for (auto [i, result] : llvm::enumerate(*results)) {
    FailureOr<Tensor> global = gatherResult(interpreter, function, i, result);
    if (failed(global)) {
      return failure();
    }
    globals.push_back(std::move(*global));
  }
  return globals;
}

void setGlobalVariable(Interpreter &interpreter, StringRef name, const Tensor &value) {
  auto variable = interpreter.getModule().lookupSymbol<nn::VariableOp>(name);
  interpreter.setVariable(name, toRanks(interpreter, variablePlacement(variable), value));
}

FailureOr<Tensor> getGlobalVariable(Interpreter &interpreter, StringRef name) {
  auto variable = interpreter.getModule().lookupSymbol<nn::VariableOp>(name);
  const RankTensors *pieces = interpreter.getVariable(name);
  if (!variable || !pieces) {
    return interpreter.getModule().emitError("variable @") << name << " has no value";
  }
  FailureOr<Tensor> global = fromRanks(interpreter, variablePlacement(variable), *pieces);
  if (failed(global)) {
    return variable.emitOpError("differs between ranks that should hold the same value");
  }
  return global;
}

// Drawn by the name, so that modules with other variables get the same numbers.
Tensor randomVariable(nn::VariableOp variable, const EquivalenceOptions &options) {
  std::mt19937_64 generator(options.seed ^ nn::streamOf(variable.getSymName()));
  return randomTensor(variablePlacement(variable).globalType, generator, options.intLimit);
}

namespace {

// Gives every variable without a value random numbers.
void fillVariables(Interpreter &interpreter, const EquivalenceOptions &options) {
  for (auto variable : interpreter.getModule().getOps<nn::VariableOp>()) {
    if (!interpreter.getVariable(variable.getSymName())) {
      setGlobalVariable(interpreter, variable.getSymName(), randomVariable(variable, options));
    }
  }
}

} // namespace

FailureOr<std::vector<std::vector<Tensor>>> randomInputs(ModuleOp module, const EquivalenceOptions &options) {
  std::mt19937_64 generator(options.seed);
  std::vector<std::vector<Tensor>> inputs;
  for (StringRef name : options.functions) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function) {
      return module.emitError("no function @") << name << " to compare";
    }
    std::vector<Tensor> &arguments = inputs.emplace_back();
    for (RankedTensorType type : globalArgumentTypes(function)) {
      arguments.push_back(randomTensor(type, generator, options.intLimit));
    }
  }
  return inputs;
}

FailureOr<ModuleRun> runModule(ModuleOp module, int64_t ranks, ArrayRef<std::vector<Tensor>> inputs, const EquivalenceOptions &options,
                               Observer observer) {
  Interpreter interpreter(module, ranks, std::move(observer));
  fillVariables(interpreter, options);
  ModuleRun run;
  for (auto [name, arguments] : llvm::zip_equal(options.functions, inputs)) {
    FailureOr<std::vector<Tensor>> results = runGlobal(interpreter, name, arguments);
    if (failed(results)) {
      return failure();
    }
    for (auto [i, result] : llvm::enumerate(*results)) {
      run.results.push_back({"@" + name + " " + std::to_string(i), std::move(result)});
    }
  }
  for (auto variable : module.getOps<nn::VariableOp>()) {
    FailureOr<Tensor> value = getGlobalVariable(interpreter, variable.getSymName());
    if (failed(value)) {
      return failure();
    }
    run.variables.push_back({("@" + variable.getSymName()).str(), std::move(*value)});
  }
  return run;
}

FailureOr<std::vector<std::pair<const NamedTensor *, const Tensor *>>> pairUp(ModuleOp module, const ModuleRun &before,
                                                                              const ModuleRun &after) {
  if (before.results.size() != after.results.size()) {
    return module.emitError("functions have ") << before.results.size() << " results before and " << after.results.size() << " after";
  }
  std::vector<std::pair<const NamedTensor *, const Tensor *>> pairs;
  for (auto [x, y] : llvm::zip_equal(before.results, after.results)) {
    pairs.emplace_back(&x, &y.value);
  }
  llvm::StringMap<const Tensor *> variables;
  for (const NamedTensor &variable : after.variables) {
    variables[variable.name] = &variable.value;
  }
  for (const NamedTensor &variable : before.variables) {
    if (const Tensor *value = variables.lookup(variable.name)) {
      pairs.emplace_back(&variable, value);
    }
  }
  return pairs;
}

FailureOr<double> compareModules(ModuleOp before, ModuleOp after, const EquivalenceOptions &options) {
  FailureOr<std::vector<std::vector<Tensor>>> inputs = randomInputs(before, options);
  if (failed(inputs)) {
    return failure();
  }
  FailureOr<ModuleRun> first = runModule(before, options.ranksBefore, *inputs, options);
  FailureOr<ModuleRun> second = runModule(after, options.ranksAfter, *inputs, options);
  if (failed(first) || failed(second)) {
    return failure();
  }
  auto pairs = pairUp(before, *first, *second);
  if (failed(pairs)) {
    return failure();
  }
  double largest = 0;
  for (auto [x, y] : *pairs) {
    largest = std::max(largest, maxDifference(x->value, *y));
  }
  return largest;
}

} // namespace ashlar::reference
