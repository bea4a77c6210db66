// SPDX-License-Identifier: Apache-2.0
//
// Expands composite ops, and gives products the form that the library or the kernels take.

#include "passes/lower/calls/join_attention.h"
#include "passes/lower/calls/library_convolution.h"
#include "passes/lower/calls/library_product.h"
#include "passes/lower/fusion/convolution_forms.h"
#include "passes/lower/fusion/product_activations.h"
#include "passes/lower/fusion/product_sums.h"
#include "passes/lower/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/nn/pairs.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace ashlar::lower {

#define GEN_PASS_DEF_EXPANDOPSPASS
#include "passes/lower/passes.h.inc"

namespace {

using namespace mlir;

// Returns `value` with its last two dims swapped.
Value swapLastDims(ImplicitLocOpBuilder &b, Value value) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
  std::swap(permutation.end()[-1], permutation.end()[-2]);
  return nn::TransposeOp::create(b, value, permutation);
}

// out[.., m, n] = sum over k of lhs[.., m, k] * rhs[.., n, k]
Value expandMatMul(ImplicitLocOpBuilder &b, nn::MatMulOp op) {
  Value lhs = op.getTransposeA() ? swapLastDims(b, op.getLhs()) : op.getLhs();
  Value rhs = op.getTransposeB() ? op.getRhs() : swapLastDims(b, op.getRhs());
  RankedTensorType type = op.getType();
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape());
  shape.push_back(typeOf(lhs).getShape().back());
  RankedTensorType product = type.clone(shape);
  auto lhsDims = llvm::to_vector(llvm::seq<int64_t>(0, rank - 2));
  auto rhsDims = lhsDims;
  lhsDims.append({rank - 2, rank});
  rhsDims.append({rank - 1, rank});
  Value multiplied =
      nn::MulOp::create(b, nn::BroadcastOp::create(b, product, lhs, lhsDims), nn::BroadcastOp::create(b, product, rhs, rhsDims));
  return nn::ReduceOp::create(b, Reduction::Sum, multiplied, ArrayRef<int64_t>{rank});
}

// Returns `permutation` with its last two entries swapped.
SmallVector<int64_t> swapLast(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> swapped(permutation);
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  return swapped;
}

// Returns the value of which `value` is the transpose of the last two dims, where it moves no elements that lie side by side apart: what is
// transposed, or it in an order whose rows are rows of the operand. Else null.
Value getTransposed(ImplicitLocOpBuilder &b, Value value) {
  auto transpose = value.getDefiningOp<nn::TransposeOp>();
  int64_t rank = typeOf(value).getRank();
  if (!transpose || rank < 2 || transpose.getPermutation()[rank - 2] != rank - 1) {
    return {};
  }
  SmallVector<int64_t> order = swapLast(transpose.getPermutation());
  bool isInOrder = llvm::equal(order, llvm::seq<int64_t>(0, rank));
  return isInOrder ? transpose.getInput() : nn::TransposeOp::create(b, transpose.getInput(), order).getResult();
}

// Takes a transpose of the last two dims into the flags of a library product.
void foldTransposes(ImplicitLocOpBuilder &b, nn::MatMulOp op) {
  if (Value input = getTransposed(b, op.getLhs())) {
    op.getLhsMutable().assign(input);
    op.setTransposeA(!op.getTransposeA());
  }
  if (Value input = getTransposed(b, op.getRhs())) {
    op.getRhsMutable().assign(input);
    op.setTransposeB(!op.getTransposeB());
  }
}

// Multiplies the other way round where the result is transposed next: transpose(x y) = transpose(y) transpose(x), whose rows are then moved
// as rows.
Value multiplyTransposed(ImplicitLocOpBuilder &b, nn::TransposeOp op) {
  auto product = op.getInput().getDefiningOp<nn::MatMulOp>();
  int64_t rank = op.getType().getRank();
  if (!product || !product->hasOneUse() || op.getPermutation()[rank - 1] != rank - 2) {
    return {};
  }
  SmallVector<int64_t> shape(product.getType().getShape()), order(op.getPermutation());
  std::swap(shape.end()[-1], shape.end()[-2]);
  Value swapped = nn::MatMulOp::create(b, product.getType().clone(shape), product.getRhs(), product.getLhs(), !product.getTransposeB(),
                                       !product.getTransposeA());
  for (int64_t &dim : order) {
    dim = dim == rank - 1 ? rank - 2 : dim == rank - 2 ? rank - 1 : dim;
  }
  return nn::TransposeOp::create(b, swapped, order);
}

// Returns `value` with all dims but the last as one.
Value mergeRows(ImplicitLocOpBuilder &b, Value value) {
  RankedTensorType type = typeOf(value);
  int64_t columns = type.getShape().back();
  return nn::ReshapeOp::create(b, type.clone({type.getNumElements() / columns, columns}), value);
}

