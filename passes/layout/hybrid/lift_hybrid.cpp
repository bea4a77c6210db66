// SPDX-License-Identifier: Apache-2.0
//
// ashlar-lift-hybrid: a local program becomes the global one that is partitioned into it.

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"
#include "passes/layout/hybrid/local_layouts.h"
#include "passes/layout/inference/copy_sources.h"
#include "passes/layout/inference/given_layout.h"
#include "passes/layout/passes.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::layout {

#define GEN_PASS_DEF_LIFTHYBRIDPASS
#include "passes/layout/passes.h.inc"

namespace {

// Returns the type of the whole tensor of a device's shard `local`.
RankedTensorType globalType(MeshAttr mesh, RankedTensorType local, const Layout &layout) {
  SmallVector<int64_t> shape(local.getShape());
  for (auto [size, axes] : llvm::zip_equal(shape, layout.dims)) {
    size *= mesh.groupSize(axes);
  }
  return local.clone(shape);
}

// Returns the layout of a variable or argument: replicated when none is given.
FailureOr<Layout> givenLayout(Operation *op, const Twine &what, const ProblemTensor &tensor) {
  if (!tensor.given) {
    return Layout::replicated(tensor.type.getRank());
  }
  if (llvm::is_contained(tensor.given->open, true)) {
    return op->emitError() << what
                           << " has open dims, but nothing infers the layouts of a model of mode HYBRID; take the ? out of its rule";
  }
  return tensor.given->layout;
}

// Rewrites one function whose layouts are known from local to global types.
class FunctionLift {
public:
  FunctionLift(func::FuncOp function, MeshAttr mesh, const LocalLayouts &layouts)
      : function(function), mesh(mesh), layouts(layouts), context(function.getContext()) {}

  LogicalResult run() {
    for (BlockArgument argument : function.getArguments()) {
      argument.setType(globalType(mesh, typeOf(argument), layouts.get(argument)));
    }
    for (Operation &op : llvm::make_early_inc_range(function.front().without_terminator())) {
      if (failed(checkGiven(&op)) || failed(lift(&op))) {
        return failure();
      }
    }
    return liftSignature();
  }

private:
  using LayoutAttr = dist::LayoutAttr;

  // Without axes of size 1, as in inference: collectives along them are no-ops.
  LayoutAttr layoutOf(Value value) { return LayoutAttr::get(context, dist::withoutUnitAxes(mesh, layouts.get(value))); }

  // Compares the results with their rule, in the dims that it fixes; then the rule is done.
  LogicalResult checkGiven(Operation *op) {
    auto given = op->getAttrOfType<ArrayAttr>(dist::kLayoutsAttr);
    auto opens = op->getAttrOfType<ArrayAttr>(dist::kOpensAttr);
    for (auto [index, result] : llvm::enumerate(op->getResults())) {
      if (!given) {
        break;
      }
      auto open = opens ? cast<DenseI64ArrayAttr>(opens[index]).asArrayRef() : ArrayRef<int64_t>();
      Layout expected = cast<LayoutAttr>(given[index]).getLayout(), computed = layouts.get(result);
      for (size_t d = 0; d < expected.dims.size(); ++d) {
        if (!llvm::is_contained(open, static_cast<int64_t>(d)) && expected.dims[d] != computed.dims[d]) {
          return op->emitOpError() << "has a result of layout " << computed.toString() << " but a rule gives it " << expected.toString()
                                   << "; change the rule, or the collectives before it";
        }
      }
    }
    for (StringRef name : {dist::kLayoutsAttr, dist::kOpensAttr, dist::kPrioritiesAttr, dist::kOriginsAttr, dist::kOperandLayoutsAttr}) {
      op->removeAttr(name);
    }
    return success();
  }

