// SPDX-License-Identifier: Apache-2.0
//
// See position_places.h. Sharding rules say which ops compute their share of a dim by themselves: here the shares are positions.

#include "passes/decode/position_places.h"

#include "dialects/support/op_interfaces.h"
#include "dialects/support/sharding_rule.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ashlar::decode {
namespace {

// Returns the number of elements from one element of a dim to the next.
int64_t strideOf(RankedTensorType type, int64_t dim) {
  int64_t stride = 1;
  for (int64_t size : type.getShape().drop_front(dim + 1)) {
    stride *= size;
  }
  return stride;
}

// Returns where positions lie under another shape; nothing where no dim holds them.
std::optional<Place> placeAfterReshape(RankedTensorType from, Place place, RankedTensorType to, int64_t context) {
  const int64_t step = strideOf(from, place.dim) * place.inner; // elements from a position to the next one
  for (int64_t dim = 0; dim < to.getRank(); ++dim) {
    const int64_t stride = strideOf(to, dim), size = to.getDimSize(dim);
    if (stride <= step && step % stride == 0 && size % (step / stride * context) == 0) {
      return Place{dim, step / stride};
    }
  }
  return std::nullopt;
}

// Returns the factor that a dim holds; -1 where it holds several, none, or where its elements are those of windows.
int64_t onlyFactor(const ShardingRule &rule, ArrayRef<TensorFactors> tensors, unsigned number, unsigned firstTensor, int64_t dim) {
  ArrayRef<int64_t> factors = tensors[number][dim];
  auto isWindow = [&](const WindowedDim &window) { return window.tensor == firstTensor + number && window.dim == dim; };
  return factors.size() == 1 && llvm::none_of(rule.windows, isWindow) ? factors.front() : -1;
}

// Whether a tensor numbers its rows 0, 1, 2, ... along the last dim.
bool countsRows(Value value) {
  auto index = value.getDefiningOp<nn::IndexOp>();
  return index && index.getStrides().back() == 1 &&
         llvm::all_of(index.getStrides().drop_back(), [](int64_t stride) { return stride == 0; });
}

// Whether an op, computed in some way, leaves out for each position what later ones give in this operand, which it takes whole: a causal
// attention, one row of which is a position, and whose keys are the positions in order. Several keys of a position hide more.
bool hidesLater(OpOperand &operand, Place place, const OpPlaces &way, int64_t context) {
  return TypeSwitch<Operation *, bool>(operand.getOwner())
      .Case<nn::AttentionOp, nn::AttentionLogSumOp>([&](auto attention) {
        using Op = decltype(attention);
        const unsigned number = operand.getOperandNumber(), query = attention.getQueryMutable().getOperandNumber();
        const int64_t rank = typeOf(attention.getQuery()).getRank();
        bool hasKeys = number == attention.getKeyMutable().getOperandNumber();
        if constexpr (std::is_same_v<Op, nn::AttentionOp>) {
          hasKeys = hasKeys || number == attention.getValueMutable().getOperandNumber();
        }
        const bool isMask =
            attention.getMask() && operand.get() == attention.getMask() && number > attention.getKeyMutable().getOperandNumber();
        const bool isCausal = attention.getCausal() && !attention.getPositions().empty() &&
                              static_cast<int64_t>(attention.getDiagonal()) <= 0 && llvm::all_of(attention.getPositions(), countsRows);
        const bool areRows = way.operands[query] == Place{rank - 2, 1} && shapeOf(attention.getQuery())[rank - 2] == context;
        const int64_t dim = hasKeys ? rank - 2 : rank - 1;
        return isCausal && areRows && (hasKeys || isMask) && place.dim == dim && place.inner * context == shapeOf(operand.get())[dim];
      })
      .Default(false);
}

} // namespace

PositionPlaces::PositionPlaces(func::FuncOp model, BlockArgument tokens) : positions(shapeOf(tokens)[1]) {
  dependent.insert(tokens);
  ofTokens[tokens] = {/*dim=*/1, /*inner=*/1};
  for (Operation &op : model.front()) {
    add(&op);
  }
}

