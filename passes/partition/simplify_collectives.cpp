// SPDX-License-Identifier: Apache-2.0
//
// ashlar-simplify-collectives. It leaves collectives out and makes none: which there are is the planner's to say. Its one subtle rule: a
// gather of pieces is the tensor that was cut only if that tensor is equal on all devices of the group.

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"
#include "passes/partition/merge_equal_ops.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_SIMPLIFYCOLLECTIVESPASS
#include "passes/partition/passes.h.inc"

namespace {

using AxisSet = llvm::SmallPtrSet<StringAttr, 4>;

// Rewrites one function in program order. State: for each value the mesh axes along which devices may hold different elements of it.
class FunctionSimplification {
public:
  FunctionSimplification(func::FuncOp function, const SymbolTable &symbols) : function(function), symbols(symbols) {}

  void run() {
    for (BlockArgument argument : function.getArguments()) {
      varying[argument] = axesOf(function.getArgAttrOfType<dist::LayoutAttr>(argument.getArgNumber(), dist::kLayoutAttr));
    }
    for (Operation &op : llvm::make_early_inc_range(function.front())) {
      AxisSet axes = varyingAxes(&op);
      for (Value result : op.getResults()) {
        varying[result] = axes;
      }
      if (auto slice = dyn_cast<dist::SliceOp>(op)) {
        simplifySlice(slice);
      } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
        simplifyGather(gather);
      }
    }
  }

private:
  static AxisSet axesOf(dist::LayoutAttr attribute) {
    AxisSet axes;
    if (attribute) {
      dist::Layout layout = attribute.getLayout();
      for (const dist::AxisList &list : layout.dims) {
        axes.insert(list.begin(), list.end());
      }
      axes.insert(layout.partial.begin(), layout.partial.end());
    }
    return axes;
  }

  // Returns the axes along which the results vary.
  AxisSet varyingAxes(Operation *op) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      return axesOf(symbols.lookup<nn::VariableOp>(read.getVariable())->getAttrOfType<dist::LayoutAttr>(dist::kLayoutAttr));
    }
    AxisSet axes;
    for (Value operand : op->getOperands()) {
      axes.insert(varying[operand].begin(), varying[operand].end());
    }
    if (auto own = isa<dist::DistDialect>(op->getDialect()) ? op->getAttrOfType<ArrayAttr>("axes") : ArrayAttr()) {
      for (auto axis : own.getAsRange<StringAttr>()) {
        if (isa<dist::AllReduceOp, dist::AllGatherOp, dist::BroadcastOp>(op)) {
          axes.erase(axis);
        } else {
          axes.insert(axis);
        }
      }
    }
    return axes;
  }

  // Returns true for a collective that stays: the model places it, or it is one for several tensors.
  static bool isPlaced(Operation *op) { return op->hasAttr(dist::kExplicitAttr) || op->getNumOperands() > 1; }

  // slice(all_gather(x)) ==> x
  void simplifySlice(dist::SliceOp slice) {
    auto gather = slice.getInput().getDefiningOp<dist::AllGatherOp>();
    if (gather && !isPlaced(gather) && gather.getDims().front() == static_cast<int64_t>(slice.getDim()) &&
        gather.getAxes() == slice.getAxes()) {
      replace(slice, gather.getInputs().front());
      eraseUnused(gather);
    }
  }

  // all_gather(slice(x)) ==> x
  void simplifyGather(dist::AllGatherOp gather) {
    auto slice = gather.getInputs().front().getDefiningOp<dist::SliceOp>();
    if (!slice || isPlaced(gather) || gather.getDims().front() != static_cast<int64_t>(slice.getDim()) ||
        gather.getAxes() != slice.getAxes()) {
      return;
    }
    const AxisSet &axes = varying[slice.getInput()];
    if (llvm::none_of(gather.getAxes().getAsRange<StringAttr>(), [&](StringAttr axis) { return axes.contains(axis); })) {
      replace(gather, slice.getInput());
      eraseUnused(slice);
    }
  }

  void replace(Operation *op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    eraseUnused(op);
  }

  void eraseUnused(Operation *op) {
    if (op->use_empty()) {
      varying.erase(op->getResult(0));
      op->erase();
    }
  }

  func::FuncOp function;
  const SymbolTable &symbols;
  DenseMap<Value, AxisSet> varying;
};

struct SimplifyCollectives : impl::SimplifyCollectivesPassBase<SimplifyCollectives> {
  using SimplifyCollectivesPassBase::SimplifyCollectivesPassBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      mergeEqualOps(function); // first: of equal slices of a sum only one is left
      FunctionSimplification(function, symbols).run();
      mergeEqualOps(function);
    }
  }
};

} // namespace

} // namespace ashlar::partition
