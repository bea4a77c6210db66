// SPDX-License-Identifier: Apache-2.0
//
// Attention; labels of constraints as in nn_attention.td. The expansions of the three ops build equal scores and weights, which CSE merges:
// of one attention a program then computes them once, forward and backward.

#include "dialects/nn/ops/attention_scores.h"
#include "dialects/nn/ops/nn_builder.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

//===-- Types -------------------------------------------------------------------------------------------------------------------------===//

namespace {

RankedTensorType logSumTypeOf(RankedTensorType scores) {
  return scores.clone(scores.getShape().drop_back());
}

// Whether an index numbers a dim of the scores: for all of the batch, or along the dims where it is not 1, for each of them.
bool numbersDim(Value index, RankedTensorType scores, int64_t dim) {
  ArrayRef<int64_t> shape = shapeOf(index), whole = scores.getShape();
  const size_t batch = whole.size() - 2;
  return typeOf(index).getElementType().isInteger(64) && shape.size() == batch + 1 && shape.back() == whole[dim] &&
         llvm::all_of(llvm::seq<size_t>(0, batch), [&](size_t d) { return shape[d] == whole[d] || shape[d] == 1; });
}

// Whether there is an index of rows, then one of keys.
bool numberRowsAndKeys(ValueRange indices, RankedTensorType scores) {
  const int64_t rank = scores.getRank();
  return numbersDim(indices[0], scores, rank - 2) && numbersDim(indices[1], scores, rank - 1);
}

// C1 to C3, C9
template <typename Adaptor> LogicalResult checkScores(std::optional<Location> loc, Adaptor adaptor) {
  RankedTensorType query = typeOf(adaptor.getQuery()), key = typeOf(adaptor.getKey());
  bool fit = query.getRank() >= 2 && query.getRank() == key.getRank() && query.getElementType() == key.getElementType() &&
             query.getShape().drop_back(2) == key.getShape().drop_back(2) && columnsOf(query) == columnsOf(key);
  if (!fit) { // C1
    return emitOptionalError(loc, "query of ", query, " and key of ", key, " differ in more than their rows");
  }
  if (adaptor.getMask()) { // C2
    RankedTensorType mask = typeOf(adaptor.getMask()), scores = scoresTypeOf(query, key);
    bool fits = mask.getRank() == scores.getRank() && llvm::all_of(llvm::zip_equal(mask.getShape(), scores.getShape()), [](auto sizes) {
                  return std::get<0>(sizes) == 1 || std::get<0>(sizes) == std::get<1>(sizes);
                });
    if (!fits) {
      return emitOptionalError(loc, "mask of ", mask, " does not repeat to scores of ", scores);
    }
  }
  if (!adaptor.getCausal() && adaptor.getDiagonal() != 0) { // C3
    return emitOptionalError(loc, "diagonal ", diagonalOf(adaptor), " is of no causal attention");
  }
  if (const auto window = static_cast<int64_t>(adaptor.getWindow()); window < 0 || (!adaptor.getCausal() && window != 0)) {
    return emitOptionalError(loc, "window ", window, window < 0 ? " is negative" : " is of no causal attention");
  }
  if (const double softcap = adaptor.getSoftcap().convertToDouble(); !(softcap >= 0 && std::isfinite(softcap))) {
    return emitOptionalError(loc, "softcap ", softcap, " is negative or not finite");
  }
  if (ValueRange positions = adaptor.getPositions(); !positions.empty()) { // C9
    RankedTensorType scores = scoresTypeOf(query, key);
    if (!adaptor.getCausal() || positions.size() != 2 || !numberRowsAndKeys(positions, scores)) {
      return emitOptionalError(loc, "positions ", TypeRange(positions), " are not two of a causal attention with scores of ", scores);
    }
  }
  return success();
}

// C6, C7
template <typename Adaptor> LogicalResult checkDraw(std::optional<Location> loc, Adaptor adaptor) {
  const double dropout = adaptor.getDropout().convertToDouble();
  ValueRange draw = adaptor.getDraw();
  if (dropout == 0 ? !draw.empty() : !(dropout > 0 && dropout < 1) || draw.size() != 5) { // C6
    return emitOptionalError(loc, "dropout ", dropout, " with ", draw.size(), " operands to draw from; one in (0, 1) has 5, 0 has none");
  }
  if (draw.empty()) {
    return success();
  }
  RankedTensorType scores = scoresTypeOf(typeOf(adaptor.getQuery()), typeOf(adaptor.getKey()));
  if (!numberRowsAndKeys(draw, scores)) { // C7
    return emitOptionalError(loc, "indices of ", draw[0].getType(), " and ", draw[1].getType(), " do not number the weights of scores of ",
                             scores);
  }
  constexpr unsigned kBits[] = {64, 64, 32};
  for (auto [value, bits] : llvm::zip_equal(draw.drop_front(2), kBits)) {
    if (typeOf(value).getRank() != 0 || !typeOf(value).getElementType().isInteger(bits)) {
      return emitOptionalError(loc, "draws from ", value.getType(), ", which is no scalar of i", bits);
    }
  }
  return success();
}

// C1 to C7
template <typename Adaptor> LogicalResult checkAttention(std::optional<Location> loc, Adaptor adaptor) {
  if (failed(checkScores(loc, adaptor))) {
    return failure();
  }
  RankedTensorType query = typeOf(adaptor.getQuery()), key = typeOf(adaptor.getKey()), value = typeOf(adaptor.getValue());
  if (value.getRank() != key.getRank() || value.getElementType() != key.getElementType() ||
      value.getShape().drop_back() != key.getShape().drop_back()) { // C4
    return emitOptionalError(loc, "value of ", value, " and key of ", key, " differ in more than their columns");
  }
  RankedTensorType logSum = typeOf(adaptor.getLogSum()), expected = logSumTypeOf(scoresTypeOf(query, key));
  if (logSum != expected) { // C5
    return emitOptionalError(loc, "log_sum of ", logSum, " is not of ", expected);
  }
  return checkDraw(loc, adaptor);
}

// Returns the type of an attention's result, the narrower one of two where there are two.
template <typename Adaptor> RankedTensorType resultTypeOf(Adaptor adaptor) {
  SmallVector<int64_t> shape(typeOf(adaptor.getQuery()).getShape());
  shape.back() = columnsOf(typeOf(adaptor.getValue()));
  return typeOf(adaptor.getValue()).clone(shape);
}

bool isOrWidens(Type narrow, Type type) {
  auto from = cast<RankedTensorType>(narrow), to = cast<RankedTensorType>(type);
  bool isWidened = isNarrowFloat(from.getElementType()) && to.getElementType().isF32();
  return from == to || (isWidened && from.getShape() == to.getShape());
}

} // namespace