// (batch..., m, k) x broadcast of (k, n) along the batch is one product of (batch * m, k) with (k, n): no copy of the weight.
Value mergeBatchIntoRows(ImplicitLocOpBuilder &b, nn::MatMulOp op) {
  auto broadcast = op.getRhs().getDefiningOp<nn::BroadcastOp>();
  int64_t rank = op.getType().getRank();
  if (rank < 3 || op.getTransposeA() || !broadcast || broadcast.getDims() != ArrayRef<int64_t>{rank - 2, rank - 1}) {
    return {};
  }
  Value rows = mergeRows(b, op.getLhs());
  RankedTensorType type = op.getType().clone({shapeOf(rows).front(), op.getType().getShape().back()});
  Value product = nn::MatMulOp::create(b, type, rows, broadcast.getInput(), /*transpose_a=*/false, /*transpose_b=*/op.getTransposeB());
  return nn::ReshapeOp::create(b, op.getType(), product);
}

// The sum over the batch of (batch..., k, m)^T x (batch..., k, n) is one product that contracts over (batch * k): the gradient of a weight
// that all of the batch shares, without a product for each element of it.
Value mergeBatchIntoContraction(ImplicitLocOpBuilder &b, nn::ReduceOp op) {
  auto product = op.getInput().getDefiningOp<nn::MatMulOp>();
  if (!product || !product->hasOneUse() || op.getKind() != Reduction::Sum || !product.getTransposeA() || product.getTransposeB()) {
    return {};
  }
  auto batch = llvm::to_vector(llvm::seq<int64_t>(0, product.getType().getRank() - 2));
  if (op.getDims() != ArrayRef<int64_t>(batch) || product.getType().getNumElements() == 0) {
    return {};
  }
  Value lhs = mergeRows(b, product.getLhs()), rhs = mergeRows(b, product.getRhs());
  return nn::MatMulOp::create(b, op.getType(), lhs, rhs, /*transpose_a=*/true, /*transpose_b=*/false);
}

// Returns the operand of `op` that is a product, or what follows it inside the library's call, seen in another shape with the same last
// dim, by `op` alone; null when there is none that the call could go on with.
OpOperand *getReshapedProduct(Operation *op, exec::Target target) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto reshape = operand.get().getDefiningOp<nn::ReshapeOp>();
    Operation *last = reshape && reshape->hasOneUse() ? reshape.getInput().getDefiningOp() : nullptr;
    if (last && last->hasOneUse() && followsInProduct(op, last, target) &&
        shapeOf(reshape).take_back() == shapeOf(reshape.getInput()).take_back()) {
      return &operand;
    }
  }
  return nullptr;
}

// Computes what follows a product of merged rows before the reshape, so that it can join the product: bias(reshape(p)) = reshape(bias(p)).
Value moveBeforeReshape(ImplicitLocOpBuilder &b, Operation *op, exec::Target target) {
  OpOperand *product = isPartOfProduct(op, target) ? getReshapedProduct(op, target) : nullptr;
  if (!product) {
    return {};
  }
  Value input = product->get().getDefiningOp<nn::ReshapeOp>().getInput();
  IRMapping mapping;
  mapping.map(product->get(), input);
  if (Value other = getAddend(op, product->get().getDefiningOp())) {
    Value bias = getBias(other);
    if (!bias) {
      return {};
    }
    mapping.map(other, nn::BroadcastOp::create(b, typeOf(input), bias, ArrayRef<int64_t>{typeOf(input).getRank() - 1}).getResult());
  }
  Value moved = b.clone(*op, mapping)->getResult(0);
  moved.setType(typeOf(op->getResult(0)).clone(shapeOf(input)));
  return nn::ReshapeOp::create(b, typeOf(op->getResult(0)), moved);
}

// Puts a conversion on the wider side of a change of shape, so that it joins what computes the wide value, or what reads it:
// cast(reshape(x)) ==> reshape(cast(x)) where the cast narrows, and reshape(cast(x)) ==> cast(reshape(x)) where it widens.
Value castOnWideSide(ImplicitLocOpBuilder &b, Operation *op) {
  auto bits = [](Value value) { return typeOf(value).getElementTypeBitWidth(); };
  if (auto cast = dyn_cast<nn::CastOp>(op)) {
    auto reshape = cast.getInput().getDefiningOp<nn::ReshapeOp>();
    if (!reshape || bits(cast) >= bits(reshape)) {
      return {};
    }
    Value narrow = nn::CastOp::create(b, cast.getType().clone(shapeOf(reshape.getInput())), reshape.getInput());
    return nn::ReshapeOp::create(b, cast.getType(), narrow);
  }
  auto reshape = dyn_cast<nn::ReshapeOp>(op);
  auto cast = reshape ? reshape.getInput().getDefiningOp<nn::CastOp>() : nn::CastOp();
  if (!cast || bits(cast) <= bits(cast.getInput())) {
    return {};
  }
  Value narrow = nn::ReshapeOp::create(b, cast.getInput().getType().clone(shapeOf(reshape)), cast.getInput());
  return nn::CastOp::create(b, reshape.getType(), narrow);
}