  LogicalResult lift(Operation *op) {
    if (isa<nn::ReadOp>(op)) {
      op->getResult(0).setType(globalType(mesh, typeOf(op->getResult(0)), layouts.get(op->getResult(0))));
      return success();
    }
    if (isa<dist::CollectiveOpInterface>(op) && !isa<dist::BroadcastOp>(op)) {
      liftCollective(op);
      return success();
    }
    if (auto broadcast = dyn_cast<dist::BroadcastOp>(op); broadcast && mesh.groupSize(dist::toAxisList(broadcast.getAxes())) == 1) {
      broadcast.replaceAllUsesWith(broadcast.getInput());
      broadcast.erase();
      return success();
    }
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](nn::ConstantOp constant) { return liftConstant(constant); })
        .Case([&](nn::IndexOp index) { return liftIndex(index); })
        .Default([&](Operation *other) { return liftInPlace(other); });
  }

  // A collective is the identity on the whole tensor: it changes the layout only.
  void liftCollective(Operation *op) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Value input = op->getOperand(0), result = op->getResult(0);
    LayoutAttr to = layoutOf(result);
    if (fromOf(input) == to) {
      result.replaceAllUsesWith(input);
      op->erase();
      return;
    }
    StringRef path = nn::getPath(op->getLoc());
    auto cause = path.empty() ? ArrayAttr() : b.getArrayAttr(dist::EndAttr::get(op->getContext(), dist::EndKind::Op, path));
    auto redistribute = dist::RedistributeOp::create(b, input.getType(), input, fromOf(input), to, cause);
    redistribute->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    lifted[redistribute] = to;
    place(redistribute, to);
    result.replaceAllUsesWith(redistribute);
    op->erase();
  }

  // Returns the layout of a value, which may be the result of a redistribution that stands for a collective.
  LayoutAttr fromOf(Value value) {
    LayoutAttr made = lifted.lookup(value);
    return made ? made : layoutOf(value);
  }

  // Fixes the op's computation to the model's: its operands come in these layouts, and its results have them.
  void place(Operation *op, ArrayRef<Attribute> results) {
    SmallVector<Attribute> operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) -> Attribute { return fromOf(operand); });
    op->setAttr(dist::kExplicitAttr, UnitAttr::get(context));
    op->setAttr(dist::kLayoutsAttr, ArrayAttr::get(context, results));
    op->setAttr(dist::kOperandLayoutsAttr, ArrayAttr::get(context, operands));
  }

  // Constants and indices are left to inference, like later passes' constants.
  LogicalResult liftConstant(nn::ConstantOp op) {
    RankedTensorType global = globalType(mesh, typeOf(op), layouts.get(op));
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (global != op.getType() && !(dense && dense.isSplat())) {
      return op.emitOpError() << "of type " << op.getType() << " holds the elements of one device but is used as a piece of " << global
                              << "; make it a parameter of the model, or gather the other operand";
    }
    if (global != op.getType()) {
      op.setValueAttr(dense.resizeSplat(global));
      op.getResult().setType(global);
    }
    return success();
  }

  // Keys of random numbers count in the whole tensor. Other indices are places in the shard, not in the tensor.
  LogicalResult liftIndex(nn::IndexOp op) {
    ArrayRef<int64_t> local = op.getType().getShape(), strides = op.getStrides();
    Layout layout = layouts.get(op);
    RankedTensorType global = globalType(mesh, op.getType(), layout);
    bool isKey = llvm::all_of(op->getUsers(), [](Operation *user) { return isa<nn::RandomOp>(user); });
    if (isKey && strides == ArrayRef<int64_t>(rowMajorStrides(local))) {
      op.setStrides(rowMajorStrides(global.getShape()));
    } else {
      for (auto [d, axes] : llvm::enumerate(layout.dims)) {
        if (mesh.groupSize(axes) > 1 && strides[d] != 0) {
          return op.emitOpError() << "counts along dim " << d << ", which is split over " << layout.toString()
                                  << ", so it would count on from device to device; gather the dim first";
        }
      }
    }
    op.getResult().setType(global);
    return success();
  }

  LogicalResult liftInPlace(Operation *op) {
    SmallVector<Attribute> results;
    for (Value result : op->getResults()) {
      results.push_back(layoutOf(result));
      result.setType(globalType(mesh, typeOf(result), layouts.get(result)));
    }
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      // A dim that is split is not cut: it ends where the tensor ends.
      SmallVector<int64_t> limits(slice.getLimits());
      for (auto [d, axes] : llvm::enumerate(layouts.get(slice).dims)) {
        limits[d] = axes.empty() ? limits[d] : typeOf(slice).getDimSize(d);
      }
      slice.setLimits(limits);
    }
    place(op, results);
    return success();
  }

  LogicalResult liftSignature() {
    SmallVector<Type> results;
    for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
      LayoutAttr layout = fromOf(value);
      auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
      std::string what = "output " + (name ? "\"" + name.str() + "\"" : std::to_string(i)) + " of @" + function.getName().str();
      if (layout.getLayout().isPartial()) {
        return function.emitError() << what << " has layout " << layout.getLayout().toString()
                                    << ", which is still to be combined; put an AllReduce before it";
      }
      auto given = function.getResultAttrOfType<LayoutAttr>(i, dist::kLayoutAttr);
      if (given && given != layout) {
        return function.emitError() << what << " has layout " << layout.getLayout().toString() << " but a rule gives it "
                                    << given.getLayout().toString() << "; change the rule, or put a collective before it";
      }
      function.setResultAttr(i, dist::kLayoutAttr, layout);
      results.push_back(value.getType());
    }
    function.setType(FunctionType::get(context, function.getBody().getArgumentTypes(), results));
    return success();
  }

  func::FuncOp function;
  MeshAttr mesh;
  const LocalLayouts &layouts;
  MLIRContext *context;
  DenseMap<Value, LayoutAttr> lifted; // results of redistributions
};

