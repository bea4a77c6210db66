// SPDX-License-Identifier: Apache-2.0
//
// -ashlar-recognize-attention; see passes.td and docs/attention.md.

#include "passes/train/attention_mask.h"
#include "passes/train/dead_ops.h"
#include "passes/train/passes.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/target_traits.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "dialects/support/names.h"
#include "dialects/support/rule_set.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace ashlar::train {

#define GEN_PASS_DEF_RECOGNIZEATTENTIONPASS
#include "passes/train/passes.h.inc"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A mask of scores, as the program has it.
struct Mask {
  Value value;
  bool isBool, isInverted;    // of bools: inverted where true hides a key
  double hidden = -kInfinity; // of bools: what stands instead of the score
};

// An attention of the program: what it is of, and the ops whose results are its scores and weights.
struct Attention {
  nn::MatMulOp last;       // of the weights and the values
  Value query, key, value; // the key as (batch..., width, keys) with `isKeyTransposed`
  bool isKeyTransposed = false;
  double scale = 1;
  SmallVector<Mask> masks;
  SmallVector<Operation *> inner;
};

// Returns the operand of a conversion between floats.
Value convertedFrom(Operation *op) {
  auto cast = dyn_cast<nn::CastOp>(op);
  return cast && isa<FloatType>(typeOf(cast.getInput()).getElementType()) && isa<FloatType>(cast.getType().getElementType())
             ? cast.getInput()
             : Value();
}

// The operand of a product or quotient by one number, and that as a factor.
struct Scaled {
  Value value;
  double factor;
};

std::optional<Scaled> scaledFrom(Operation *op) {
  if (!isa<nn::MulOp, nn::DivOp>(op) || !isa<FloatType>(typeOf(op->getResult(0)).getElementType())) {
    return std::nullopt;
  }
  if (std::optional<double> factor = splatOfValue(op->getOperand(1))) {
    return Scaled{op->getOperand(0), isa<nn::MulOp>(op) ? *factor : 1 / *factor};
  }
  std::optional<double> factor = isa<nn::MulOp>(op) ? splatOfValue(op->getOperand(0)) : std::nullopt;
  return factor ? std::optional(Scaled{op->getOperand(1), *factor}) : std::nullopt;
}

bool swapsLastDims(nn::TransposeOp op) {
  const int64_t rank = op.getType().getRank();
  auto swapped = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (rank < 2) {
    return false;
  }
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  return op.getPermutation() == ArrayRef(swapped);
}

// Follows an attention from its last product to its first one. Each op on the way has one operand that is on the way, too; where an op has
// two that may be, the one that a product is found from.
class Matcher {
public:
  explicit Matcher(DenseSet<Value> trained) : trained(std::move(trained)) {}

  std::optional<Attention> match(nn::MatMulOp last) {
    Attention found;
    found.last = last;
    found.value = last.getRhs();
    if (last.getTransposeA() || last.getTransposeB() || isPlaced(last)) {
      return std::nullopt;
    }
    Value weights = last.getLhs();
    while (Operation *op = enter(found, weights)) {
      if (auto softmax = dyn_cast<nn::SoftmaxOp>(op)) {
        return matchScores(found, softmax.getInput()) && hasTypes(found) ? std::optional(found) : std::nullopt;
      }
      weights = convertedFrom(op);
      if (!weights) {
        break;
      }
    }
    return std::nullopt;
  }

private:
  // A model of mode HYBRID gives its tensors layouts.
  static bool isPlaced(Operation *op) { return op->hasAttr(dist::kExplicitAttr) || op->hasAttr(dist::kOperandLayoutsAttr); }

  // Returns the op that makes a score or weight, unless something else reads it.
  Operation *enter(Attention &found, Value value) {
    Operation *op = value ? value.getDefiningOp() : nullptr;
    if (!op || !value.hasOneUse() || isPlaced(op)) {
      return nullptr;
    }
    found.inner.push_back(op);
    return op;
  }

  // Whether a value is a product of matrices, converted, scaled and masked.
  static bool comesFromProduct(Value value) {
    constexpr size_t kMostOps = 16;
    SmallVector<Value> pending = {value};
    for (size_t next = 0; next < pending.size() && next < kMostOps; ++next) {
      Operation *op = pending[next].getDefiningOp();
      if (isa_and_nonnull<nn::MatMulOp>(op)) {
        return true;
      }
      if (isa_and_nonnull<nn::CastOp, nn::MulOp, nn::DivOp, nn::AddOp, nn::SelectOp>(op)) {
        llvm::append_range(pending, op->getOperands());
      }
    }
    return false;
  }

