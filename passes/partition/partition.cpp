// SPDX-License-Identifier: Apache-2.0
//
// ashlar-partition: from global shapes to one device's program. Only ops with numbers of elements in their attributes need care here; all
// others compute on pieces as they do on whole tensors, because their layouts are one split of their factors.

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"
#include "passes/analysis/planner/redistribution.h"
#include "passes/analysis/planner/single_step.h"
#include "passes/partition/exchange_windows.h"
#include "passes/partition/merge_equal_ops.h"
#include "passes/partition/padding.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_PARTITIONPASS
#include "passes/partition/passes.h.inc"

namespace {

using dist::Layout;

// Rewrites one function in place, in program order: when an op is reached its operands are local already.
class FunctionPartition {
public:
  FunctionPartition(dist::MeshAttr mesh, analysis::Planner &planner, func::FuncOp function)
      : mesh(mesh), planner(planner), function(function), builder(function.getContext()) {}

  LogicalResult run() {
    if (!function.getBody().hasOneBlock()) {
      return function.emitOpError("is no program: it has ") << function.getBody().getBlocks().size() << " blocks, not one";
    }
    // While types and layouts are still global:
    function.walk([&](ShardingRuleOpInterface op) {
      windows[op] = findWindows(mesh, op);
      collectMasks(op);
    });
    function.walk([&](IndexingOpInterface op) { collectNumbering(op); });
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
    op->removeAttr(dist::kOriginsAttr); // ops that differ in these only are equal
    op->removeAttr(dist::kOnTermsAttr);
    if (!isa<dist::RedistributeOp, dist::BroadcastOp>(op)) {
      op->removeAttr(dist::kExplicitAttr);
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

  // An operand whose padding an op would count, were it not masked.
  struct Mask {
    unsigned operand;
    int64_t dim, size; // global
    dist::AxisList axes;
    std::optional<Reduction> reduction; // nothing: the operand numbers elements, and none has the number -1
  };

  // The split of the dim whose elements an op finds by number.
  struct Numbering {
    int64_t size; // global
    dist::AxisList axes;
  };

  // Remembers which operands of an op are uneven along a dim that it reduces.
  void collectMasks(ShardingRuleOpInterface op) {
    ShardingRule rule = op.getShardingRule();
    auto indexing = dyn_cast<IndexingOpInterface>(op.getOperation());
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (indexing && indexing.getIndicesMutable().getOperandNumber() != i) {
        continue; // it touches no element but those that have a number
      }
      dist::LayoutAttr layout = dist::findLayout(operand);
      for (auto [d, factors] : llvm::enumerate(rule.operands[i])) {
        bool reduces = factors.size() == 1 && rule.factors[factors.front()].kind == FactorKind::Reduction;
        // A run holds zeros where there are no elements.
        bool isRun = llvm::any_of(windows[op], [&, operand = i, dim = d](const dist::SplitWindow &window) {
          return window.tensor == operand && window.dim == dim && window.halo;
        });
        if (!layout || !reduces || isRun) {
          continue;
        }
        dist::AxisList axes = layout.getLayout().dims[d];
        int64_t size = typeOf(operand).getDimSize(d);
        if (!dist::isEven(mesh, size, axes)) {
          std::optional<Reduction> reduction;
          if (!indexing) {
            reduction = rule.factors[factors.front()].reduction;
          }
          masks[op].push_back({static_cast<unsigned>(i), static_cast<int64_t>(d), size, axes, reduction});
        }
      }
    }
  }

  // Remembers how the dim is split whose elements the op finds by number.
  void collectNumbering(IndexingOpInterface op) {
    dist::LayoutAttr layout = dist::findLayout(op.getIndexed());
    const int64_t dim = op.getIndexedDim();
    if (layout && !layout.getLayout().dims[dim].empty()) {
      numberings[op] = {typeOf(op.getIndexed()).getDimSize(dim), layout.getLayout().dims[dim]};
    }
  }

  // Counts the numbers from where the device's piece begins. Before padding of the numbers themselves is masked.
  void cutNumbers(Operation *op) {
    auto found = numberings.find(op);
    if (found == numberings.end()) {
      return;
    }
    ImplicitLocOpBuilder b(op->getLoc(), op);
    OpOperand &numbers = cast<IndexingOpInterface>(op).getIndicesMutable();
    numbers.set(emitLocalNumbers(b, mesh, numbers.get(), found->second.size, found->second.axes));
  }

  void maskOperands(Operation *op) {
    auto found = masks.find(op);
    if (found == masks.end()) {
      return;
    }
    ImplicitLocOpBuilder b(op->getLoc(), op);
    for (const Mask &mask : found->second) {
      RankedTensorType type = typeOf(op->getOperand(mask.operand));
      DenseElementsAttr filler = mask.reduction ? neutralElements(type, *mask.reduction) : nn::splat(type, -1);
      Value masked = maskPadding(b, mesh, op->getOperand(mask.operand), mask.dim, mask.size, mask.axes, filler);
      op->setOperand(mask.operand, masked);
    }
  }

  Layout layoutOf(Operation *op) { return dist::findLayout(op->getResult(0)).getLayout(); }

  // Puts `value` in the place of an op.
  void replace(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }

  void cutInPlace(Operation *op) {
    cutNumbers(op);
    exchangeOperands(mesh, op, windows[op]);
    maskOperands(op);
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      // A dim that is split is not cut by the op: it ends where the piece ends.
      Layout layout = layoutOf(op);
      SmallVector<int64_t> limits(slice.getLimits()), local = dist::localShape(mesh, typeOf(slice).getShape(), layout);
      for (auto [d, axes] : llvm::enumerate(layout.dims)) {
        limits[d] = axes.empty() ? limits[d] : local[d];
      }
      slice.setLimits(limits);
    }
    for (OpResult result : op->getResults()) {
      result.setType(dist::localType(mesh, typeOf(result), dist::findLayout(result).getLayout()));
    }
    op->removeAttr(dist::kLayoutsAttr);
    exchangeResults(mesh, op, windows[op]);
    auto windowed = dyn_cast<WindowedOpInterface>(op);
    if (windowed && windowed.isIdentityOfEqualTypes() && op->getNumOperands() == 1 &&
        op->getOperand(0).getType() == op->getResult(0).getType()) {
      replace(op, op->getOperand(0));
    }
  }

