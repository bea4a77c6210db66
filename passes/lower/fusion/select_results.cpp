// SPDX-License-Identifier: Apache-2.0
//
// ashlar-select-results: repeats with a condition whose body always runs.

#include "passes/lower/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"
#include "passes/analysis/varying_axes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ashlar::lower {
#define GEN_PASS_DEF_SELECTRESULTSPASS
#include "passes/lower/passes.h.inc"

namespace {

// Whether an op takes no longer than the instructions of a repeat, but for the number of its elements.
bool isSimple(Operation &op) {
  auto compute = dyn_cast<ComputeOpInterface>(op);
  return compute && compute.getCost() != Cost::Contraction && op.getNumRegions() == 0 && !isa<dist::DistDialect>(op.getDialect());
}

// Whether to run a body costs no more than not to run it: the results are stored in any case, and a kernel is called for them.
bool isCheap(Block &body) {
  constexpr int64_t kMostElements = 16384; // a few microseconds
  int64_t elements = 0;
  for (Operation &op : body.without_terminator()) {
    if (!isSimple(op)) {
      return false;
    }
    for (Value operand : op.getOperands()) { // of a reduction these are more than the results
      elements += typeOf(operand).getNumElements();
    }
  }
  return elements <= kMostElements;
}

bool meets(nn::RepeatOp repeat) {
  return repeat.getBody().walk([](dist::CollectiveOpInterface) { return WalkResult::interrupt(); }).wasInterrupted();
}

// Has a body that runs once read constant first values as constants: a sum that begins with zeros is its term.
void putFirstValues(nn::RepeatOp repeat) {
  OpBuilder builder = OpBuilder::atBlockBegin(&repeat.getBody().front());
  for (auto [first, argument] : llvm::zip_equal(repeat.getCarried(), repeat.getCarriedArguments())) {
    Operation *maker = first.getDefiningOp();
    if (repeat.getCondition() && maker && maker->hasTrait<OpTrait::ConstantLike>() && !argument.use_empty()) {
      argument.replaceAllUsesWith(builder.clone(*maker)->getResult(0));
    }
  }
}

struct SelectResults : impl::SelectResultsPassBase<SelectResults> {
  using SelectResultsPassBase::SelectResultsPassBase;

  void runOnOperation() override {
    const SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.isExternal() && !function.front().getOps<nn::RepeatOp>().empty()) {
        run(function, symbols);
      }
    }
  }

  void run(func::FuncOp function, const SymbolTable &symbols) {
    analysis::VaryingAxes varying(function, symbols);
    SmallVector<nn::RepeatOp> selected; // those around others first
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == function) {
        return;
      }
      varying.visit(op);
      auto repeat = dyn_cast<nn::RepeatOp>(op);
      if (!repeat || !repeat.getCondition()) {
        return;
      }
      const bool mayDiffer = !varying.of(repeat.getCondition()).empty() && meets(repeat);
      if (!exec::traitsOf(target).takesConditions || mayDiffer || isCheap(repeat.getBody().front())) {
        selected.push_back(repeat);
      }
    });
    for (nn::RepeatOp repeat : llvm::reverse(selected)) {
      nn::selectResults(repeat);
    }
    function.walk([](nn::RepeatOp repeat) { putFirstValues(repeat); });
  }
};

} // namespace

} // namespace ashlar::lower