  bool matchScores(Attention &found, Value scores) {
    while (Operation *op = enter(found, scores)) {
      if (auto product = dyn_cast<nn::MatMulOp>(op)) {
        return matchProduct(found, product);
      }
      scores = llvm::TypeSwitch<Operation *, Value>(op)
                   .Case<nn::CastOp>([](nn::CastOp cast) { return convertedFrom(cast); })
                   .Case<nn::MulOp, nn::DivOp>([&](Operation *scale) { return scaledBefore(found, scale); })
                   .Case<nn::AddOp>([&](nn::AddOp add) { return maskedByAdding(found, add); })
                   .Case<nn::SelectOp>([&](nn::SelectOp select) { return maskedByChoice(found, select); })
                   .Default([](Operation *) { return Value(); });
    }
    return false;
  }

  Value scaledBefore(Attention &found, Operation *op) {
    std::optional<Scaled> scaled = scaledFrom(op);
    if (!scaled) {
      return {};
    }
    found.scale *= scaled->factor;
    return scaled->value;
  }

  // A mask that a scale follows is another one: none is found behind a scale.
  Value addMask(Attention &found, const Mask &mask, Value scores) {
    if (found.scale != 1 || trained.contains(mask.value)) {
      return {};
    }
    found.masks.push_back(mask);
    return scores;
  }

  Value maskedByAdding(Attention &found, nn::AddOp add) {
    const bool isLeft = comesFromProduct(add.getLhs()), isRight = comesFromProduct(add.getRhs());
    if (isLeft == isRight) {
      return {};
    }
    Value mask = isLeft ? add.getRhs() : add.getLhs();
    return addMask(found, {mask, /*isBool=*/false, /*isInverted=*/false}, isLeft ? add.getLhs() : add.getRhs());
  }

  Value maskedByChoice(Attention &found, nn::SelectOp select) {
    std::optional<double> onTrue = splatOfValue(select.getOnTrue()), onFalse = splatOfValue(select.getOnFalse());
    std::optional<double> hidden = onTrue ? onTrue : onFalse;
    if (onTrue.has_value() == onFalse.has_value() || !(*hidden <= kHidesKey)) {
      return {};
    }
    Mask mask{select.getCondition(), /*isBool=*/true, /*isInverted=*/onTrue.has_value(), *hidden};
    return addMask(found, mask, onTrue ? select.getOnFalse() : select.getOnTrue());
  }

  // The product's operands without their scales.
  bool matchProduct(Attention &found, nn::MatMulOp product) {
    if (product.getTransposeA()) {
      return false;
    }
    found.isKeyTransposed = !product.getTransposeB();
    found.query = product.getLhs();
    found.key = product.getRhs();
    takeScale(found, found.query);
    takeScale(found, found.key);
    return std::isfinite(found.scale);
  }

  // Replaces a query or key by what it was before the last number that multiplies it, behind conversions or not. Its transpose, where it
  // has one in between, changes which way round the key is.
  void takeScale(Attention &found, Value &operand) {
    const bool isKey = &operand == &found.key;
    double factor = 1;
    bool isTransposed = isKey && found.isKeyTransposed;
    Value value = operand;
    while (Operation *op = value.getDefiningOp()) {
      auto transpose = dyn_cast<nn::TransposeOp>(op);
      if (std::optional<Scaled> scaled = scaledFrom(op)) {
        factor *= scaled->factor;
        value = scaled->value;
        found.scale *= std::exchange(factor, 1);
        found.isKeyTransposed = isKey ? isTransposed : found.isKeyTransposed;
        operand = value;
      } else if (Value wide = convertedFrom(op)) {
        value = wide;
      } else if (isKey && isTransposed && transpose && swapsLastDims(transpose)) {
        isTransposed = false;
        value = transpose.getInput();
      } else {
        break;
      }
    }
  }

  // Whether query, key and value of one type give the result; a conversion of the scores to f64 asks for sums in f64.
  bool hasTypes(const Attention &found) const {
    auto product = cast<nn::MatMulOp>(found.inner.back());
    nn::MatMulOp last = found.last;
    Type element = product.getLhs().getType().getElementType(), result = last.getType().getElementType();
    if (!isa<FloatType>(element) || typeOf(found.value).getElementType() != element ||
        !(result == element || (isNarrowFloat(element) && result.isF32()))) {
      return false;
    }
    return element.isF64() || llvm::none_of(found.inner, [](Operation *op) { return typeOf(op->getResult(0)).getElementType().isF64(); });
  }

  DenseSet<Value> trained;
};