// Lifts the variables and functions of a module.
class ModuleLift {
public:
  ModuleLift(ModuleOp module, MeshAttr mesh) : module(module), mesh(mesh) {}

  LogicalResult run() {
    llvm::for_each(module.getOps<func::FuncOp>(), copySources);
    FailureOr<LayoutProblem> problem = LayoutProblem::create(module, mesh); // on local shapes
    if (failed(problem)) {
      return failure();
    }
    for (auto [variable, tensor] : problem->variables) {
      if (failed(liftVariable(variable, problem->tensors[tensor]))) {
        return failure();
      }
    }
    for (const ProblemProgram &program : problem->programs) {
      LocalLayouts layouts(*problem, program);
      if (failed(liftArguments(*problem, program.function)) || failed(layouts.run()) ||
          failed(FunctionLift(program.function, mesh, layouts).run())) {
        return failure();
      }
    }
    return success();
  }

private:
  LogicalResult liftVariable(nn::VariableOp variable, const ProblemTensor &tensor) {
    RankedTensorType local = variable.getTensorType();
    std::string what = "variable @" + variable.getSymName().str();
    FailureOr<Layout> layout = givenLayout(variable, what, tensor);
    if (failed(layout)) {
      return failure();
    }
    RankedTensorType global = globalType(mesh, local, *layout);
    auto data = dyn_cast_or_null<ElementsAttr>(variable.getInitAttr());
    if (data && global != local) {
      auto dense = dyn_cast<DenseElementsAttr>(data);
      if (!dense || !dense.isSplat()) {
        return variable.emitError() << what << " has layout " << layout->toString() << " but the model holds data for one device only, "
                                    << local << " of " << global << "; give it an init in the job";
      }
      variable.setInitAttr(dense.resizeSplat(global));
    }
    variable.setType(global);
    variable->setAttr(dist::kLayoutAttr, dist::LayoutAttr::get(variable.getContext(), *layout));
    return success();
  }

  LogicalResult liftArguments(const LayoutProblem &problem, func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      const ProblemTensor &tensor = problem.tensors[problem.values[problem.find(argument)].tensor];
      FailureOr<Layout> layout = givenLayout(function, nameArgument(function, i), tensor);
      if (failed(layout)) {
        return failure();
      }
      function.setArgAttr(i, dist::kLayoutAttr, dist::LayoutAttr::get(function.getContext(), *layout));
    }
    return success();
  }

  ModuleOp module;
  MeshAttr mesh;
};

struct LiftHybrid : impl::LiftHybridPassBase<LiftHybrid> {
  using LiftHybridPassBase::LiftHybridPassBase;

  void runOnOperation() override {
    MeshAttr mesh = requirePrograms(getOperation());
    if (!mesh || failed(ModuleLift(getOperation(), mesh).run())) {
      signalPassFailure();
    }
  }
};

} // namespace

} // namespace ashlar::layout