LogicalResult AttentionLogSumOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                  SmallVectorImpl<Type> &types) {
  if (failed(checkScores(loc, adaptor))) {
    return failure();
  }
  types.push_back(logSumTypeOf(scoresTypeOf(typeOf(adaptor.getQuery()), typeOf(adaptor.getKey()))));
  return success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (failed(checkAttention(loc, adaptor))) {
    return failure();
  }
  types.push_back(resultTypeOf(adaptor));
  return success();
}

bool AttentionOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {
  return isOrWidens(inferred.front(), actual.front());
}

LogicalResult AttentionGradientOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                                    SmallVectorImpl<Type> &types) {
  if (failed(checkAttention(loc, adaptor))) {
    return failure();
  }
  if (RankedTensorType out = typeOf(adaptor.getOut()), expected = resultTypeOf(adaptor); !isOrWidens(expected, out)) { // C8
    return emitOptionalError(loc, "out of ", out, " is not of ", expected);
  }
  Value operands[] = {adaptor.getQuery(), adaptor.getKey(), adaptor.getValue()};
  types.push_back(operands[static_cast<size_t>(adaptor.getOf())].getType());
  return success();
}

bool AttentionGradientOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange actual) {
  return isOrWidens(inferred.front(), actual.front());
}

//===-- Products ----------------------------------------------------------------------------------------------------------------------===//

