// SPDX-License-Identifier: Apache-2.0
//
// CSE with the causes of collectives set aside. Reasons stand in locations, which CSE does not compare; causes are attributes.

#include "passes/partition/merge_equal_ops.h"

#include "dialects/dist/reasons.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ashlar::partition {

namespace {

// State: the causes of each collective, which has no attribute of them while this lives.
class CauseKeeper : public RewriterBase::Listener {
public:
  explicit CauseKeeper(func::FuncOp function) : function(function) {
    function.walk([&](dist::CollectiveOpInterface op) {
      if (ArrayAttr cause = op.getCauseAttr()) {
        causes[op].insert(cause.begin(), cause.end());
        op.setCauseAttr({});
      }
    });
  }

  ~CauseKeeper() override {
    function.walk([&](dist::CollectiveOpInterface op) {
      if (auto found = causes.find(op); found != causes.end()) {
        op.setCauseAttr(ArrayAttr::get(op->getContext(), found->second.getArrayRef()));
      }
    });
  }

  void notifyOperationReplaced(Operation *op, Operation *replacement) override {
    if (isa<dist::CollectiveOpInterface>(op)) {
      llvm::SmallSetVector<Attribute, 1> own = causes.lookup(op);
      if (!own.empty()) {
        causes[replacement].insert(own.begin(), own.end());
      }
      replacement->setLoc(dist::mergeReasons(replacement->getLoc(), op->getLoc()));
    }
  }

private:
  func::FuncOp function;
  DenseMap<Operation *, llvm::SmallSetVector<Attribute, 1>> causes;
};

} // namespace

void mergeEqualOps(func::FuncOp function) {
  CauseKeeper causes(function);
  IRRewriter rewriter(function.getContext(), &causes);
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function);
}

} // namespace ashlar::partition