std::optional<Place> PositionPlaces::find(Value value) const {
  if (auto it = ofTokens.find(value); it != ofTokens.end()) {
    return it->second;
  }
  auto result = dyn_cast<OpResult>(value);
  auto it = result ? places.find(result.getOwner()) : places.end();
  return it == places.end() ? std::nullopt : it->second.results[result.getResultNumber()];
}

std::optional<OpPlaces> PositionPlaces::placesAround(Operation *op, bool isResult, unsigned number, Place place) const {
  OpPlaces around{SmallVector<std::optional<Place>>(op->getNumOperands()), SmallVector<std::optional<Place>>(op->getNumResults())};
  if (auto reshape = dyn_cast<nn::ReshapeOp>(op)) {
    RankedTensorType in = typeOf(reshape.getInput()), out = reshape.getType();
    around.operands[0] = isResult ? placeAfterReshape(out, place, in, positions) : place;
    around.results[0] = isResult ? place : placeAfterReshape(in, place, out, positions);
    return around.operands[0] && around.results[0] ? std::optional(around) : std::nullopt;
  }
  auto shardable = dyn_cast<ShardingRuleOpInterface>(op);
  if (!shardable || op->getNumOperands() == 0) {
    return std::nullopt; // constants and indices are not the same at all places
  }
  const ShardingRule rule = shardable.getShardingRule();
  const unsigned firstResult = op->getNumOperands();
  const int64_t factor = onlyFactor(rule, isResult ? rule.results : rule.operands, number, isResult ? firstResult : 0, place.dim);
  if (factor < 0 || rule.factors[factor].kind != FactorKind::PassThrough) {
    return std::nullopt;
  }
  auto fill = [&](ArrayRef<TensorFactors> tensors, unsigned first, MutableArrayRef<std::optional<Place>> list) {
    for (unsigned tensor = 0; tensor < tensors.size(); ++tensor) {
      for (int64_t dim = 0; dim < static_cast<int64_t>(tensors[tensor].size()); ++dim) {
        if (llvm::is_contained(tensors[tensor][dim], factor)) {
          if (onlyFactor(rule, tensors, tensor, first, dim) != factor || list[tensor]) {
            return false;
          }
          list[tensor] = {dim, place.inner};
        }
      }
    }
    return true;
  };
  return fill(rule.operands, 0, around.operands) && fill(rule.results, firstResult, around.results) ? std::optional(around) : std::nullopt;
}

std::optional<OpPlaces> PositionPlaces::placesBefore(OpResult result, Place place) const {
  return placesAround(result.getOwner(), /*isResult=*/true, result.getResultNumber(), place);
}

void PositionPlaces::add(Operation *op) {
  SmallVector<OpPlaces> ways; // to compute the op position by position
  Operation *mixes = nullptr;
  bool isDependent = false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!depends(operand.get())) {
      continue;
    }
    isDependent = true;
    std::optional<Place> place = find(operand.get());
    if (!place) {
      mixes = mixes ? mixes : findMixing(operand.get());
      continue;
    }
    std::optional<OpPlaces> way = placesAround(op, /*isResult=*/false, operand.getOperandNumber(), *place);
    if (way && llvm::all_of(way->results, [](const auto &each) { return each.has_value(); }) && !llvm::is_contained(ways, *way)) {
      ways.push_back(*way);
    }
  }
  if (!isDependent || op->getNumResults() == 0) {
    return;
  }
  bool isComputable = !mixes && ways.size() == 1;
  for (OpOperand &operand : op->getOpOperands()) {
    if (isComputable && depends(operand.get())) {
      const std::optional<Place> taken = ways[0].operands[operand.getOperandNumber()];
      const Place own = *find(operand.get());
      isComputable = taken ? *taken == own : hidesLater(operand, own, ways[0], positions);
    }
  }
  for (Value result : op->getResults()) {
    dependent.insert(result);
    if (!isComputable) {
      mixing[result] = mixes ? mixes : op;
    }
  }
  if (isComputable) {
    places[op] = ways[0];
  }
}

RankedTensorType PositionPlaces::typeOfPositions(Value value, Place place, int64_t count) const {
  SmallVector<int64_t> shape(shapeOf(value));
  shape[place.dim] = shape[place.dim] / positions * count;
  return typeOf(value).clone(shape);
}

} // namespace ashlar::decode
