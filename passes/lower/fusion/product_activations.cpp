// SPDX-License-Identifier: Apache-2.0
//
// Finds, for each product whose result one element-wise expression reads, the activation of which the expression is the gradient. The
// expression that autodiff writes for an activation is not repeated here: the op builds it again, for a gradient that stands for the
// product, and the two are compared. Changes of shape are looked through everywhere: all of it is element by element.

#include "passes/lower/fusion/product_activations.h"
#include "passes/lower/calls/epilogue.h"
#include "passes/lower/calls/library_product.h"
#include "passes/lower/kernels/fusible.h"

#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/support/op_interfaces.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

using namespace mlir;

namespace ashlar::lower {
namespace {

// Columns of a product with an auxiliary tensor: cuBLASLt asks for a multiple of 8, and kernels that replace its epilogues work on so many.
constexpr int64_t kColumnsMultiple = 8;

// Element-wise ops between a product and the gradient of an activation: conversions and a multiplication.
constexpr int kMostSteps = 4;

// Values of an expression that are looked at for an activation.
constexpr size_t kMostValues = 64;

Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>()) {
    value = reshape.getInput();
  }
  return value;
}

// Whether a mask is the auxiliary tensor of an activation; else its operand is.
bool isRelu(Operation *activation) {
  return epilogueOf(activation) == exec::Epilogue::Relu;
}

// Returns the value in this shape.
Value reshaped(OpBuilder &builder, Value value, Type type) {
  return value.getType() == type ? value : nn::ReshapeOp::create(builder, value.getLoc(), type, value).getResult();
}

// Erases an op that nothing uses, and the ops that only it used.
void eraseUnused(Operation *op) {
  SmallVector<Operation *> pending = {op};
  while (!pending.empty()) {
    Operation *unused = pending.pop_back_val();
    SmallVector<Value> operands = llvm::to_vector(unused->getOperands());
    unused->erase();
    for (Value operand : llvm::SmallPtrSet<Value, 4>(operands.begin(), operands.end())) {
      if (Operation *def = operand.getDefiningOp(); def && isOpTriviallyDead(def)) {
        pending.push_back(def);
      }
    }
  }
}

// The gradient of an activation, built in a block of its own for a gradient of the activation's result that stands for any value.
class Expected {
public:
  explicit Expected(Operation *activation) {
    OpBuilder builder(activation->getContext());
    builder.setInsertionPointToEnd(&block);
    gradient = block.addArgument(activation->getResult(0).getType(), activation->getLoc());
    cast<GradientOpInterface>(activation).buildGradients(builder, gradient, MutableArrayRef(root));
  }

  // Whether `value` is the expression, with `product` in place of the gradient of the result.
  bool matches(Value value, Value product) const {
    SmallVector<std::pair<Value, Value>> pending = {{root, value}};
    DenseSet<std::pair<Value, Value>> seen;
    while (!pending.empty()) {
      auto [wanted, found] = pending.pop_back_val();
      found = withoutReshapes(found);
      Operation *expected = wanted.getDefiningOp(), *op = found.getDefiningOp();
      if (wanted == gradient || !expected || expected->getBlock() != &block) { // the product, or a value outside
        if (found != withoutReshapes(wanted == gradient ? product : wanted)) {
          return false;
        }
        continue;
      }
      if (!op || !isSameOp(expected, op)) {
        return false;
      }
      for (auto [operand, other] : llvm::zip_equal(expected->getOperands(), op->getOperands())) {
        if (seen.insert({operand, other}).second) {
          pending.push_back({operand, other});
        }
      }
    }
    return true;
  }

private:
  Block block;
  Value gradient, root;

