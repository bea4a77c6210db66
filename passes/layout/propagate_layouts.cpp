// SPDX-License-Identifier: Apache-2.0
//
// ashlar-propagate-layouts: states a module as an inference problem and writes the solution back.

#include "dialects/nn/nn.h"
#include "passes/layout/copy_sources.h"
#include "passes/layout/expand_split_ops.h"
#include "passes/layout/given_attributes.h"
#include "passes/layout/given_layout.h"
#include "passes/layout/inference.h"
#include "passes/layout/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_PROPAGATELAYOUTSPASS
#include "passes/layout/passes.h.inc"

namespace {

// Builds the inference problem of a module and writes its solution back.
class ModuleLayouts {
public:
  ModuleLayouts(ModuleOp module, MeshAttr mesh, bool splitVariables)
      : module(module), mesh(mesh), inference(mesh), splitVariables(splitVariables) {}

  LogicalResult run() {
    for (auto variable : module.getOps<nn::VariableOp>()) {
      if (failed(addVariable(variable))) {
        return failure();
      }
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      if (failed(addFunction(function))) {
        return failure();
      }
    }
    inference.run();
    write();
    return success();
  }

private:
  // Adds a node. Errors start with `what`.
  FailureOr<unsigned> addNode(Operation *op, const Twine &what, RankedTensorType type, const GivenAttributes &attributes) {
    std::optional<GivenLayout> given;
    if (attributes.layout) {
      given = GivenLayout{attributes.layout.getLayout(), SmallVector<bool>(type.getRank(), false), attributes.priority};
      Layout split = given->layout;
      if (op->hasAttr(dist::kExplicitAttr)) {
        split.partial.clear(); // the model itself combines the parts
      }
      if (failed(checkGivenLayout(op, what, mesh, type, split))) {
        return failure();
      }
      for (int64_t dim : attributes.open ? attributes.open.asArrayRef() : ArrayRef<int64_t>()) {
        if (dim < 0 || dim >= type.getRank()) {
          return op->emitError() << what << " of type " << type << " has an open dim " << dim;
        }
        given->open[dim] = true;
      }
    }
    unsigned node = inference.addNode(type.getRank(), given);
    if (attributes.origin && !attributes.origin.empty()) {
      origins[node] = attributes.origin;
    }
    return node;
  }

  LogicalResult addVariable(nn::VariableOp variable) {
    RankedTensorType type = variable.getTensorType();
    GivenAttributes given = readGiven(variable->getDiscardableAttrDictionary());
    if (!given.layout && !splitVariables) {
      given.layout = dist::LayoutAttr::get(module.getContext(), Layout::replicated(type.getRank()));
    }
    FailureOr<unsigned> node = addNode(variable, "variable @" + variable.getSymName(), type, given);
    if (failed(node)) {
      return failure();
    }
    variables[variable.getSymNameAttr()] = *node;
    return success();
  }

  LogicalResult addFunction(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      std::string what = nameArgument(function, index);
      if (!isa<RankedTensorType>(argument.getType())) {
        return function.emitError() << what << " has type " << argument.getType() << ", which is no ranked tensor";
      }
      FailureOr<unsigned> node = addNamed(function, what, argument.getType(), function.getArgAttrDict(index), inputs);
      if (failed(node)) {
        return failure();
      }
      values[argument] = *node;
    }
    for (Operation &op : function.front()) {
      if (failed(addOp(op))) {
        return failure();
      }
    }
    return success();
  }

  // Adds the node of an argument or result, or returns that of the one of the same name and type in another function: programs share
  // their inputs and outputs.
  FailureOr<unsigned> addNamed(func::FuncOp function, const Twine &what, Type type, DictionaryAttr attributes,
                               DenseMap<std::pair<Attribute, Type>, unsigned> &named) {
    GivenAttributes given = readGiven(attributes);
    auto name = attributes ? attributes.getAs<StringAttr>(nn::kNameAttr) : StringAttr();
    if (auto found = named.find({name, type}); name && found != named.end()) {
      if (given.layout && dist::withoutUnitAxes(mesh, given.layout.getLayout()) != inference.getLayout(found->second)) {
        return function.emitError() << what << " has layout " << given.layout.getLayout().toString() << " but another program has it with "
                                    << inference.getLayout(found->second).toString();
      }
      return found->second;
    }
    FailureOr<unsigned> node = addNode(function, what, cast<RankedTensorType>(type), given);
    if (succeeded(node) && name) {
      named[{name, type}] = *node;
    }
    return node;
  }

