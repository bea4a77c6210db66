// SPDX-License-Identifier: Apache-2.0
//
// See attention_matcher.h and docs/attention.md.

#include "passes/train/attention_matcher.h"

#include "dialects/dist/dist.h"
#include "dialects/support/element_type.h"
#include "dialects/support/reference_tensor.h"
#include "dialects/support/tensor_values.h"
#include "passes/train/attention_mask.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <utility>

using namespace mlir;

namespace ashlar::train {

namespace {

// Whether a reshape makes the heads of each group rows.
bool joinsHeads(ArrayRef<int64_t> apart, ArrayRef<int64_t> joined) {
  const size_t rank = apart.size();
  return rank >= 3 && joined.size() == rank && apart.drop_back(3) == joined.drop_back(3) && apart.back() == joined.back() &&
         joined[rank - 3] != 0 && apart[rank - 3] % joined[rank - 3] == 0 &&
         joined[rank - 2] == apart[rank - 3] / joined[rank - 3] * apart[rank - 2];
}

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

// Returns the dropout by whose factors, 0 or 1 / (1 - ratio), weights are multiplied; nothing where they are others.
std::optional<AttentionDropout> dropoutBy(Value factors, bool isTrainingOnly) {
  while (Value wide = factors.getDefiningOp() ? convertedFrom(factors.getDefiningOp()) : Value()) {
    factors = wide;
  }
  auto select = factors.getDefiningOp<nn::SelectOp>();
  auto isKept = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nn::CompareOp();
  auto drawn = isKept ? isKept.getLhs().getDefiningOp<nn::RandomOp>() : nn::RandomOp();
  if (!drawn || isKept.getPredicate() != nn::Predicate::Ge || drawn.getDistribution() != nn::Distribution::Uniform ||
      !drawn.getIndex().getDefiningOp<nn::IndexOp>()) {
    return std::nullopt;
  }
  std::optional<double> ratio = splatOfValue(isKept.getRhs()), kept = splatOfValue(select.getOnTrue()),
                        dropped = splatOfValue(select.getOnFalse());
  const bool isRatio = ratio && *ratio > 0 && *ratio < 1;
  if (!isRatio || !kept || dropped != 0.0 || *kept != reference::roundTo(select.getType().getElementType(), 1 / (1 - *ratio))) {
    return std::nullopt;
  }
  return AttentionDropout{drawn, *ratio, isTrainingOnly};
}

// Follows an attention from its last product to its first one. Each op on the way has one operand that is on the way, too; where an op has
// two that may be, the one that a product is found from.
class Matcher {
public:
  explicit Matcher(const DenseSet<Value> &trained) : trained(trained) {}

  std::optional<Attention> match(nn::MatMulOp last) {
    Attention found;
    found.last = last;
    found.value = last.getRhs();
    if (last.getTransposeA() || last.getTransposeB() || dist::isPlaced(last)) {
      return std::nullopt;
    }
    Value weights = last.getLhs();
    unsigned uses = 1;
    while (Operation *op = enter(found, weights, uses)) {
      if (auto softmax = dyn_cast<nn::SoftmaxOp>(op)) {
        const bool isOne = matchScores(found, softmax.getInput()) && hasTypes(found) && drawsWeights(found, softmax.getType()) &&
                           (!found.zeroedRows || shapeOf(found.zeroedRows) == softmax.getType().getShape());
        return isOne ? std::optional(found) : std::nullopt;
      }
      weights = isa<nn::ReshapeOp>(op)  ? headsBefore(found, op)
                : isa<nn::MulOp>(op)    ? keptBefore(found, op)
                : isa<nn::SelectOp>(op) ? rowsBefore(found, cast<nn::SelectOp>(op))
                                        : convertedFrom(op);
      uses = isNanTest(op) ? 3 : 1; // the comparison with itself takes them twice
      if (!weights) {
        break;
      }
    }
    return std::nullopt;
  }

private:
  // Returns the op that makes a score or weight, unless something else reads it.
  Operation *enter(Attention &found, Value value, unsigned uses = 1) {
    Operation *op = value ? value.getDefiningOp() : nullptr;
    if (!op || !value.hasNUses(uses) || dist::isPlaced(op)) {
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
      if (isa_and_nonnull<nn::CastOp, nn::MulOp, nn::DivOp, nn::AddOp, nn::SelectOp, nn::ReshapeOp, nn::TanhOp>(op)) {
        llvm::append_range(pending, op->getOperands());
      }
    }
    return false;
  }

  // The weights of the heads, which the last product takes in groups.
  static Value headsBefore(Attention &found, Operation *reshape) {
    ArrayRef<int64_t> apart = shapeOf(reshape->getOperand(0)), joined = shapeOf(reshape->getResult(0));
    if (!found.joined.empty() || !joinsHeads(apart, joined)) {
      return {};
    }
    found.apart.assign(apart.begin(), apart.end());
    found.joined.assign(joined.begin(), joined.end());
    return reshape->getOperand(0);
  }

  // The weights of which a dropout leaves some out. It draws for the heads, not for the rows of groups.
  static Value keptBefore(Attention &found, Operation *op) {
    for (unsigned i : {0, 1}) {
      const bool isOnly = op->hasAttr(nn::kTrainingOnlyAttr);
      found.dropout = found.dropout || (isOnly && i == 1) ? std::nullopt : dropoutBy(op->getOperand(1 - i), isOnly);
      if (found.dropout) {
        return op->getOperand(i);
      }
    }
    return {};
  }