  // Whether two ops do the same to each element.
  static bool isSameOp(Operation *a, Operation *b) {
    if (a->getName() != b->getName() || a->getNumOperands() != b->getNumOperands() ||
        typeOf(a->getResult(0)).getElementType() != typeOf(b->getResult(0)).getElementType()) {
      return false;
    }
    if (auto constant = dyn_cast<nn::ConstantOp>(a)) {
      auto one = dyn_cast<SplatElementsAttr>(constant.getValue()), other = dyn_cast<SplatElementsAttr>(cast<nn::ConstantOp>(b).getValue());
      return one && other && one.getSplatValue<Attribute>() == other.getSplatValue<Attribute>();
    }
    return a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute();
  }
};

// A product that computes the operand of an activation.
struct ForwardProduct {
  nn::MatMulOp product;
  Value bias; // null: none
  Value sum;  // the operand, in the product's shape
};

class ActivationJoiner {
public:
  ActivationJoiner(func::FuncOp function, exec::Target target, int64_t leastFlops)
      : function(function), target(target), leastFlops(leastFlops) {}

  void run() {
    SmallVector<nn::MatMulOp> products;
    function.walk([&](Operation *op) {
      if (auto product = dyn_cast<nn::MatMulOp>(op)) {
        products.push_back(product);
      } else if (llvm::is_contained(exec::traitsOf(target).slopes, epilogueOf(op))) {
        activations[knownBy(op)] = op;
        inOrder.push_back(op);
      }
    });
    for (nn::MatMulOp product : products) { // what joins a product is before it: none of those that follow is erased
      if (!activations.empty() && takes(product)) {
        joinGradient(product);
      }
    }
    for (Operation *activation : inOrder) {
      if (!joined.contains(activation) && !isRelu(activation)) {
        std::optional<ForwardProduct> forward = findProduct(activation);
        if (forward && !isReadOnlyBy(forward->sum, activation)) {
          joinActivation(activation, *forward);
        }
      }
    }
  }

private:
  func::FuncOp function;
  exec::Target target;
  int64_t leastFlops;
  DenseMap<Value, Operation *> activations; // by the value that their gradients read
  SmallVector<Operation *> inOrder;
  DenseSet<Operation *> joined; // and erased

  // Returns the value of an activation that its gradient reads.
  static Value knownBy(Operation *activation) {
    return isRelu(activation) ? activation->getResult(0) : withoutReshapes(activation->getOperand(0));
  }

  // Whether the library can give this product an auxiliary tensor.
  bool takes(nn::MatMulOp product) {
    RankedTensorType type = product.getType();
    return type.getRank() == 2 && type.getDimSize(1) % kColumnsMultiple == 0 && isa<FloatType>(type.getElementType()) &&
           product.getLhs().getType().getElementType() == type.getElementType() && takesOperands(product, target) &&
           isLibraryProduct(product, leastFlops, target);
  }

  // Whether nothing but the op reads a value, in whatever shape.
  static bool isReadOnlyBy(Value value, Operation *op) {
    while (value.hasOneUse() && isa<nn::ReshapeOp>(*value.user_begin())) {
      value = (*value.user_begin())->getResult(0);
    }
    return value.hasOneUse() && *value.user_begin() == op;
  }

  std::optional<ForwardProduct> findProduct(Operation *activation) {
    ForwardProduct forward;
    forward.sum = withoutReshapes(activation->getOperand(0));
    Operation *last = forward.sum.getDefiningOp();
    if (auto add = dyn_cast_if_present<nn::AddOp>(last)) {
      for (Value operand : add->getOperands()) {
        if (auto product = operand.getDefiningOp<nn::MatMulOp>(); product && product->hasOneUse()) {
          forward.product = product;
          forward.bias = getBias(getAddend(add, product));
        }
      }
      if (!forward.bias) {
        return std::nullopt;
      }
    } else {
      forward.product = dyn_cast_if_present<nn::MatMulOp>(last);
    }
    bool isOne = forward.product && takes(forward.product) && (!isRelu(activation) || isReadOnlyBy(forward.sum, activation));
    return isOne ? std::optional(forward) : std::nullopt;
  }