  void cutRedistribute(dist::RedistributeOp op) {
    RankedTensorType global = typeOf(op);
    Layout layout = dist::withoutUnitAxes(mesh, op.getFrom().getLayout());
    Layout target = dist::withoutUnitAxes(mesh, op.getTo().getLayout());
    Value value = op.getInput();
    for (const analysis::Step &step : stepsOf(op, global, layout, target)) {
      Layout next = analysis::applyStep(layout, step);
      value = emitStep(op, step, layout, value, dist::localShape(mesh, global.getShape(), next));
      if (op->hasAttr(dist::kExplicitAttr)) {
        value.getDefiningOp()->setAttr(dist::kExplicitAttr, builder.getUnitAttr());
      }
      layout = next;
    }
    replace(op, value);
  }

  // Returns the steps of the plan; of a collective that the model places, the one step that it is.
  SmallVector<analysis::Step> stepsOf(dist::RedistributeOp op, RankedTensorType global, const Layout &from, const Layout &to) {
    if (!op->hasAttr(dist::kExplicitAttr)) {
      return planner.plan(global, from, to).steps;
    }
    std::optional<analysis::Step> step = analysis::findSingleStep(from, to);
    assert(step && "a model's collective is one step");
    return {*step};
  }

  // Emits one step of a plan on `value`, of layout `from`; the result has `shape`. A dim that is cut is lengthened first where it does not
  // divide, and a dim that was joined is shortened.
  Value emitStep(dist::RedistributeOp op, const analysis::Step &step, const Layout &from, Value value, ArrayRef<int64_t> shape) {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    auto axes = dist::toAttr(b.getContext(), step.axes);
    ArrayAttr cause = op.getCauseAttr();
    IntegerAttr dim = b.getI64IntegerAttr(step.dim);
    auto kind = dist::ReductionAttr::get(b.getContext(), from.reduction);
    RankedTensorType type = typeOf(value).clone(shape);
    // The type with the pieces of a dim side by side, padding included.
    auto joined = [&](int64_t d) {
      SmallVector<int64_t> sizes(shape);
      sizes[d] = typeOf(value).getDimSize(d) * mesh.groupSize(step.axes);
      return type.clone(sizes);
    };
    switch (step.kind) {
    case CollectiveKind::Slice:
      return dist::SliceOp::create(b, type, padToPieces(b, mesh, value, step.dim, step.axes), dim, axes);
    case CollectiveKind::AllReduce:
      return dist::AllReduceOp::create(b, type, kind, value, axes, cause, dist::FusionAttr())->getResult(0);
    case CollectiveKind::ReduceScatter:
      return dist::ReduceScatterOp::create(b, type, from.reduction, padToPieces(b, mesh, value, step.dim, step.axes), step.dim, axes, cause,
                                           dist::FusionAttr())
          ->getResult(0);
    case CollectiveKind::AllToAll: {
      RankedTensorType result = joined(step.concatDim);
      Value padded = padToPieces(b, mesh, value, step.dim, step.axes);
      Value moved = dist::AllToAllOp::create(b, result, padded, dim, b.getI64IntegerAttr(step.concatDim), axes, cause);
      return trimPieces(b, mesh, moved, step.concatDim, shape[step.concatDim], step.axes);
    }
    case CollectiveKind::AllGather: {
      auto gather = dist::AllGatherOp::create(b, joined(step.dim), value, step.dim, axes, cause, dist::FusionAttr());
      return trimPieces(b, mesh, gather->getResult(0), step.dim, shape[step.dim], step.axes);
    }
    case CollectiveKind::Permute:
      return dist::PermuteOp::create(b, type, value, analysis::permuteSources(mesh, from, step), axes, cause);
    case CollectiveKind::Broadcast:
    case CollectiveKind::Halo:
      break;
    }
    llvm_unreachable("no such step in a plan");
  }