// Returns the product of operands of the type of the sums; null where they have it.
Value multiplyWide(ImplicitLocOpBuilder &b, nn::MatMulOp op) {
  RankedTensorType lhs = op.getLhs().getType(), rhs = op.getRhs().getType();
  Type sums = op.getType().getElementType();
  if (lhs.getElementType() == sums || !lhs.getElementType().isInteger()) {
    return {};
  }
  return nn::MatMulOp::create(b, op.getType(), nn::CastOp::create(b, lhs.clone(sums), op.getLhs()),
                              nn::CastOp::create(b, rhs.clone(sums), op.getRhs()), op.getTransposeA(), op.getTransposeB());
}

// Returns the result of `op` computed from operands converted to f32, and rounded to its type; null when no operand is bf16 or f16.
Value computeWide(ImplicitLocOpBuilder &b, Operation *op) {
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    if (RankedTensorType type = typeOf(operand); isNarrowFloat(type.getElementType())) {
      mapping.map(operand, nn::CastOp::create(b, type.clone(b.getF32Type()), operand).getResult());
    }
  }
  if (mapping.getValueMap().empty()) {
    return {};
  }
  Value wide = b.clone(*op, mapping)->getResult(0);
  RankedTensorType type = typeOf(wide);
  if (!isNarrowFloat(type.getElementType())) {
    return wide;
  }
  wide.setType(type.clone(b.getF32Type()));
  return nn::CastOp::create(b, type, wide);
}

struct ExpandOps : impl::ExpandOpsPassBase<ExpandOps> {
  using ExpandOpsPassBase::ExpandOpsPassBase;

  bool goesToLibrary(nn::MatMulOp op) { return isLibraryProduct(op, gemmFlops, target); }

  // Composites, and library products in the form that the library takes.
  Value expand(ImplicitLocOpBuilder &b, Operation *op) {
    if (Value scaled = scaleConvolution(b, op, target)) {
      return scaled;
    }
    const bool isCall = isa<UpdatingOpInterface>(op) && exec::traitsOf(target).insertsRows;
    if (auto composition = dyn_cast<ExpandableOpInterface>(op); composition && !isCall) {
      return composition.buildExpansion(b);
    }
    if (auto matmul = dyn_cast<nn::MatMulOp>(op); matmul && goesToLibrary(matmul)) {
      foldTransposes(b, matmul);
      return mergeBatchIntoRows(b, matmul);
    }
    return {};
  }

  // Sums of bf16 or f16 are computed in f32 and rounded once, by the library or the kernel itself where it can.
  Value sumWide(ImplicitLocOpBuilder &b, Operation *op) {
    if (auto matmul = dyn_cast<nn::MatMulOp>(op)) {
      if (goesToLibrary(matmul) && takesOperands(matmul, target)) {
        return {};
      }
      Value wide = multiplyWide(b, matmul);
      return wide ? wide : computeWide(b, op);
    }
    if (auto reduce = dyn_cast<nn::ReduceOp>(op)) {
      return reduce.getKind() == Reduction::Sum ? computeWide(b, op) : Value();
    }
    if (std::optional<nn::Convolution> conv = nn::Convolution::find(op)) {
      return isLibraryConvolution(op, target) ? convolveAsTaken(b, op, *conv) : computeWide(b, op);
    }
    return isa<nn::ScatterAddOp>(op) && !exec::traitsOf(target).scattersInRegisters ? computeWide(b, op) : Value();
  }

  // A result that is wider than what it is made of is rounded to their type, which the library takes, and half of the bytes are moved.
  Value convolveAsTaken(ImplicitLocOpBuilder &b, Operation *op, const nn::Convolution &conv) {
    if (takesOperands(conv, target)) {
      return {};
    }
    RankedTensorType type = typeOf(op->getResult(0));
    Type element = typeOf(op->getOperand(0)).getElementType();
    if (!exec::traitsOf(target).convolvesNarrow || !isNarrowFloat(element) || element != typeOf(op->getOperand(1)).getElementType()) {
      return computeWide(b, op);
    }
    Value narrow = b.clone(*op)->getResult(0);
    narrow.setType(type.clone(element));
    return nn::CastOp::create(b, type, narrow);
  }