  // Joins the gradient of an activation to the product that it multiplies, and the activation to the product of its own.
  void joinGradient(nn::MatMulOp product) {
    Value value = product.getResult();
    for (int steps = 0; steps < kMostSteps && value.hasOneUse();) {
      Operation *user = *value.user_begin();
      value = user->getNumResults() == 1 ? user->getResult(0) : Value();
      if (isa<nn::ReshapeOp>(user)) {
        continue;
      }
      if (!isElementwise(user)) {
        return;
      }
      ++steps;
      Operation *activation =
          typeOf(value).getElementType() == product.getType().getElementType() ? findActivation(value, product) : nullptr;
      std::optional<ForwardProduct> forward = activation ? findProduct(activation) : std::nullopt;
      if (forward && isBefore(*forward, product) && typeOf(forward->sum) == product.getType()) {
        activations.erase(knownBy(activation));
        joined.insert(activation);
        exec::Epilogue kind = epilogueOf(activation);
        multiplyBySlope(value, product, kind, joinActivation(activation, *forward));
        return;
      }
    }
  }

  static bool isBefore(const ForwardProduct &forward, nn::MatMulOp product) {
    Operation *last = forward.sum.getDefiningOp();
    return last->getBlock() == product->getBlock() && last->isBeforeInBlock(product);
  }

  // Returns the activation of which `value` is the gradient, where that of its result is the product; null when there is none.
  Operation *findActivation(Value value, nn::MatMulOp product) {
    llvm::SetVector<Value> values;
    values.insert(value);
    for (size_t i = 0; i < values.size() && values.size() < kMostValues; ++i) {
      Value each = withoutReshapes(values[i]);
      if (Operation *activation = activations.lookup(each); activation && Expected(activation).matches(value, product)) {
        return activation;
      }
      if (Operation *def = each.getDefiningOp(); def && isElementwise(def)) {
        values.insert(def->operand_begin(), def->operand_end());
      }
    }
    return nullptr;
  }

  // Computes an activation by its product; returns the auxiliary tensor.
  Value joinActivation(Operation *activation, const ForwardProduct &forward) {
    nn::MatMulOp product = forward.product;
    exec::Epilogue kind = epilogueOf(activation);
    const bool isMask = isRelu(activation);
    OpBuilder builder(forward.sum.getDefiningOp());
    auto both =
        exec::ProductWithAuxiliaryOp::create(builder, FusedLoc::get(builder.getContext(), {product.getLoc(), activation->getLoc()}),
                                             product.getType(), exec::getAuxiliaryType(kind, product.getType()), kind, product.getLhs(),
                                             product.getRhs(), forward.bias, product.getTransposeA(), product.getTransposeB());
    activation->getResult(0).replaceAllUsesWith(reshaped(builder, both.getProduct(), activation->getResult(0).getType()));
    eraseUnused(activation);
    if (!isMask) { // else nothing else reads the operand
      Value sum = forward.sum;
      sum.replaceAllUsesWith(both.getAuxiliary());
      eraseUnused(sum.getDefiningOp());
    }
    return both.getAuxiliary();
  }

  // Computes a gradient by the product that it multiplies.
  void multiplyBySlope(Value gradient, nn::MatMulOp product, exec::Epilogue kind, Value auxiliary) {
    OpBuilder builder(product);
    auto multiplied = exec::ProductWithSlopeOp::create(builder, FusedLoc::get(builder.getContext(), {product.getLoc(), gradient.getLoc()}),
                                                       product.getType(), kind, product.getLhs(), product.getRhs(), auxiliary,
                                                       product.getTransposeA(), product.getTransposeB());
    gradient.replaceAllUsesWith(reshaped(builder, multiplied.getProduct(), gradient.getType()));
    eraseUnused(gradient.getDefiningOp());
  }
};

} // namespace

void joinActivationsToProducts(func::FuncOp function, exec::Target target, int64_t leastFlops) {
  if (!exec::traitsOf(target).slopes.empty()) {
    ActivationJoiner(function, target, leastFlops).run();
  }
}

} // namespace ashlar::lower