namespace {

// Returns the products of `columns` columns for each score; of a causal attention half of them, or those of its window.
template <typename Op> int64_t productsOf(Op op, ArrayRef<RankedTensorType> operands, int64_t columns) {
  const __int128 rows = __int128(operands[0].getNumElements()) / std::max<int64_t>(columnsOf(operands[0]), 1);
  const __int128 scores = rows * rowsOf(operands[1]) / (op.getCausal() ? 2 : 1);
  const __int128 seen = op.getWindow() == 0 ? scores : std::min(scores, rows * __int128(op.getWindow()));
  return static_cast<int64_t>(std::min<__int128>(seen * columns, INT64_MAX));
}

RateClass attentionRateClass(ArrayRef<RankedTensorType> operands) {
  return {RateClass::Attention, std::min({rowsOf(operands[0]), rowsOf(operands[1]), columnsOf(operands[0])})};
}

} // namespace

// What ops of one attention share counts once: scores for the log-sum-exp and the value's gradient, gradients of weights for the query's.
int64_t AttentionLogSumOp::countProducts(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return productsOf(*this, operands, columnsOf(operands[0]));
}

RateClass AttentionLogSumOp::getRateClass(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return attentionRateClass(operands);
}

int64_t AttentionOp::countProducts(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return productsOf(*this, operands, columnsOf(operands[2]));
}

RateClass AttentionOp::getRateClass(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return attentionRateClass(operands);
}

int64_t AttentionGradientOp::countProducts(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  const int64_t width = columnsOf(operands[0]);
  return productsOf(*this, operands, getOf() == AttentionOperand::Key ? width : width + columnsOf(operands[2]));
}

RateClass AttentionGradientOp::getRateClass(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return attentionRateClass(operands);
}

//===-- Gradients ---------------------------------------------------------------------------------------------------------------------===//

// nn.attention_log_sum has no gradient of its own: what depends on it is an nn.attention, whose gradients count the way through it. A
// program that uses it otherwise is refused where it is differentiated.
void AttentionOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  for (AttentionOperand of : {AttentionOperand::Query, AttentionOperand::Key, AttentionOperand::Value}) {
    out[static_cast<size_t>(of)] = AttentionGradientOp::create(
        b, getOperand(static_cast<unsigned>(of)).getType(), of, getQuery(), getKey(), getValue(), getLogSum(), getResult(), g[0], getMask(),
        getScale(), getCausal(), getDiagonal(), getWindow(), getSoftcap(), getPositions(), getDraw(), getDropout());
  }
}

//===-- Dropout -----------------------------------------------------------------------------------------------------------------------===//

namespace {

template <typename Op> OpOperand *drawnIndexOf(Op op) {
  return op.getDraw().empty() ? nullptr : &*op.getDrawMutable().begin();
}

} // namespace

OpOperand *AttentionOp::getDrawnIndex() {
  return drawnIndexOf(*this);
}

RankedTensorType AttentionOp::getDrawnType() {
  return scoresTypeOf(getQuery().getType(), getKey().getType());
}

OpOperand *AttentionGradientOp::getDrawnIndex() {
  return drawnIndexOf(*this);
}

RankedTensorType AttentionGradientOp::getDrawnType() {
  return scoresTypeOf(getQuery().getType(), getKey().getType());
}

// Without the dropout of its weights.
Value AttentionOp::buildEvaluation(OpBuilder &builder) {
  auto plain = cast<AttentionOp>(builder.clone(**this));
  plain.getDrawMutable().clear();
  plain.setDropout(APFloat(0.0));
  plain->removeAttr(kTrainingOnlyAttr);
  return plain;
}