  LogicalResult addOp(Operation &op) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      values[read] = variables.at(read.getVariableAttr().getAttr());
      return success();
    }
    if (auto write = dyn_cast<nn::WriteOp>(op)) {
      addIdentity(op, write.getValue(), variables.at(write.getVariableAttr().getAttr()));
      return success();
    }
    if (auto end = dyn_cast<func::ReturnOp>(op)) {
      return addReturn(end);
    }
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    bool isPlaced = isa<dist::RedistributeOp>(op) && op.hasAttr(dist::kExplicitAttr); // goes between layouts that are given
    if (!ruled && !isPlaced) {
      return op.emitOpError("has no sharding rule, so its layouts cannot be inferred");
    }
    SmallVector<unsigned> operands, results;
    for (OpOperand &operand : op.getOpOperands()) {
      FailureOr<unsigned> node = addOperand(operand);
      if (failed(node)) {
        return failure();
      }
      operands.push_back(*node);
    }
    for (OpResult result : op.getResults()) {
      FailureOr<unsigned> node =
          addNode(&op, "result " + Twine(result.getResultNumber()), cast<RankedTensorType>(result.getType()), readGiven(result));
      if (failed(node)) {
        return failure();
      }
      results.push_back(values[result] = *node);
    }
    if (ruled) {
      addRow(op, ruled.getShardingRule(), operands, results);
    }
    return success();
  }

  // Returns the node of an operand: that of its value, or one of its own when the op is told how to take it.
  FailureOr<unsigned> addOperand(OpOperand &operand) {
    GivenAttributes given = readGiven(operand);
    if (!given.layout) {
      return values.at(operand.get());
    }
    FailureOr<unsigned> node =
        addNode(operand.getOwner(), "operand " + Twine(operand.getOperandNumber()), cast<RankedTensorType>(operand.get().getType()), given);
    if (succeeded(node)) {
      addIdentity(*operand.getOwner(), operand.get(), *node);
    }
    return node;
  }

  void addRow(Operation &op, ShardingRule rule, ArrayRef<unsigned> operands, ArrayRef<unsigned> results) {
    inference.addRow(std::move(rule), operands, results);
    rowOps.push_back(&op);
  }

  // A value that leaves through another node takes its layout, and gives it.
  void addIdentity(Operation &op, Value value, unsigned node) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    addRow(op, ShardingRule::elementwise(shape, /*numOperands=*/1), values.at(value), node);
  }

  // Results without a given layout keep that of the value.
  LogicalResult addReturn(func::ReturnOp end) {
    auto function = cast<func::FuncOp>(end->getParentOp());
    for (OpOperand &operand : end->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      FailureOr<unsigned> node = addNamed(function, "result " + Twine(index) + " of @" + function.getName(), operand.get().getType(),
                                          function.getResultAttrDict(index), outputs);
      if (failed(node)) {
        return failure();
      }
      addIdentity(*end, operand.get(), *node);
      results.push_back({function, index, *node});
    }
    return success();
  }

  // Returns where `axis` of a node's layout came from, by what is known of the node that was given it; null when nothing is.
  dist::OriginAttr findOrigin(const AxisOrigin &axis) {
    for (auto given : origins.lookup(axis.source).getAsRange<dist::OriginAttr>()) {
      if (given.getAxis() && given.getAxis() != axis.axis) {
        continue;
      }
      StringAttr path = given.getPath(), kind = given.getOp();
      if (axis.row) {
        Operation *op = rowOps[*axis.row];
        StringRef name = nn::getPath(op->getLoc());
        path = name.empty() ? StringAttr() : StringAttr::get(module.getContext(), name);
        kind = op->getName().getIdentifier();
      }
      return dist::OriginAttr::get(module.getContext(), given.getSource(), axis.axis, path, kind);
    }
    return {};
  }

  // Returns where the layout of a node came from, axis by axis: one origin without an axis where all came from one place. Empty when
  // nothing is known, or to say.
  ArrayAttr makeOrigin(unsigned node) {
    MLIRContext *context = module.getContext();
    SmallVector<Attribute> known, places;
    for (const AxisOrigin &axis : inference.getOrigins(node)) {
      if (dist::OriginAttr origin = origins.contains(axis.source) ? findOrigin(axis) : dist::OriginAttr()) {
        known.push_back(origin);
        places.push_back(dist::OriginAttr::get(context, origin.getSource(), {}, origin.getPath(), origin.getOp()));
      }
    }
    bool isOnePlace = !places.empty() && llvm::all_equal(places) && places.size() == inference.getOrigins(node).size();
    return ArrayAttr::get(context, isOnePlace ? ArrayRef(places).take_front() : ArrayRef(known));
  }

  // Appends the layout of a node, and its origin when there is one, to the attributes of a variable, argument or result.
  DictionaryAttr describe(DictionaryAttr attributes, unsigned node) {
    NamedAttrList list(attributes);
    list.erase(dist::kOpenAttr);
    list.erase(dist::kPriorityAttr);
    list.erase(dist::kOriginAttr);
    list.set(dist::kLayoutAttr, dist::LayoutAttr::get(module.getContext(), inference.getLayout(node)));
    if (ArrayAttr origin = makeOrigin(node); !origin.empty()) {
      list.set(dist::kOriginAttr, origin);
    }
    return list.getDictionary(module.getContext());
  }

  void write() {
    for (auto variable : module.getOps<nn::VariableOp>()) {
      variable->setDiscardableAttrs(describe(variable->getDiscardableAttrDictionary(), variables.at(variable.getSymNameAttr())));
    }
    for (auto &[function, index, node] : results) {
      function.setResultAttrs(index, describe(function.getResultAttrDict(index), node));
    }
    for (auto function : module.getOps<func::FuncOp>()) {
      for (BlockArgument argument : function.getArguments()) {
        unsigned index = argument.getArgNumber();
        function.setArgAttrs(index, describe(function.getArgAttrDict(index), values.at(argument)));
      }
      for (Operation &op : function.front()) {
        writeOp(op);
      }
    }
  }

  void writeOp(Operation &op) {
    removeGiven(&op);
    if (op.getNumResults() == 0) {
      return;
    }
    SmallVector<Attribute> layouts, made;
    bool isKnown = false;
    for (Value result : op.getResults()) {
      unsigned node = values.at(result);
      layouts.push_back(dist::LayoutAttr::get(op.getContext(), inference.getLayout(node)));
      ArrayAttr origin = makeOrigin(node);
      isKnown |= !origin.empty();
      made.push_back(origin);
    }
    op.setAttr(dist::kLayoutsAttr, ArrayAttr::get(op.getContext(), layouts));
    if (isKnown) {
      op.setAttr(dist::kOriginsAttr, ArrayAttr::get(op.getContext(), made));
    }
  }

  struct Result {
    func::FuncOp function;
    unsigned index, node;
  };

  ModuleOp module;
  MeshAttr mesh;
  Inference inference;
  bool splitVariables;
  DenseMap<StringAttr, unsigned> variables;
  DenseMap<Value, unsigned> values;
  DenseMap<std::pair<Attribute, Type>, unsigned> inputs, outputs; // by name and type
  SmallVector<Result> results;
  DenseMap<unsigned, ArrayAttr> origins; // of nodes with a given layout
  SmallVector<Operation *> rowOps;       // the op of each row
};

struct PropagateLayouts : impl::PropagateLayoutsPassBase<PropagateLayouts> {
  using PropagateLayoutsPassBase::PropagateLayoutsPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh) {
      return signalPassFailure();
    }
    do {
      llvm::for_each(getOperation().getOps<func::FuncOp>(), copySources);
      if (failed(ModuleLayouts(getOperation(), mesh, splitVariables).run())) {
        return signalPassFailure();
      }
      // All that has a layout by now is given in the next round.
    } while (expandSplitOps(getOperation(), mesh));
  }
};

} // namespace

} // namespace ashlar::layout
