// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-sum-behind-repeats; see passes.td.

#include "passes/train/passes.h"
#include "passes/train/widen_gradients.h"

#include "dialects/nn/repeat/repeats.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_SUMBEHINDREPEATSPASS
#include "passes/train/passes.h.inc"

namespace {

SmallVector<int64_t> inOrder(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

// The sums of values of a body over all iterations of one repeat, computed behind it.
//
// State: `behind`, the ops to put there, whose arguments are the stacks that they read: of `stacked`, values of the body.
class SumsBehind {
public:
  explicit SumsBehind(nn::RepeatOp op) : op(op), count(op.getCount()), b(op.getLoc(), op) { b.setInsertionPointToEnd(&behind); }

  // Moves all sums that are made of known terms.
  void run() {
    llvm::SmallBitVector dropped(op.getCarried().size());
    SmallVector<std::pair<OpResult, Value>> sums;
    for (unsigned i = 0; i < op.getCarried().size(); ++i) {
      Value term = termOf(i);
      SmallVector<Operation *> ofTerms = term && count > 0 && !op.getCondition() ? findTerms(term) : SmallVector<Operation *>();
      if (ofTerms.empty()) {
        continue;
      }
      dropped.set(i);
      Value first = op.getCarried()[i], total = sum(term, ofTerms);
      sums.push_back({op->getResult(i), nn::isZero(first) ? total : nn::AddOp::create(b, first, total).getResult()});
    }
    if (sums.empty()) {
      return;
    }
    for (auto [result, total] : sums) {
      result.replaceAllUsesWith(total);
    }
    SmallVector<Value> rows = llvm::map_to_vector(stacked, [](const auto &each) { return each.first; });
    const unsigned kept = op.getNumResults() - dropped.count();
    nn::RepeatOp made = nn::rebuildRepeat(op, dropped, rows);
    for (auto [i, each] : llvm::enumerate(stacked)) {
      each.second.replaceAllUsesWith(made->getResult(kept + i));
    }
    made->getBlock()->getOperations().splice(std::next(Block::iterator(made)), behind.getOperations());
  }

private:
  // Returns what each iteration adds to carried value `i`; null where it is no sum that the body does not read.
  Value termOf(unsigned i) {
    BlockArgument argument = op.getCarriedArguments()[i];
    auto add = op.getYielded()[i].getDefiningOp<nn::AddOp>();
    if (!add || !argument.hasOneUse() || !add->hasOneUse() || (add.getLhs() != argument && add.getRhs() != argument)) {
      return {};
    }
    return add.getLhs() == argument ? add.getRhs() : add.getLhs();
  }

  // Whether an op computes of the sums of its operands the sum of its results.
  static bool passesSums(Operation *maker) {
    if (auto cast = dyn_cast<nn::CastOp>(maker)) { // of a term that is narrower than its sum
      return isNarrowFloat(cast.getInput().getType().getElementType()) && cast.getType().getElementType().isF32();
    }
    auto compute = dyn_cast<ComputeOpInterface>(maker);
    const unsigned operands = maker->getNumOperands();
    return compute && operands > 0 && compute.passesParts(Reduction::Sum, llvm::SmallBitVector(operands, true));
  }

  static bool isMatrixProduct(Operation *maker) {
    auto product = dyn_cast<nn::MatMulOp>(maker);
    constexpr int64_t kMatrix = 2;
    return product && product.getType().getRank() == kMatrix;
  }

  static bool sumsRows(Operation *maker) {
    auto reduce = dyn_cast<nn::ReduceOp>(maker);
    auto scatter = dyn_cast<nn::ScatterAddOp>(maker);
    return (reduce && reduce.getKind() == Reduction::Sum) || (scatter && scatter.getBatchDims() == 0);
  }

  // Finds the ops that a term is a sum of, in their order. Returns none where one of them is of another kind.
  SmallVector<Operation *> findTerms(Value term) {
    llvm::SetVector<Operation *> found;
    SmallVector<Value> pending = {term};
    while (!pending.empty()) {
      Operation *maker = pending.pop_back_val().getDefiningOp();
      const bool isTerm = maker && (isMatrixProduct(maker) || sumsRows(maker));
      if (!isTerm && (!maker || !passesSums(maker))) {
        return {};
      }
      if (found.insert(maker) && !isTerm) {
        pending.append(maker->operand_begin(), maker->operand_end());
      }
    }
    SmallVector<Operation *> ordered = found.takeVector();
    llvm::sort(ordered, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    return ordered;
  }

  // Returns the sum of a term over all iterations, by what it is a sum of.
  Value sum(Value term, ArrayRef<Operation *> ofTerms) {
    DenseMap<Value, Value> sums;
    for (Operation *maker : ofTerms) {
      sums[maker->getResult(0)] = sumOf(maker, sums);
    }
    return sums.at(term);
  }

  Value sumOf(Operation *maker, const DenseMap<Value, Value> &sums) {
    b.setLoc(maker->getLoc());
    return llvm::TypeSwitch<Operation *, Value>(maker)
        .Case([&](nn::MatMulOp product) { return multiply(product); })
        .Case([&](nn::ReduceOp reduce) -> Value { // rows are small; what they are sums of may not be
          return sumOfAll(reduce);
        })
        .Case([&](nn::ScatterAddOp scatter) -> Value {
          if (Value same = sameInAll(scatter.getIndices())) {
            return nn::ScatterAddOp::create(b, scatter.getType(), same, sumOfAll(scatter.getUpdates()));
          }
          return nn::ScatterAddOp::create(b, scatter.getType(), stackOf(scatter.getIndices()), stackOf(scatter.getUpdates()));
        })
        .Default([&](Operation *each) {
          IRMapping mapping;
          for (Value operand : each->getOperands()) {
            mapping.map(operand, sums.at(operand));
          }
          return b.clone(*each, mapping)->getResult(0);
        });
  }

  // The sum of products is one product whose contraction goes over the iterations, too; or of a factor that is the same in all, and the sum
  // of the other one.
  Value multiply(nn::MatMulOp product) {
    auto make = [&](Value lhs, Value rhs) {
      return nn::MatMulOp::create(b, product.getType(), lhs, rhs, product.getTransposeAAttr(), product.getTransposeBAttr());
    };
    if (Value same = sameInAll(product.getLhs())) {
      return make(same, sumOfAll(product.getRhs()));
    }
    if (Value same = sameInAll(product.getRhs())) {
      return make(sumOfAll(product.getLhs()), same);
    }
    Value lhs = joinContraction(product.getLhs(), product.getTransposeA() ? 0 : 1);
    Value rhs = joinContraction(product.getRhs(), product.getTransposeB() ? 1 : 0);
    return make(lhs, rhs);
  }

  // Returns the stack of a matrix as a matrix, with the iterations in the dim that is contracted: behind its own elements, which may be
  // samples, so that a shard of these is a shard of the dim.
  //   dim 0: (n, k, m) ==> (k n, m); dim 1: (n, m, k) ==> (m, k n)
  Value joinContraction(Value matrix, int64_t dim) {
    Value stack = stackOf(matrix);
    SmallVector<int64_t> shape(shapeOf(matrix));
    shape[dim] *= count;
    stack = nn::TransposeOp::create(b, stack, dim == 0 ? ArrayRef<int64_t>{1, 0, 2} : ArrayRef<int64_t>{1, 2, 0});
    return nn::ReshapeOp::create(b, typeOf(stack).clone(shape), stack);
  }

  // Returns a value that is the same in all iterations, outside of the body; null for any other one.
  Value sameInAll(Value value) {
    std::optional<nn::RepeatArgument> argument = nn::argumentOfRepeat(value);
    if (argument && argument->kind == nn::RepeatArgument::Kind::Captured) {
      return argument->operand;
    }
    Operation *maker = value.getDefiningOp();
    return maker && maker->hasTrait<OpTrait::ConstantLike>() ? b.clone(*maker)->getResult(0) : Value();
  }

  // Returns the sum of a value over all iterations.
  Value sumOfAll(Value value) { return nn::ReduceOp::create(b, Reduction::Sum, stackOf(value), ArrayRef<int64_t>{0}); }

  // Returns a value of the body in all iterations: as it was sliced, repeated where it is the same in all, or stacked.
  Value stackOf(Value value) {
    RankedTensorType type = nn::stackType(typeOf(value), count);
    if (Value same = sameInAll(value)) {
      return nn::BroadcastOp::create(b, type, same, inOrder(1, type.getRank()));
    }
    std::optional<nn::RepeatArgument> argument = nn::argumentOfRepeat(value);
    if (argument && argument->kind == nn::RepeatArgument::Kind::Sliced) {
      return argument->operand;
    }
    for (auto [row, result] : llvm::zip_equal(op.getYieldedStacked(), op.getStackedResults())) {
      if (row == value) {
        return result;
      }
    }
    auto found = llvm::find_if(stacked, [&](const auto &each) { return each.first == value; });
    return found != stacked.end() ? found->second : stacked.emplace_back(value, behind.addArgument(type, value.getLoc())).second;
  }

  nn::RepeatOp op;
  const int64_t count;
  Block behind;
  ImplicitLocOpBuilder b;
  SmallVector<std::pair<Value, BlockArgument>> stacked;
};

struct SumBehindRepeatsPass : public impl::SumBehindRepeatsPassBase<SumBehindRepeatsPass> {
  void runOnOperation() override {
    SmallVector<nn::RepeatOp> repeats; // inner ones first: a product behind one may be a term of the one around it
    getOperation().walk([&](nn::RepeatOp op) { repeats.push_back(op); });
    if (repeats.empty()) {
      return;
    }
    nn::pruneRepeats(getOperation().front());
    repeats.clear();
    getOperation().walk([&](nn::RepeatOp op) { repeats.push_back(op); });
    for (nn::RepeatOp op : repeats) {
      auto inside = op.getBody().front().getOps<nn::RepeatOp>();
      if (llvm::none_of(inside, [](nn::RepeatOp each) { return each->hasAttr(nn::kComputedAgainAttr); })) {
        SumsBehind(op).run();
      }
    }
    getOperation().walk([](nn::RepeatOp op) { op->removeAttr(nn::kComputedAgainAttr); });
    widenGradients(getOperation());           // of products that stood in bodies when ashlar-autodiff did so
    nn::pruneRepeats(getOperation().front()); // products that nothing reads any more
  }
};

} // namespace

} // namespace ashlar::train
