// SPDX-License-Identifier: Apache-2.0
//
// One walk over a module that numbers its tensors, values and ops.

#include "passes/layout/inference/layout_problem.h"

#include "dialects/nn/scratch_state.h"
#include "dialects/support/tensor_values.h"
#include "passes/layout/inference/given_attributes.h"
#include "passes/layout/inference/given_layout.h"

#include <unordered_map>

using namespace mlir;

namespace ashlar::layout {

OpRule::OpRule(ShardingRule rule) : ShardingRule(std::move(rule)), tensors(operands) {
  llvm::append_range(tensors, results);
  const bool reduces = llvm::any_of(factors, [](const Factor &factor) { return factor.kind == FactorKind::Reduction; });
  for (size_t factor = 0; factor < factors.size(); ++factor) {
    isBasic.push_back(!reduces &&
                      llvm::all_of(tensors, [&](const TensorFactors &dims) { return dims.empty() || holdsFactor(dims, factor); }));
  }
  isPointwise = llvm::all_equal(tensors);
}

class ProblemBuilder {
public:
  explicit ProblemBuilder(MeshAttr mesh, bool isDecided = false) : problem(mesh), isDecided(isDecided) {}

  LogicalResult addModule(ModuleOp module) {
    for (auto variable : module.getOps<nn::VariableOp>()) {
      FailureOr<unsigned> tensor = addTensor(variable, "variable @" + variable.getSymName(), variable.getTensorType(),
                                             readGiven(variable->getDiscardableAttrDictionary()));
      if (failed(tensor)) {
        return failure();
      }
      problem.variables.emplace_back(variable, *tensor);
      variables[variable.getSymNameAttr()] = *tensor;
    }
    size_t numOps = 0;
    for (auto function : module.getOps<func::FuncOp>()) {
      numOps += function.front().getOperations().size();
    }
    problem.ops.reserve(numOps); // what grows is copied: moving small vectors may throw
    problem.values.reserve(numOps);
    problem.tensors.reserve(problem.variables.size() + numOps);
    for (auto function : module.getOps<func::FuncOp>()) {
      unsigned first = problem.ops.size();
      if (failed(addProgram(function))) {
        return failure();
      }
      problem.programs.push_back({function, first, static_cast<unsigned>(problem.ops.size())});
    }
    return success();
  }

  void addOps(ArrayRef<Operation *> ops) {
    for (Operation *op : ops) {
      for (Value operand : op->getOperands()) {
        if (!problem.valueNumbers.contains(operand)) {
          addValue(operand, addTensor(typeOf(operand)), std::nullopt);
        }
      }
      ProblemOp &row = addOp(*op);
      row.taken.resize(row.operands.size());
      for (Value result : op->getResults()) { // which an op before this one may have taken: groups are in no order
        auto known = problem.valueNumbers.find(result);
        unsigned value = known != problem.valueNumbers.end() ? known->second : addValue(result, addTensor(typeOf(result)), std::nullopt);
        problem.values[value].maker = problem.ops.size() - 1;
        row.results.push_back(value);
      }
    }
  }

  LayoutProblem problem;

private:
  unsigned addTensor(RankedTensorType type, std::optional<GivenLayout> given = std::nullopt) {
    problem.tensors.push_back({type, std::move(given)});
    return problem.tensors.size() - 1;
  }

  // Adds a tensor with what is given of it. Errors start with `what`.
  FailureOr<unsigned> addTensor(Operation *op, const Twine &what, RankedTensorType type, const GivenAttributes &attributes) {
    if (!attributes.layout) {
      return addTensor(type);
    }
    GivenLayout given{attributes.layout.getLayout(), SmallVector<bool>(type.getRank(), false), attributes.priority, attributes.origin};
    Layout split = given.layout;
    bool mayBePartial = op->hasAttr(dist::kExplicitAttr) ||
                        (isDecided && !isa<func::FuncOp>(op) && (!isa<nn::VariableOp>(op) || op->hasAttr(nn::kScratchAttr)));
    if (mayBePartial) {
      split.partial.clear(); // a redistribution, or the model itself, combines the parts
    }
    if (failed(checkGivenLayout(op, what, problem.mesh, type, split))) {
      return failure();
    }
    for (int64_t dim : attributes.open ? attributes.open.asArrayRef() : ArrayRef<int64_t>()) {
      if (dim < 0 || dim >= type.getRank()) {
        return op->emitError() << what << " of type " << type << " has an open dim " << dim;
      }
      given.open[dim] = true;
    }
    return addTensor(type, std::move(given));
  }

  unsigned addValue(Value value, unsigned tensor, std::optional<unsigned> maker) {
    problem.values.push_back({value, tensor, maker});
    return problem.valueNumbers[value] = problem.values.size() - 1;
  }

