// SPDX-License-Identifier: Apache-2.0
//
// ashlar-simplify-collectives. It leaves collectives out and makes none: which there are is the planner's to say. Its one subtle rule: a
// gather of pieces is the tensor that was cut only if that tensor is equal on all devices of the group.

#include "dialects/dist/dist.h"
#include "dialects/nn/repeat.h"
#include "passes/analysis/varying_axes.h"
#include "passes/partition/merge_equal_ops.h"
#include "passes/partition/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::partition {

#define GEN_PASS_DEF_SIMPLIFYCOLLECTIVESPASS
#include "passes/partition/passes.h.inc"

namespace {

using AxisSet = analysis::VaryingAxes::AxisSet;

// Rewrites one function in program order.
class FunctionSimplification {
public:
  FunctionSimplification(func::FuncOp function, const SymbolTable &symbols) : function(function), varying(function, symbols) {}

  void run() {
    SmallVector<Block *> blocks = {&function.front()}; // bodies of repeats behind what they read
    for (size_t next = 0; next < blocks.size(); ++next) {
      for (Operation &op : llvm::make_early_inc_range(*blocks[next])) {
        varying.visit(&op);
        if (auto slice = dyn_cast<dist::SliceOp>(op)) {
          simplifySlice(slice);
        } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
          simplifyGather(gather);
        } else if (auto repeat = dyn_cast<nn::RepeatOp>(op)) {
          blocks.push_back(&repeat.getBody().front());
        }
      }
    }
  }

private:
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
    const AxisSet axes = varying.of(slice.getInput());
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
      varying.forget(op->getResult(0));
      op->erase();
    }
  }

  func::FuncOp function;
  analysis::VaryingAxes varying;
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