  // Combines integers of 16 bits in i32: modulo 2^16, and in order, they are the same.
  void widenCollectives() {
    getOperation().walk([&](dist::CollectiveOpInterface op) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      Type element = typeOf(op->getOperand(0)).getElementType();
      if (!op.getReductionKind() || !element.isInteger(16)) {
        return;
      }
      for (OpOperand &operand : op->getOpOperands()) {
        operand.set(nn::CastOp::create(b, typeOf(operand.get()).clone(b.getI32Type()), operand.get()));
      }
      b.setInsertionPointAfter(op);
      for (Value result : op->getResults()) {
        auto narrow = nn::CastOp::create(b, typeOf(result), result);
        result.setType(typeOf(result).clone(b.getI32Type()));
        result.replaceAllUsesExcept(narrow, narrow);
      }
    });
  }

  // Replaces every op outside of calls for which `rewrite` makes another value.
  void rewriteOps(function_ref<Value(ImplicitLocOpBuilder &, Operation *)> rewrite) {
    SmallVector<Operation *> ops;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      ops.push_back(op);
      return isa<exec::FusionOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
    for (Operation *op : ops) {
      ImplicitLocOpBuilder b(op->getLoc(), op);
      if (Value value = rewrite(b, op)) {
        llvm::SmallSetVector<Operation *, 4> operands; // without another use they would keep others from being fused
        for (Value operand : op->getOperands()) {
          operands.insert(operand.getDefiningOp());
        }
        op->getResult(0).replaceAllUsesWith(value);
        op->erase();
        for (Operation *operand : operands) {
          if (operand && isOpTriviallyDead(operand)) {
            operand->erase();
          }
        }
      }
    }
  }

  // The runtime receives before a program runs and sends after it: between ops the slot would only keep these apart.
  static void moveTransfersOutside(Block &block) {
    SmallVector<dist::SlotOpInterface> transfers(block.getOps<dist::SlotOpInterface>());
    Operation *first = &*llvm::find_if(block, [](Operation &op) { return !isa<dist::SlotOpInterface>(op); });
    for (dist::SlotOpInterface transfer : transfers) {
      transfer->moveBefore(transfer.isSource() ? first : block.getTerminator());
    }
  }

  void runOnOperation() override {
    if (!getOperation().isExternal()) {
      moveTransfersOutside(getOperation().front());
    }
    rewriteOps([](ImplicitLocOpBuilder &, Operation *op) { // nothing below asks whose gradient a value is
      auto gradient = dyn_cast<nn::GradientOp>(op);
      return gradient ? gradient.getValue() : Value();
    });
    rewriteOps([](ImplicitLocOpBuilder &b, Operation *op) { // the product is left without a use
      auto reduce = dyn_cast<nn::ReduceOp>(op);
      return reduce ? mergeBatchIntoContraction(b, reduce) : Value();
    });
    rewriteOps([&](ImplicitLocOpBuilder &b, Operation *op) {
      auto transpose = dyn_cast<nn::TransposeOp>(op);
      auto product = transpose ? transpose.getInput().getDefiningOp<nn::MatMulOp>() : nn::MatMulOp();
      return product && goesToLibrary(product) ? multiplyTransposed(b, transpose) : Value();
    });
    joinAttention(getOperation(), target); // what is left is expanded
    rewriteOps([&](ImplicitLocOpBuilder &b, Operation *op) { return expand(b, op); });
    rewriteOps([&](ImplicitLocOpBuilder &b, Operation *op) { return sumWide(b, op); });
    if (exec::traitsOf(target).padsEvenly) {
      rewriteOps([&](ImplicitLocOpBuilder &b, Operation *op) { return isLibraryConvolution(op, target) ? padEvenly(b, op) : Value(); });
    }
    rewriteOps(nn::takePart);
    rewriteOps(castOnWideSide);
    if (exec::traitsOf(target).joinsReshaped) {
      rewriteOps([&](ImplicitLocOpBuilder &b, Operation *op) { return moveBeforeReshape(b, op, target); });
    }
    rewriteOps([&](ImplicitLocOpBuilder &b, Operation *op) {
      auto matmul = dyn_cast<nn::MatMulOp>(op);
      if (matmul) {
        return goesToLibrary(matmul) ? Value() : expandMatMul(b, matmul);
      }
      return isLibraryConvolution(op, target) ? Value() : expandConvolution(b, op);
    });
    if (!exec::traitsOf(target).combinesShort) {
      widenCollectives();
    }
    joinActivationsToProducts(getOperation(), target, gemmFlops);
    if (exec::traitsOf(target).sumsOperandRows) {
      joinSumsToProducts(getOperation(), target, gemmFlops);
    }
  }
};

} // namespace
} // namespace ashlar::lower