  ProblemOp &addOp(Operation &op) {
    ProblemOp &row = problem.ops.emplace_back();
    row.op = &op;
    const Kind &kind = kindOf(op);
    row.rule = kind.rule;
    row.attributes = kind.attributes;
    llvm::append_range(row.operands, llvm::map_range(op.getOperands(), [&](Value operand) { return problem.find(operand); }));
    return row;
  }

  // What ops of one kind with equal attributes, but those of layouts, and types share.
  struct Kind {
    DictionaryAttr attributes;
    std::shared_ptr<const OpRule> rule;
  };

  // Ops that have one kind are equal; `others` are the discardable attributes that count, names and values, and the types.
  struct KindKey {
    Operation *op;
    SmallVector<const void *, 12> others;

    bool operator==(const KindKey &other) const {
      return op->getName() == other.op->getName() && others == other.others &&
             op->getName().compareOpProperties(op->getPropertiesStorage(), other.op->getPropertiesStorage());
    }
  };
  struct KindHash {
    size_t operator()(const KindKey &key) const {
      return llvm::hash_combine(key.op->getName(), key.op->hashProperties(), llvm::hash_combine_range(key.others));
    }
  };

  const Kind &kindOf(Operation &op) {
    constexpr StringLiteral kOfLayouts[] = {dist::kLayoutsAttr, dist::kOperandLayoutsAttr, dist::kOriginsAttr, dist::kExplicitAttr,
                                            dist::kSuggestedAttr};
    auto counts = [&](NamedAttribute attribute) { return !llvm::is_contained(kOfLayouts, attribute.getName().getValue()); };
    KindKey key{&op, {}};
    for (NamedAttribute attribute : llvm::make_filter_range(op.getDiscardableAttrs(), counts)) {
      key.others.append({attribute.getName().getAsOpaquePointer(), attribute.getValue().getAsOpaquePointer()});
    }
    for (Type type : llvm::concat<const Type>(op.getOperandTypes(), op.getResultTypes())) {
      key.others.push_back(type.getAsOpaquePointer());
    }
    auto [found, isNew] = kinds.try_emplace(std::move(key));
    Kind &kind = found->second;
    if (isNew) {
      NamedAttrList attributes;
      op.getName().populateInherentAttrs(&op, attributes);
      llvm::for_each(llvm::make_filter_range(op.getDiscardableAttrs(), counts), [&](NamedAttribute each) { attributes.push_back(each); });
      auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
      kind = {attributes.getDictionary(op.getContext()), ruled ? std::make_shared<OpRule>(ruled.getShardingRule()) : nullptr};
    }
    return kind;
  }

  LogicalResult addProgram(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      std::string what = nameArgument(function, index);
      if (!isa<RankedTensorType>(argument.getType())) {
        return function.emitError() << what << " has type " << argument.getType() << ", which is no ranked tensor";
      }
      FailureOr<unsigned> tensor = addNamed(function, what, typeOf(argument), function.getArgAttrDict(index), inputs);
      if (failed(tensor)) {
        return failure();
      }
      addValue(argument, *tensor, std::nullopt);
    }
    const nn::LoopNest nest(function.front());
    for (Operation &op : function.front()) {
      Value carried = nn::findCarried(&op);
      if (failed(carried ? addCarried(op, carried) : addProgramOp(function, op))) {
        return failure();
      }
      ProblemOp &row = problem.ops.back();
      row.loops = nest.of(&op);
      row.runs = nest.countRuns(row.loops);
      for (unsigned result : row.results) {
        problem.values[result].runs = nest.countRuns(nest.of(problem.values[result].value));
      }
    }
    return success();
  }

  // Adds an op that begins or ends a carried value. All of these have one tensor; what is given of it stands at the first of them, or is
  // the layout that the model or a rule gives to the value behind the loop.
  LogicalResult addCarried(Operation &op, Value carried) {
    Value result = op.getResult(0);
    FailureOr<unsigned> tensor = failure();
    if (result != carried) {
      tensor = problem.values[problem.find(carried)].tensor;
    } else {
      auto last = dyn_cast_or_null<OpResult>(nn::findLast(carried));
      GivenAttributes given = readGiven(cast<OpResult>(carried));
      given = given.layout || !last ? given : readGiven(last);
      tensor = addTensor(&op, "carried value", typeOf(carried), given);
    }
    if (failed(tensor)) {
      return failure();
    }
    ProblemOp &row = addOp(op);
    row.taken.resize(op.getNumOperands());
    row.taken.front() = row.carried = *tensor;
    row.results.push_back(addValue(result, *tensor, problem.ops.size() - 1));
    return success();
  }