  // Equal elements shrink with the type; others stay whole and each device takes its piece.
  void cutConstant(nn::ConstantOp op) {
    Layout layout = layoutOf(op);
    RankedTensorType local = dist::localType(mesh, typeOf(op), layout);
    ImplicitLocOpBuilder b(op.getLoc(), op);
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (dense && dense.isSplat()) {
      return replace(op, nn::ConstantOp::create(b, dense.resizeSplat(local)));
    }
    Value value = nn::ConstantOp::create(b, op.getValue());
    for (auto [d, axes] : llvm::enumerate(layout.dims)) {
      if (axes.empty()) {
        continue;
      }
      value = padToPieces(b, mesh, value, d, axes);
      SmallVector<int64_t> shape(typeOf(value).getShape());
      shape[d] = local.getDimSize(d);
      value = dist::SliceOp::create(b, local.clone(shape), value, b.getI64IntegerAttr(d), dist::toAttr(op.getContext(), axes));
    }
    replace(op, value);
  }

  // index ==> index of the piece + sum over dims of (first element of the piece * stride)
  void cutIndex(nn::IndexOp op) {
    Layout layout = layoutOf(op);
    RankedTensorType global = op.getType(), local = dist::localType(mesh, global, layout);
    ImplicitLocOpBuilder b(op.getLoc(), op);
    Value index = nn::IndexOp::create(b, local, op.getStrides());
    Value offset;
    for (auto [d, axes] : llvm::enumerate(layout.dims)) {
      int64_t stride = op.getStrides()[d];
      if (axes.empty() || stride == 0) {
        continue;
      }
      Value start = emitPieceStart(b, mesh, global.getDimSize(d), axes, stride);
      offset = offset ? nn::AddOp::create(b, offset, start).getResult() : start;
    }
    if (offset) {
      index = nn::AddOp::create(b, index, nn::BroadcastOp::create(b, local, offset, ArrayRef<int64_t>()));
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
  analysis::Planner &planner;
  func::FuncOp function;
  OpBuilder builder;
  DenseMap<Operation *, SmallVector<Mask>> masks;
  DenseMap<Operation *, Numbering> numberings;
  DenseMap<Operation *, SmallVector<dist::SplitWindow>> windows;
};

LogicalResult cutVariable(dist::MeshAttr mesh, nn::VariableOp variable) {
  auto layout = variable->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr);
  if (!layout) {
    return variable.emitOpError("has no layout; run ashlar-propagate-layouts first");
  }
  RankedTensorType global = variable.getTensorType();
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
    analysis::Planner planner(mesh);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(FunctionPartition(mesh.getMesh(), planner, function).run())) {
        return signalPassFailure();
      }
      mergeEqualOps(function);
    }
  }
};

} // namespace

} // namespace ashlar::partition
