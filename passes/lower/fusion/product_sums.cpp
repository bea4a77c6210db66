// SPDX-License-Identifier: Apache-2.0
//
// Finds, for each sum over rows, a product that contracts over the same rows of the same tensor. What is between them are changes of shape
// that move nothing, and a conversion to f32, since the library sums in f32 anyway.

#include "passes/lower/fusion/product_sums.h"
#include "passes/lower/calls/library_product.h"

#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::lower {
namespace {

// Returns the tensor whose rows (all dims but the last) the reduction sums; null when it does anything else.
Value summedRows(nn::ReduceOp reduce) {
  Value input = reduce.getInput();
  int64_t rank = typeOf(input).getRank();
  if (reduce.getKind() != Reduction::Sum || rank < 2 || !llvm::equal(reduce.getDims(), llvm::seq<int64_t>(0, rank - 1))) {
    return {};
  }
  auto cast = input.getDefiningOp<nn::CastOp>();
  return cast && cast.getType().getElementType().isF32() ? cast.getInput() : input;
}

// Calls `visit` for the uses of the rows of `value`, in whatever shape, as a matrix.
void forEachUseAsMatrix(Value value, function_ref<void(OpOperand &)> visit) {
  int64_t columns = shapeOf(value).back();
  SmallVector<Value> shapes = {value}; // of the same elements
  while (auto reshape = shapes.front().getDefiningOp<nn::ReshapeOp>()) {
    shapes.front() = reshape.getInput();
  }
  while (!shapes.empty()) {
    Value shape = shapes.pop_back_val();
    for (OpOperand &use : shape.getUses()) {
      if (auto reshape = dyn_cast<nn::ReshapeOp>(use.getOwner())) {
        shapes.push_back(reshape);
      } else if (typeOf(shape).getRank() == 2 && shapeOf(shape).back() == columns) {
        visit(use);
      }
    }
  }
}

class SumJoiner {
public:
  SumJoiner(func::FuncOp function, exec::Target target, int64_t leastFlops) : function(function), target(target), leastFlops(leastFlops) {}

  void run() {
    SmallVector<nn::ReduceOp> sums;
    function.walk([&](nn::ReduceOp reduce) { sums.push_back(reduce); });
    for (nn::ReduceOp reduce : sums) {
      Value rows = summedRows(reduce);
      OpOperand *use = rows && !reduce->use_empty() ? findProduct(rows, reduce) : nullptr;
      if (use) {
        join(reduce, *use);
      }
    }
  }

private:
  func::FuncOp function;
  exec::Target target;
  int64_t leastFlops;

  // Returns the use of the rows by a product that can make the sum too.
  OpOperand *findProduct(Value rows, nn::ReduceOp reduce) {
    OpOperand *found = nullptr;
    forEachUseAsMatrix(rows, [&](OpOperand &use) {
      auto product = dyn_cast<nn::MatMulOp>(use.getOwner());
      if (!found && product && contractsRows(product, use.getOperandNumber()) && canJoin(product, reduce)) {
        found = &use;
      }
    });
    return found;
  }

  static bool contractsRows(nn::MatMulOp product, unsigned operand) {
    return product.getType().getRank() == 2 && (operand == 0 ? product.getTransposeA() : !product.getTransposeB());
  }

  bool canJoin(nn::MatMulOp product, nn::ReduceOp reduce) {
    bool sameType = product.getType().getElementType() == reduce.getType().getElementType();
    bool hasEpilogue = llvm::any_of(product->getUsers(), [&](Operation *user) { return followsInProduct(user, product, target); });
    return sameType && !hasEpilogue && !product->use_empty() && isLibraryProduct(product, leastFlops, target) && placeFor(product, reduce);
  }

  // Returns where both can be computed, before all users of either; null when there is no such place.
  static Operation *placeFor(nn::MatMulOp product, nn::ReduceOp reduce) {
    if (product->isBeforeInBlock(reduce)) {
      return product;
    }
    if (isAvailable(product.getLhs(), reduce) && isAvailable(product.getRhs(), reduce)) {
      return reduce;
    }
    return isUsedBefore(reduce, product) ? nullptr : product.getOperation();
  }

  // Whether something before `limit` uses the result.
  static bool isUsedBefore(nn::ReduceOp reduce, Operation *limit) {
    return llvm::any_of(reduce->getUsers(), [&](Operation *user) { return user->isBeforeInBlock(limit); });
  }

  // Whether the value can be had at `point`: at most seen in another shape.
  static bool isAvailable(Value value, Operation *point) {
    Operation *def = value.getDefiningOp();
    while (def && !def->isBeforeInBlock(point)) {
      auto reshape = dyn_cast<nn::ReshapeOp>(def);
      if (!reshape) {
        return false;
      }
      def = reshape.getInput().getDefiningOp();
    }
    return true;
  }

  static Value makeAvailable(OpBuilder &builder, Value value, Operation *point) {
    Value source = value;
    auto reshape = value.getDefiningOp<nn::ReshapeOp>();
    for (auto next = reshape; next && !next->isBeforeInBlock(point); next = source.getDefiningOp<nn::ReshapeOp>()) {
      source = next.getInput();
    }
    return source == value ? value : nn::ReshapeOp::create(builder, reshape.getLoc(), reshape.getType(), source).getResult();
  }

  void join(nn::ReduceOp reduce, OpOperand &use) {
    auto product = cast<nn::MatMulOp>(use.getOwner());
    Operation *point = placeFor(product, reduce);
    OpBuilder builder(point);
    Value lhs = makeAvailable(builder, product.getLhs(), point), rhs = makeAvailable(builder, product.getRhs(), point);
    auto sumOf = use.getOperandNumber() == 0 ? exec::OperandSum::Lhs : exec::OperandSum::Rhs;
    auto joined = exec::ProductWithSumsOp::create(builder, product.getLoc(), product.getType(), reduce.getType(), sumOf, lhs, rhs,
                                                  product.getTransposeA(), product.getTransposeB());
    product.replaceAllUsesWith(joined.getProduct());
    reduce.replaceAllUsesWith(joined.getSums());
    product.erase();
    Operation *input = reduce.getInput().getDefiningOp();
    reduce.erase();
    if (input && isOpTriviallyDead(input)) {
      input->erase();
    }
  }
};

} // namespace

void joinSumsToProducts(func::FuncOp function, exec::Target target, int64_t leastFlops) {
  SumJoiner(function, target, leastFlops).run();
}

} // namespace ashlar::lower