// Returns the values that depend on a trainable variable.
DenseSet<Value> findTrained(func::FuncOp function) {
  SymbolTable symbols(function->getParentOfType<ModuleOp>());
  DenseSet<Value> trained;
  for (Operation &op : function.front()) {
    auto read = dyn_cast<nn::ReadOp>(op);
    auto variable = read ? symbols.lookup<nn::VariableOp>(read.getVariable()) : nn::VariableOp();
    if ((variable && variable.getTrainable()) || llvm::any_of(op.getOperands(), [&](Value operand) { return trained.contains(operand); })) {
      trained.insert(op.result_begin(), op.result_end());
    }
  }
  return trained;
}

// Puts the attention ops into a function.
class Rewriter {
public:
  // `callsOf`: a target whose library has to take them; none: it may write them out again.
  explicit Rewriter(std::optional<exec::Target> callsOf) : callsOf(callsOf) {}

  // The operands of the ops besides query, key and value.
  struct Form {
    std::optional<int64_t> diagonal; // of a causal one
    Value mask;
  };

  // Rewrites one attention; leaves it where its masks are none of the ops', and where no library takes it.
  void rewrite(const Attention &found) {
    nn::MatMulOp last = found.last;
    ImplicitLocOpBuilder b(last.getLoc(), last);
    std::optional<Form> form = readMasks(b, found);
    if (!form) {
      return;
    }
    Type element = typeOf(found.value).getElementType();
    Value query = as(b, element, found.query), key = as(b, element, found.isKeyTransposed ? swapLast(b, found.key) : found.key);
    RankedTensorType mask = form->mask ? typeOf(form->mask) : RankedTensorType();
    if (callsOf && (last.getType().getElementType() != element ||
                    !exec::takesAttention(*callsOf, typeOf(query), typeOf(key), typeOf(found.value), mask, form->diagonal))) {
      return;
    }
    llvm::APFloat scale(found.scale);
    const bool isCausal = form->diagonal.has_value();
    const int64_t diagonal = form->diagonal.value_or(0);
    Value logSum = nn::AttentionLogSumOp::create(b, query, key, form->mask, scale, isCausal, diagonal);
    auto result = nn::AttentionOp::create(b, last.getType(), query, key, found.value, logSum, form->mask, scale, isCausal, diagonal);
    result->setDiscardableAttrs(last->getDiscardableAttrDictionary());
    last.replaceAllUsesWith(result.getResult());
    last.erase();
  }

private:
  static Value as(ImplicitLocOpBuilder &b, Type element, Value value) {
    return typeOf(value).getElementType() == element ? value : nn::CastOp::create(b, typeOf(value).clone(element), value).getResult();
  }

  // Returns a value with its last two dims swapped, through the transpose that it is of.
  static Value swapLast(ImplicitLocOpBuilder &b, Value value) {
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()));
    auto transpose = value.getDefiningOp<nn::TransposeOp>();
    if (transpose) {
      if (swapsLastDims(transpose)) {
        return transpose.getInput();
      }
      permutation.assign(transpose.getPermutation().begin(), transpose.getPermutation().end());
      value = transpose.getInput();
    }
    std::swap(permutation.end()[-1], permutation.end()[-2]);
    return nn::TransposeOp::create(b, value, permutation);
  }

  // Takes causal masks as such, and one other as an operand. A key that a finite number hides is still seen where another mask hides all
  // others, so that such a causal mask is one only by itself.
  std::optional<Form> readMasks(ImplicitLocOpBuilder &b, const Attention &found) {
    Form form;
    bool isInfinite = true;
    for (const Mask &mask : found.masks) {
      Value small = withoutRepeats(b, mask.value);
      std::optional<CausalMask> causal = isWhole(small, mask.value) ? causals.find(mask.value, mask.isInverted) : std::nullopt;
      if (causal) {
        isInfinite &= mask.isBool ? std::isinf(mask.hidden) : causal->isInfinite;
        if (causal->diagonal) {
          form.diagonal = std::min(form.diagonal.value_or(INT64_MAX), *causal->diagonal);
        }
      } else if (form.mask) {
        return std::nullopt;
      } else {
        form.mask = mask.isBool ? maskOfBools(b, mask, small) : small;
      }
    }
    return form.mask && form.diagonal && !isInfinite ? std::nullopt : std::optional(form);
  }

  // Whether the small form of a mask has a row of keys for each query, of which causal masks consist.
  static bool isWhole(Value small, Value mask) { return shapeOf(small).take_back(2) == shapeOf(mask).take_back(2); }

  // Returns bools that are true for keys that are seen; or where a finite number hides the others, which may be all keys of a row, that
  // number for them.
  static Value maskOfBools(ImplicitLocOpBuilder &b, const Mask &mask, Value small) {
    if (std::isinf(mask.hidden)) {
      return mask.isInverted ? nn::NotOp::create(b, small).getResult() : small;
    }
    RankedTensorType type = typeOf(small).clone(b.getF32Type());
    Value shown = nn::ConstantOp::create(b, nn::splat(type, 0)), hidden = nn::ConstantOp::create(b, nn::splat(type, mask.hidden));
    return nn::SelectOp::create(b, type, small, mask.isInverted ? hidden : shown, mask.isInverted ? shown : hidden);
  }

  std::optional<exec::Target> callsOf;
  CausalMasks causals;
};