//===-- Expansion ---------------------------------------------------------------------------------------------------------------------===//

namespace {

// Repeats `rows`, of shape (batch..., rows), along the last dim of `like`.
Value alongLast(NnBuilder &b, Value rows, Value like) {
  return b.broadcastAlong(rows, {typeOf(like).getRank() - 1}, shapeOf(like));
}

Value product(NnBuilder &b, RankedTensorType type, Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
  return MatMulOp::create(b, type, lhs, rhs, transposeLhs, transposeRhs);
}

// Repeats a mask to the shape of the scores.
Value repeatMask(NnBuilder &b, Value mask, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> dims, kept;
  for (auto [d, size] : llvm::enumerate(shapeOf(mask))) {
    if (size == shape[d]) {
      dims.push_back(static_cast<int64_t>(d));
      kept.push_back(size);
    }
  }
  if (ArrayRef(kept) == shape) {
    return mask;
  }
  Value dense = ArrayRef(kept) == shapeOf(mask) ? mask : ReshapeOp::create(b, typeOf(mask).clone(kept), mask).getResult();
  return BroadcastOp::create(b, typeOf(mask).clone(shape), dense, dims);
}

// Returns scale * query key^T, or where there is a softcap, the tanh of what it caps.
template <typename Op> Value buildProducts(NnBuilder &b, Op op) {
  RankedTensorType type = scoresTypeOf(op.getQuery().getType(), op.getKey().getType());
  Value products = product(b, type, op.getQuery(), op.getKey(), /*transposeLhs=*/false, /*transposeRhs=*/true);
  const double scale = op.getScale().convertToDouble(), softcap = op.getSoftcap().convertToDouble();
  const double factor = softcap == 0 ? scale : scale / softcap;
  Value scaled = factor == 1 ? products : b.times(products, factor);
  return softcap == 0 ? scaled : TanhOp::create(b, scaled).getResult();
}

// Returns the sum or difference of a number for each key and one for each row, for all scores.
template <typename Made> Value ofRowsAndKeys(NnBuilder &b, ValueRange indices, RankedTensorType scores) {
  auto repeat = [&](Value index, size_t fromEnd) { // as a mask
    SmallVector<int64_t> shape(shapeOf(index));
    shape.insert(shape.end() - fromEnd, 1);
    return repeatMask(b, ReshapeOp::create(b, typeOf(index).clone(shape), index), scores.getShape());
  };
  return Made::create(b, repeat(indices[1], 1), repeat(indices[0], 0));
}

// Returns key - row for each score.
Value buildDistance(NnBuilder &b, ValueRange positions, RankedTensorType scores) {
  if (!positions.empty()) {
    return ofRowsAndKeys<SubOp>(b, positions, scores);
  }
  SmallVector<int64_t> strides(scores.getRank(), 0);
  strides.end()[-2] = -1;
  strides.back() = 1;
  return IndexOp::create(b, scores.clone(b.getI64Type()), strides);
}

template <typename Op> Value buildScores(NnBuilder &b, Op op) {
  Value scores = buildProducts(b, op);
  RankedTensorType type = typeOf(scores);
  if (const double softcap = op.getSoftcap().convertToDouble(); softcap != 0) {
    scores = b.times(scores, softcap);
  }
  if (Value mask = op.getMask()) {
    Value repeated = repeatMask(b, mask, type.getShape());
    bool isBool = typeOf(mask).getElementType().isInteger(1);
    scores = isBool ? b.select(repeated, scores, b.constant(type, kHidden)) : b.add(scores, b.as(scores, repeated));
  }
  if (op.getCausal()) {
    Value distance = buildDistance(b, op.getPositions(), type); // key - row
    Value isSeen = b.compare(Predicate::Le, distance, static_cast<double>(diagonalOf(op)));
    if (op.getWindow() != 0) {
      isSeen = AndOp::create(b, isSeen, b.compare(Predicate::Ge, distance, static_cast<double>(firstDistanceOf(op))));
    }
    scores = b.select(isSeen, scores, b.constant(type, kHidden));
  }
  return scores;
}

// Returns exp(score - log_sum).
template <typename Op> Value buildWeights(NnBuilder &b, Op op) {
  Value scores = buildScores(b, op);
  return ExpOp::create(b, b.sub(scores, alongLast(b, op.getLogSum(), scores)));
}

// Returns how often each weight counts: 1 / (1 - dropout) times, or not at all; null where there is no dropout.
template <typename Op> Value buildKept(NnBuilder &b, Op op) {
  if (op.getDraw().empty()) {
    return {};
  }
  RankedTensorType type = scoresTypeOf(op.getQuery().getType(), op.getKey().getType());
  const double dropout = op.getDropout().convertToDouble();
  ValueRange draw = op.getDraw();
  Value place = ofRowsAndKeys<AddOp>(b, draw.take_front(2), type);
  Value drawn = RandomOp::create(b, type, Distribution::Uniform, place, draw[2], draw[3], draw[4]);
  return b.selectOrZero(b.compare(Predicate::Ge, drawn, dropout), b.constant(type, 1 / (1 - dropout)));
}

// Returns the weights of the values.
template <typename Op> Value buildKeptWeights(NnBuilder &b, Op op) {
  Value weights = buildWeights(b, op), kept = buildKept(b, op);
  return b.as(op.getValue(), kept ? b.mul(weights, kept) : weights);
}

// Returns the gradients of the products of queries and keys, of the type of these.
Value buildScoreGradients(NnBuilder &b, AttentionGradientOp op) {
  Value weights = buildWeights(b, op), slope = op.getGradient();
  Value ofWeights = product(b, typeOf(weights), b.as(op.getValue(), slope), op.getValue(), /*transposeLhs=*/false, /*transposeRhs=*/true);
  if (Value kept = buildKept(b, op)) {
    ofWeights = b.mul(ofWeights, kept);
  }
  Value products = b.as(weights, b.mul(b.wide(slope), b.wide(op.getOut())));
  Value mean = b.sum(products, {typeOf(products).getRank() - 1});
  Value gradients = b.mul(weights, b.sub(ofWeights, alongLast(b, mean, weights)));
  if (op.getSoftcap().convertToDouble() != 0) {
    Value capped = buildProducts(b, op);
    gradients = b.mul(gradients, b.sub(b.constant(typeOf(capped), 1), b.mul(capped, capped)));
  }
  return b.as(op.getQuery(), b.times(gradients, op.getScale().convertToDouble()));
}

} // namespace

Value AttentionLogSumOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  Value scores = buildScores(b, *this);
  return b.logSumExp(scores, typeOf(scores).getRank() - 1);
}

Value AttentionOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  return product(b, getType(), buildKeptWeights(b, *this), getValue(), /*transposeLhs=*/false, /*transposeRhs=*/false);
}

Value AttentionGradientOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  switch (getOf()) {
  case AttentionOperand::Query:
    return product(b, getType(), buildScoreGradients(b, *this), getKey(), /*transposeLhs=*/false, /*transposeRhs=*/false);
  case AttentionOperand::Key:
    return product(b, getType(), buildScoreGradients(b, *this), getQuery(), /*transposeLhs=*/true, /*transposeRhs=*/false);
  case AttentionOperand::Value: {
    Value weights = buildKeptWeights(b, *this);
    return product(b, getType(), weights, b.as(getValue(), getGradient()), /*transposeLhs=*/true, /*transposeRhs=*/false);
  }
  }
  llvm_unreachable("unknown operand");
}

} // namespace ashlar::nn
