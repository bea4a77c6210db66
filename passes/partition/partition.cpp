// SPDX-License-Identifier: Apache-2.0
//
// ashlar-partition: from global shapes to one device's program. Only ops with numbers of elements in their attributes need care here; all
// others compute on pieces as they do on whole tensors, because their layouts are one split of their factors.

#include "dialects/dist/redistribution.h"
#include "dialects/nn/nn.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_PARTITIONPASS
#include "passes/partition/passes.h.inc"

namespace {

using dist::Layout;

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Rewrites one function in place, in program order: when an op is reached its operands are local already.
class FunctionPartition {
public:
  FunctionPartition(dist::MeshAttr mesh, func::FuncOp function) : mesh(mesh), function(function), builder(function.getContext()) {}

  LogicalResult run() {
    if (!function.getBody().hasOneBlock()) {
      return function.emitOpError("is no program: it has ") << function.getBody().getBlocks().size() << " blocks, not one";
    }
    if (failed(cutSignature())) {
      return failure();
    }
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      if (failed(cut(&op))) {
        return failure();
      }
    }
    return success();
  }

private:
  LogicalResult cut(Operation *op) {
    if (op->getNumResults() == 0) {
      return success();
    }
    if (!op->hasAttr(dist::kLayoutsAttr)) {
      return op->emitOpError("has no layout; run ashlar-insert-redistributions first");
    }
    for (OpResult result : op->getResults()) {
      Layout layout = dist::findLayout(result).getLayout();
      if (std::optional<int64_t> dim = dist::findUneven(mesh, typeOf(result).getShape(), layout)) {
        return op->emitOpError("result ") << result.getResultNumber() << " has size " << typeOf(result).getDimSize(*dim) << " in dim "
                                          << *dim << ", not divisible by the " << mesh.groupSize(layout.dims[*dim])
                                          << " devices that split it";
      }
    }
    builder.setInsertionPoint(op);
    if (auto redistribute = dyn_cast<dist::RedistributeOp>(op)) {
      cutRedistribute(redistribute);
    } else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      cutConstant(constant);
    } else if (auto index = dyn_cast<nn::IndexOp>(op)) {
      cutIndex(index);
    } else {
      cutInPlace(op);
    }
    return success();
  }

  Layout layoutOf(Operation *op) { return dist::findLayout(op->getResult(0)).getLayout(); }

  // Puts `value` in the place of an op.
  void replace(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }

  void cutInPlace(Operation *op) {
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      // A dim that is split is not cut by the op: it ends where the piece ends.
      Layout layout = layoutOf(op);
      SmallVector<int64_t> limits(slice.getLimits());
      for (auto [d, axes] : llvm::enumerate(layout.dims)) {
        limits[d] = axes.empty() ? limits[d] : limits[d] / mesh.groupSize(axes);
      }
      slice.setLimits(limits);
    }
    for (OpResult result : op->getResults()) {
      result.setType(dist::localType(mesh, typeOf(result), dist::findLayout(result).getLayout()));
    }
    op->removeAttr(dist::kLayoutsAttr);
  }

  void cutRedistribute(dist::RedistributeOp op) {
    RankedTensorType global = typeOf(op);
    Layout layout = dist::withoutUnitAxes(mesh, op.getFrom().getLayout());
    Layout target = dist::withoutUnitAxes(mesh, op.getTo().getLayout());
    Value value = op.getInput();
    for (const dist::Step &step : dist::planRedistribution(mesh, global, layout, target)) {
      dist::Reduction reduction = layout.reduction;
      layout = dist::applyStep(layout, step);
      value = emitStep(op.getLoc(), step, reduction, value, dist::localType(mesh, global, layout), op.getCauseAttr());
    }
    replace(op, value);
  }

  Value emitStep(Location loc, const dist::Step &step, dist::Reduction reduction, Value value, RankedTensorType type, StringAttr cause) {
    auto axes = dist::toAttr(builder.getContext(), step.axes);
    IntegerAttr dim = builder.getI64IntegerAttr(step.dim);
    auto kind = dist::ReductionAttr::get(builder.getContext(), reduction);
    switch (step.kind) {
    case dist::Step::Slice:
      return dist::SliceOp::create(builder, loc, type, value, dim, axes);
    case dist::Step::AllReduce:
      return dist::AllReduceOp::create(builder, loc, type, kind, value, axes, cause);
    case dist::Step::ReduceScatter:
      return dist::ReduceScatterOp::create(builder, loc, type, kind, value, dim, axes, cause);
    case dist::Step::AllToAll:
      return dist::AllToAllOp::create(builder, loc, type, value, dim, builder.getI64IntegerAttr(step.concatDim), axes, cause);
    case dist::Step::AllGather:
      return dist::AllGatherOp::create(builder, loc, type, value, dim, axes, cause);
    }
    llvm_unreachable("unknown step");
  }

  // Equal elements shrink with the type; others stay whole and each device takes its piece.
  void cutConstant(nn::ConstantOp op) {
    Layout layout = layoutOf(op);
    RankedTensorType local = dist::localType(mesh, typeOf(op), layout);
    op->removeAttr(dist::kLayoutsAttr);
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (dense && dense.isSplat()) {
      op.setValueAttr(dense.resizeSplat(local));
      op.getResult().setType(local);
      return;
    }
    builder.setInsertionPointAfter(op);
    Value value = op;
    Operation *first = nullptr;
    Layout current = Layout::replicated(layout.dims.size());
    for (auto [d, axes] : llvm::enumerate(layout.dims)) {
      if (axes.empty()) {
        continue;
      }
      current.dims[d] = axes;
      value = dist::SliceOp::create(builder, op.getLoc(), dist::localType(mesh, typeOf(op), current), value, builder.getI64IntegerAttr(d),
                                    dist::toAttr(op.getContext(), axes));
      first = first ? first : value.getDefiningOp();
    }
    if (first) {
      op.getResult().replaceAllUsesExcept(value, first);
    }
  }

  Value emitScalar(Location loc, int64_t value) {
    return nn::ConstantOp::create(builder, loc, DenseElementsAttr::get(RankedTensorType::get({}, builder.getI64Type()), value));
  }

  // index ==> index of the piece + sum over dims of (number of the piece * its size * stride)
  void cutIndex(nn::IndexOp op) {
    Layout layout = layoutOf(op);
    RankedTensorType local = dist::localType(mesh, op.getType(), layout);
    Location loc = op.getLoc();
    Value index = nn::IndexOp::create(builder, loc, local, op.getStrides());
    Value offset;
    for (auto [d, axes] : llvm::enumerate(layout.dims)) {
      int64_t step = local.getDimSize(d) * op.getStrides()[d];
      if (axes.empty() || step == 0) {
        continue;
      }
      Value piece =
          dist::AxisIndexOp::create(builder, loc, RankedTensorType::get({}, builder.getI64Type()), dist::toAttr(op.getContext(), axes));
      Value start = nn::MulOp::create(builder, loc, piece, emitScalar(loc, step));
      offset = offset ? nn::AddOp::create(builder, loc, offset, start).getResult() : start;
    }
    if (offset) {
      Value repeated = nn::BroadcastOp::create(builder, loc, local, offset, builder.getDenseI64ArrayAttr({}));
      index = nn::AddOp::create(builder, loc, index, repeated);
    }
    replace(op, index);
  }

  // Gives arguments and results their local types; the global ones go into attributes.
  LogicalResult cutSignature() {
    SmallVector<Type> arguments, results;
    auto cutType = [&](Type type, Attribute attribute, const Twine &what) -> RankedTensorType {
      auto tensor = dyn_cast<RankedTensorType>(type);
      auto layout = dyn_cast_or_null<dist::LayoutAttr>(attribute);
      if (!tensor || !layout) {
        function.emitOpError() << what << " has no layout; run ashlar-propagate-layouts first";
        return {};
      }
      if (std::optional<int64_t> dim = dist::findUneven(mesh, tensor.getShape(), layout.getLayout())) {
        function.emitOpError() << what << " has size " << tensor.getDimSize(*dim) << " in dim " << *dim << ", not divisible by the "
                               << mesh.groupSize(layout.getLayout().dims[*dim]) << " devices that split it";
        return {};
      }
      return dist::localType(mesh, tensor, layout.getLayout());
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      arguments.push_back(cutType(type, function.getArgAttr(i, dist::kLayoutAttr), "argument " + Twine(i)));
      if (!arguments.back()) {
        return failure();
      }
      function.setArgAttr(i, dist::kGlobalTypeAttr, TypeAttr::get(type));
      function.getArgument(i).setType(arguments.back());
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
      results.push_back(cutType(type, function.getResultAttr(i, dist::kLayoutAttr), "result " + Twine(i)));
      if (!results.back()) {
        return failure();
      }
      function.setResultAttr(i, dist::kGlobalTypeAttr, TypeAttr::get(type));
    }
    function.setType(builder.getFunctionType(arguments, results));
    return success();
  }

  dist::MeshAttr mesh;
  func::FuncOp function;
  OpBuilder builder;
};