// The names that rules may match and that are gone once attentions are rewritten.
class InnerNames {
public:
  InnerNames(ModuleOp module, ArrayRef<Attention> attentions) {
    DenseSet<Operation *> inner;
    for (const Attention &attention : attentions) {
      inner.insert(attention.inner.begin(), attention.inner.end());
    }
    module.walk([&](Operation *op) {
      if (!inner.contains(op)) {
        forEachName(op, [&](StringRef name) { staying.insert(name); });
      }
      if (auto symbol = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName())) { // of parameters
        staying.insert(symbol.getValue());
      }
      if (auto function = dyn_cast<func::FuncOp>(op)) {
        addArguments(function);
      }
    });
  }

  // Whether a glob matches names of an attention, and none that stays.
  bool needs(StringRef glob, const Attention &attention) const {
    auto matches = [&](StringRef name) { return matchesGlob(glob, name) || matchModule(glob, name); };
    bool isOfInner = llvm::any_of(attention.inner, [&](Operation *op) {
      bool any = false;
      forEachName(op, [&](StringRef name) { any |= matches(name); });
      return any;
    });
    return isOfInner && llvm::none_of(staying, [&](const auto &entry) { return matches(entry.getKey()); });
  }

  // Whether a glob names an op of an attention whose operands become others.
  static bool namesProduct(StringRef glob, const Attention &attention) {
    nn::MatMulOp last = attention.last;
    return matchesGlob(glob, nn::getPath(last->getLoc())) ||
           llvm::any_of(attention.inner, [&](Operation *op) { return matchesGlob(glob, nn::getPath(op->getLoc())); });
  }

private:
  void addArguments(func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      if (auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr)) {
        staying.insert(name.getValue());
      }
    }
  }

  // The names of the results of an op, and its path.
  static void forEachName(Operation *op, function_ref<void(StringRef)> visit) {
    for (StringRef attribute : {nn::kOutputsAttr, nn::kAliasesAttr}) {
      if (auto names = op->getAttrOfType<ArrayAttr>(attribute)) {
        llvm::for_each(names.getAsRange<StringAttr>(), [&](StringAttr name) { visit(name.getValue()); });
      }
    }
    if (StringRef path = nn::getPath(op->getLoc()); !path.empty()) {
      visit(path);
    }
  }

  llvm::StringSet<> staying;
};

struct RecognizeAttentionPass : public impl::RecognizeAttentionPassBase<RecognizeAttentionPass> {
  using RecognizeAttentionPassBase::RecognizeAttentionPassBase;

  void runOnOperation() override {
    SmallVector<Attention> attentions;
    for (StringRef name : {nn::kForward, nn::kLargerForward}) {
      if (auto function = getOperation().lookupSymbol<func::FuncOp>(name)) {
        Matcher matcher(findTrained(function));
        function.walk([&](nn::MatMulOp op) {
          if (std::optional<Attention> found = matcher.match(op)) {
            attentions.push_back(*found);
          }
        });
      }
    }
    InnerNames names(getOperation(), attentions);
    Rewriter rewriter(onlyCalls ? std::optional(target.getValue()) : std::nullopt);
    for (const Attention &attention : attentions) {
      if (!isNamed(names, attention)) {
        rewriter.rewrite(attention);
      }
    }
    for (StringRef name : {nn::kForward, nn::kLargerForward}) {
      if (auto function = getOperation().lookupSymbol<func::FuncOp>(name)) {
        eraseDeadOps(function);
      }
    }
  }

  // Whether a rule of the job or of the model would match nothing, or other operands, without the products of an attention.
  bool isNamed(const InnerNames &names, const Attention &attention) {
    auto needs = [&](StringRef glob) { return names.needs(glob, attention); };
    auto namesProduct = [&](StringRef glob) { return InnerNames::namesProduct(glob, attention); };
    if (llvm::any_of(rules, needs) || llvm::any_of(countedRules, namesProduct)) {
      return true;
    }
    auto ofModel = getOperation()->getAttrOfType<ArrayAttr>(dist::kRulesAttr);
    return ofModel && llvm::any_of(ofModel.getAsRange<dist::RuleAttr>(), [&](dist::RuleAttr rule) {
             return needs(rule.getMatch()) || (!rule.getLayout() && namesProduct(rule.getMatch()));
           });
  }
};

} // namespace

} // namespace ashlar::train