  // Whether an op puts something else where a value is NaN: select(x != x, ..., x).
  static bool isNanTest(Operation *op) {
    auto select = dyn_cast<nn::SelectOp>(op);
    auto compare = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nn::CompareOp();
    return compare && compare.getPredicate() == nn::Predicate::Ne && compare.getLhs() == compare.getRhs() &&
           compare.getLhs() == select.getOnFalse() && compare->hasOneUse() && !dist::isPlaced(compare);
  }

  // The weights of which some rows are 0 instead: where a row sees no key, as ONNX's Attention has them, or those of NaN, which are the
  // same, as torch's exporter has them.
  static Value rowsBefore(Attention &found, nn::SelectOp select) {
    if (isNanTest(select) && !found.zeroesNan && splatOfValue(select.getOnTrue()) == 0.0) {
      found.zeroesNan = true;
      found.inner.push_back(select.getCondition().getDefiningOp());
      return select.getOnFalse();
    }
    auto rows = select.getCondition().getDefiningOp<nn::BroadcastOp>();
    const bool isOfRows = rows && !llvm::is_contained(rows.getDims(), rows.getType().getRank() - 1);
    if (found.zeroedRows || !isOfRows || dist::isPlaced(rows) || splatOfValue(select.getOnTrue()) != 0.0) {
      return {};
    }
    found.zeroedRows = rows;
    return select.getOnFalse();
  }

  // The scores of the groups, as the first product makes them.
  static Value groupsBefore(Attention &found, Operation *reshape) {
    const bool isBack = !found.joined.empty() && shapeOf(reshape->getOperand(0)) == ArrayRef(found.joined) &&
                        shapeOf(reshape->getResult(0)) == ArrayRef(found.apart);
    if (!isBack || std::exchange(found.isJoined, true)) {
      return {};
    }
    return reshape->getOperand(0);
  }

  bool matchScores(Attention &found, Value scores) {
    while (Operation *op = enter(found, scores)) {
      if (auto product = dyn_cast<nn::MatMulOp>(op)) {
        return matchProduct(found, product);
      }
      scores = llvm::TypeSwitch<Operation *, Value>(op)
                   .Case<nn::CastOp>([](nn::CastOp cast) { return convertedFrom(cast); })
                   .Case<nn::ReshapeOp>([&](nn::ReshapeOp reshape) { return groupsBefore(found, reshape); })
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
    if (isa_and_nonnull<nn::TanhOp>(scaled->value.getDefiningOp())) { // softcap * tanh(...), which no scale follows
      const bool isCap = found.softcap == 0 && found.scale == 1 && !found.isJoined && scaled->factor > 0 && std::isfinite(scaled->factor);
      Operation *tanh = isCap ? enter(found, scaled->value) : nullptr;
      found.softcap = tanh ? scaled->factor : 0;
      return tanh ? tanh->getOperand(0) : Value();
    }
    found.scale *= scaled->factor;
    return scaled->value;
  }

  // A mask that a scale or a softcap follows is another one: none is found behind these.
  Value addMask(Attention &found, const AttentionMask &mask, Value scores) {
    if (found.scale != 1 || found.softcap != 0 || found.isJoined || trained.contains(mask.value)) {
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
    if (onTrue.has_value() == onFalse.has_value() || !hidesKey(select.getType().getElementType(), *hidden)) {
      return {};
    }
    AttentionMask mask{select.getCondition(), /*isBool=*/true, /*isInverted=*/onTrue.has_value(), *hidden};
    return addMask(found, mask, onTrue ? select.getOnFalse() : select.getOnTrue());
  }

  // The product's operands without their scales.
  bool matchProduct(Attention &found, nn::MatMulOp product) {
    if (product.getTransposeA() || found.isJoined == found.joined.empty()) {
      return false;
    }
    found.isKeyTransposed = !product.getTransposeB();
    found.query = product.getLhs();
    found.key = product.getRhs();
    takeScale(found, found.query);
    takeScale(found, found.key);
    found.scale *= found.softcap != 0 ? found.softcap : 1; // what the softcap caps was divided by it
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

  // Whether a dropout draws a number for each weight, of the type of sums.
  static bool drawsWeights(const Attention &found, RankedTensorType weights) {
    auto product = cast<nn::MatMulOp>(found.inner.back());
    const bool isWide = product.getLhs().getType().getElementType().isF64();
    if (!found.dropout) {
      return true;
    }
    nn::RandomOp random = found.dropout->drawn;
    RankedTensorType drawn = random.getType();
    return drawn.getShape() == weights.getShape() && drawn.getElementType().isF64() == isWide;
  }

  const DenseSet<Value> &trained;
};

} // namespace

bool swapsLastDims(nn::TransposeOp op) {
  const int64_t rank = op.getType().getRank();
  auto swapped = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (rank < 2) {
    return false;
  }
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  return op.getPermutation() == ArrayRef(swapped);
}

std::optional<Attention> matchAttention(nn::MatMulOp last, const DenseSet<Value> &trained) {
  return Matcher(trained).match(last);
}

} // namespace ashlar::train