LogicalResult cutVariable(dist::MeshAttr mesh, nn::VariableOp variable) {
  auto layout = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  if (!layout) {
    return variable.emitOpError("has no layout; run ashlar-propagate-layouts first");
  }
  RankedTensorType global = variable.getTensorType();
  if (std::optional<int64_t> dim = dist::findUneven(mesh, global.getShape(), layout.getLayout())) {
    return variable.emitOpError("has size ") << global.getDimSize(*dim) << " in dim " << *dim << ", not divisible by the "
                                             << mesh.groupSize(layout.getLayout().dims[*dim]) << " devices that split it";
  }
  if (variable.getInitAttr() && layout.getLayout().isSplit()) {
    return variable.emitOpError("is split but has an initial value; run ashlar-init first");
  }
  variable->setAttr(dist::kGlobalTypeAttr, TypeAttr::get(global));
  variable.setType(dist::localType(mesh, global, layout.getLayout()));
  return success();
}

struct Partition : impl::PartitionPassBase<Partition> {
  using PartitionPassBase::PartitionPassBase;

  void runOnOperation() override {
    dist::MeshOp mesh = dist::findMesh(getOperation());
    if (!mesh) {
      getOperation().emitError("has no dist.mesh; run ashlar-seed-layouts first");
      return signalPassFailure();
    }
    for (auto variable : getOperation().getOps<nn::VariableOp>()) {
      if (failed(cutVariable(mesh.getMesh(), variable))) {
        return signalPassFailure();
      }
    }
    IRRewriter rewriter(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(FunctionPartition(mesh.getMesh(), function).run())) {
        return signalPassFailure();
      }
      DominanceInfo dominance(function);
      eliminateCommonSubExpressions(rewriter, dominance, function);
    }
  }
};

} // namespace

} // namespace ashlar::partition