  LogicalResult addProgramOp(func::FuncOp function, Operation &op) {
    SmallVector<std::optional<unsigned>, 3> taken;
    if (!isa<nn::WriteOp, func::ReturnOp>(op) && !op.getDiscardableAttr(dist::kOperandLayoutsAttr)) {
      taken.resize(op.getNumOperands());
    }
    for (OpOperand &operand : op.getOpOperands().drop_front(taken.size())) {
      FailureOr<std::optional<unsigned>> tensor = findTaken(function, operand);
      if (failed(tensor)) {
        return failure();
      }
      taken.push_back(*tensor);
    }
    ProblemOp &row = addOp(op);
    unsigned number = problem.ops.size() - 1;
    row.taken = std::move(taken);
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      row.variable = variables.at(read.getVariableAttr().getAttr());
      if (!isUsedOtherwise(read, problem.tensors[*row.variable])) {
        row.results.push_back(addValue(read, *row.variable, number));
        return success();
      }
    }
    for (OpResult result : op.getResults()) {
      FailureOr<unsigned> tensor = addTensor(&op, "result " + Twine(result.getResultNumber()), typeOf(result), readGiven(result));
      if (failed(tensor)) {
        return failure();
      }
      row.results.push_back(addValue(result, *tensor, number));
    }
    if (auto suggested = op.getAttrOfType<dist::LayoutAttr>(dist::kSuggestedAttr)) {
      problem.tensors[problem.values[row.results.front()].tensor].suggested = suggested;
    }
    return success();
  }

  // Returns whether a read is to be used in another layout than that of its variable: it is gathered first.
  bool isUsedOtherwise(nn::ReadOp read, const ProblemTensor &variable) const {
    dist::LayoutAttr used = dist::findLayout(read);
    return used && variable.given && used.getLayout() != variable.given->layout;
  }

  // Returns the tensor whose layout an operand must have, if there is one.
  FailureOr<std::optional<unsigned>> findTaken(func::FuncOp function, OpOperand &operand) {
    Operation *op = operand.getOwner();
    unsigned index = operand.getOperandNumber();
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      return std::optional(variables.at(write.getVariableAttr().getAttr()));
    }
    FailureOr<unsigned> tensor = failure();
    if (isa<func::ReturnOp>(op)) {
      tensor = addNamed(function, "result " + Twine(index) + " of @" + function.getName(), typeOf(operand.get()),
                        function.getResultAttrDict(index), outputs);
    } else if (GivenAttributes given = readGiven(operand); given.layout) {
      tensor = addTensor(op, "operand " + Twine(index), typeOf(operand.get()), given);
    } else {
      return std::optional<unsigned>();
    }
    return failed(tensor) ? FailureOr<std::optional<unsigned>>(failure()) : std::optional(*tensor);
  }

  // Adds the tensor of an argument or result, or returns that of the one of the same name and type in another program: programs share
  // their inputs and outputs.
  FailureOr<unsigned> addNamed(func::FuncOp function, const Twine &what, RankedTensorType type, DictionaryAttr attributes,
                               DenseMap<std::pair<Attribute, Type>, unsigned> &named) {
    GivenAttributes given = readGiven(attributes);
    auto name = attributes ? attributes.getAs<StringAttr>(nn::kNameAttr) : StringAttr();
    if (auto found = named.find({name, type}); name && found != named.end()) {
      const std::optional<GivenLayout> &other = problem.tensors[found->second].given;
      Layout known = other ? dist::withoutUnitAxes(problem.mesh, other->layout) : Layout::replicated(type.getRank());
      if (given.layout && dist::withoutUnitAxes(problem.mesh, given.layout.getLayout()) != known) {
        return function.emitError() << what << " has layout " << given.layout.getLayout().toString() << " but another program has it with "
                                    << known.toString();
      }
      return found->second;
    }
    FailureOr<unsigned> tensor = addTensor(function, what, type, given);
    if (succeeded(tensor) && name) {
      named[{name, type}] = *tensor;
    }
    return tensor;
  }

  bool isDecided;
  std::unordered_map<KindKey, Kind, KindHash> kinds;
  DenseMap<StringAttr, unsigned> variables;                       // tensors, by name
  DenseMap<std::pair<Attribute, Type>, unsigned> inputs, outputs; // by name and type
};

FailureOr<LayoutProblem> LayoutProblem::create(ModuleOp module, MeshAttr mesh, bool isDecided) {
  ProblemBuilder builder(mesh, isDecided);
  if (failed(builder.addModule(module))) {
    return failure();
  }
  return std::move(builder.problem);
}

LayoutProblem LayoutProblem::createFor(ArrayRef<Operation *> ops, MeshAttr mesh) {
  ProblemBuilder builder(mesh);
  builder.addOps(ops);
  return std::move(builder.problem);
}

} // namespace ashlar::layout
