// SPDX-License-Identifier: Apache-2.0
//
// Scores and weights of a tile, around the products of attention_tiles.h.

#include "passes/lower/kernels/gpu/attention_kernel.h"

#include "passes/lower/kernels/gpu/attention_tiles.h"

#include "dialects/nn/ops/attention_scores.h"
#include "dialects/nn/ops/scalar_code.h"
#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <limits>

using namespace mlir;

namespace ashlar::lower {

namespace {

// What the ops of a kernel agree on.
struct Attention {
  template <typename Op> static Attention of(Op op) {
    return {op.getQuery(),
            op.getKey(),
            op.getValue(),
            op.getMask(),
            llvm::to_vector(op.getPositions()),
            llvm::to_vector(op.getDraw()),
            op.getScale().convertToDouble(),
            op.getSoftcap().convertToDouble(),
            op.getDropout().convertToDouble(),
            op.getCausal(),
            op.getWindow() != 0,
            nn::diagonalOf(op),
            nn::firstDistanceOf(op)};
  }

  Value query, key, value, mask;
  SmallVector<Value> positions, draw;
  double scale, softcap, dropout;
  bool isCausal, hasWindow;
  int64_t diagonal, firstDistance;
};

class AttentionKernel : public AttentionTiles {
public:
  AttentionKernel(exec::FusionOp fusion, func::FuncOp function, ArrayRef<int64_t> alias, Attention attention, bool isByKeys,
                  int64_t accumulated)
      : AttentionTiles(fusion, function, alias,
                       AttentionTileShape(typeOf(attention.query).getElementType(), accumulated,
                                          nn::rowsOf(typeOf(isByKeys ? attention.key : attention.query))),
                       typeOf(attention.query).getElementType()),
        attention(std::move(attention)), isByKeys(isByKeys), rows(nn::rowsOf(typeOf(this->attention.query))),
        keys(nn::rowsOf(typeOf(this->attention.key))) {}

  void emitForward(nn::AttentionOp op);
  void emitGradients(ArrayRef<nn::AttentionGradientOp> ops);

private:
  const Attention attention;
  const bool isByKeys; // own rows are keys, the others queries; else the other way round
  const int64_t rows, keys;
  Value entry; // of the batch, in front of it its index along each dim
  Index batch;
  Value ownFirst, diagonal, firstDistance;
  Values own, others; // places in a tile

  // Of one number of a tile; null where it has none.
  struct Place {
    Value row, key, isSeen;
  };
  struct Scores {
    Values scores, tanhs; // the latter with a softcap
    std::vector<Place> places;
  };
  struct Weights {
    Values kept, slopes;
  };
  // What a gradient needs of each row: its log-sum-exp and the mean of the gradients of its weights, in registers of own rows, or of a tile
  // of other rows in shared memory.
  struct RowNumbers {
    AttentionMatrix out, slope;
    Value logSum;
    Values logSums, means;
    Value sharedLogSums, sharedMeans;
  };

  Value number(double value) { return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value))); }
  Value times(Value lhs, Value rhs) { return arith::MulFOp::create(b, lhs, rhs); }
  Value minus(Value lhs, Value rhs) { return arith::SubFOp::create(b, lhs, rhs); }
  Value plus(Value lhs, Value rhs) { return arith::AddFOp::create(b, lhs, rhs); }
  Value larger(Value lhs, Value rhs) { return arith::MaxNumFOp::create(b, lhs, rhs); }
  Value exponential(Value x) { return math::ExpOp::create(b, x); }

  // Returns a value as a matrix of the current entry of the batch; `memory` holds it, or where it is the operand or the result of a
  // transpose of the body, that.
  AttentionMatrix matrixOf(Value value);
  AttentionMatrix resultOf(Value value);
  AttentionMatrix matrixIn(Value memory, RankedTensorType type, bool hasHeadsInside);

  // Sets the block's rows and entry of the batch, and what it shares; for dots of up to `width` terms.
  void begin(int64_t width, int64_t columns);
  void setDistances();

  // Goes through the tiles of other rows that own rows see; as emitFor().
  Values forOthers(ArrayRef<Value> carried, llvm::function_ref<Values(Value, ArrayRef<Value>)> step);

  Index indexIn(Value value, ArrayRef<Value> last);
  Value inside(Value place, int64_t size, int64_t part);
  Place placeOf(Value ownRow, Value otherRow);
  Scores emitScores(Values dots, Value otherFirst);
  Value emitKept(const Place &place);
  Value logSumAt(Value logSum, Value row);
  RowNumbers prepareRowNumbers(nn::AttentionGradientOp op);
  void stageRowNumbers(const RowNumbers &numbers, Value first, bool needsMeans);
  Weights emitWeights(const Scores &scores, ArrayRef<Value> ofWeights, const RowNumbers &numbers);
  Value emitMean(const AttentionMatrix &out, const AttentionMatrix &slope, Value row, int64_t sharing);
};

AttentionMatrix AttentionKernel::matrixIn(Value memory, RankedTensorType type, bool hasHeadsInside) {
  ArrayRef<int64_t> shape = type.getShape();
  const auto rank = static_cast<int64_t>(shape.size());
  SmallVector<int64_t> strides(rank, 1);
  for (int64_t d = rank - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * shape[d + 1];
  }
  auto dimOf = [&](int64_t d) { return hasHeadsInside && d == rank - 3 ? rank - 2 : hasHeadsInside && d == rank - 2 ? rank - 3 : d; };
  Value offset = zero;
  for (auto [d, place] : llvm::enumerate(batch)) {
    offset = add(offset, scale(place, strides[dimOf(static_cast<int64_t>(d))]));
  }
  return {memory, offset, type, shape[dimOf(rank - 2)], shape.back(), strides[dimOf(rank - 2)]};
}

AttentionMatrix AttentionKernel::matrixOf(Value value) {
  auto swap = value.getDefiningOp<nn::TransposeOp>();
  auto argument = cast<BlockArgument>(swap ? swap.getInput() : value);
  return matrixIn(function.getArgument(argument.getArgNumber()), typeOf(argument), swap != nullptr);
}

AttentionMatrix AttentionKernel::resultOf(Value value) {
  auto inside = [](Value yielded) {
    auto swap = yielded.getDefiningOp<nn::TransposeOp>();
    return swap ? swap.getInput() : yielded;
  };
  auto found = llvm::find_if(yielded(), [&](Value yielded) { return inside(yielded) == value; });
  return matrixIn(outputOf(*found), typeOf(*found), inside(*found) != *found);
}

void AttentionKernel::begin(int64_t width, int64_t columns) {
  ArrayRef<int64_t> sizes = shapeOf(attention.query).drop_back(2);
  const int64_t entries = ShapedType::getNumElements(sizes), tiles = llvm::divideCeil(isByKeys ? keys : rows, tile.own);
  setGrid(entries * tiles, AttentionTileShape::kThreads);
  prepareTiles(width, columns);
  // Blocks that see most begin first: of a causal one the last rows, or the first keys.
  Value number = divide(block, entries);
  if (attention.isCausal && !isByKeys) {
    number = arith::SubIOp::create(b, constant(tiles - 1), number);
  }
  ownFirst = scale(number, tile.own);
  entry = remainder(block, entries);
  batch.assign(sizes.size(), zero);
  Value flat = entry;
  for (size_t d = sizes.size(); d-- > 0;) {
    batch[d] = d == 0 ? flat : remainder(flat, sizes[d]);
    flat = d == 0 ? flat : divide(flat, sizes[d]);
  }
  own = ownRows();
  others = otherRows();
  setDistances();
}

// A key is seen where firstDistance <= key - row <= diagonal, both in this block's counting.
void AttentionKernel::setDistances() {
  if (!attention.isCausal) {
    return;
  }
  Type wide = b.getI64Type();
  auto integer = [&](int64_t value) { return arith::ConstantOp::create(b, b.getIntegerAttr(wide, value)); };
  Value shift; // of keys against rows
  if (!attention.positions.empty()) {
    auto first = [&](Value position) { return scalars.emit(position, indexIn(position, {zero})); };
    shift = arith::SubIOp::create(b, first(attention.positions[0]), first(attention.positions[1]));
  }
  auto asIndex = [&](int64_t distance) -> Value {
    const int64_t most = rows + keys;
    if (!shift) {
      return constant(std::clamp(distance, -most, most));
    }
    Value sum = arith::AddIOp::create(b, shift, integer(distance));
    sum = arith::MaxSIOp::create(b, arith::MinSIOp::create(b, sum, integer(most)), integer(-most));
    return arith::IndexCastOp::create(b, b.getIndexType(), sum);
  };
  diagonal = asIndex(attention.diagonal);
  if (attention.hasWindow) {
    firstDistance = asIndex(attention.firstDistance);
  }
}

AttentionKernel::Values AttentionKernel::forOthers(ArrayRef<Value> carried, llvm::function_ref<Values(Value, ArrayRef<Value>)> step) {
  const int64_t count = isByKeys ? rows : keys;
  auto clamp = [&](Value place) -> Value { return arith::MinSIOp::create(b, arith::MaxSIOp::create(b, place, zero), constant(count)); };
  Value first = zero, end = constant(count), behind = add(ownFirst, constant(tile.own));
  if (isByKeys) {
    first = diagonal ? clamp(arith::SubIOp::create(b, ownFirst, diagonal)) : first;
    end = firstDistance ? clamp(arith::SubIOp::create(b, behind, firstDistance)) : end;
  } else {
    end = diagonal ? clamp(add(behind, diagonal)) : end;
    first = firstDistance ? clamp(add(ownFirst, firstDistance)) : first;
  }
  return emitFor(scale(divide(first, tile.others), tile.others), end, tile.others, carried, step);
}

// The index of an element of a mask or an index tensor, which repeats along dims of size 1; `last`: along the dims behind those of the
// batch.
AttentionKernel::Index AttentionKernel::indexIn(Value value, ArrayRef<Value> last) {
  Index index(batch);
  index.append(last.begin(), last.end());
  for (auto [place, size] : llvm::zip_equal(index, shapeOf(value))) {
    place = size == 1 ? zero : place;
  }
  return index;
}

// A place that is inside of `size`, of which tiles of `part` are some.
Value AttentionKernel::inside(Value place, int64_t size, int64_t part) {
  return size % part == 0 ? place : Value(arith::MinUIOp::create(b, place, constant(size - 1)));
}

AttentionKernel::Place AttentionKernel::placeOf(Value ownRow, Value otherRow) {
  Value row = isByKeys ? otherRow : ownRow, key = isByKeys ? ownRow : otherRow, isSeen;
  const int64_t ofRows = isByKeys ? tile.others : tile.own, ofKeys = isByKeys ? tile.own : tile.others;
  if (keys % ofKeys != 0) {
    isSeen = isBelow(key, keys);
  }
  if (isByKeys && rows % ofRows != 0) {
    isSeen = both(isSeen, isBelow(row, rows));
  }
  if (diagonal) {
    Value distance = arith::SubIOp::create(b, key, row);
    isSeen = both(isSeen, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, distance, diagonal));
    if (firstDistance) {
      isSeen = both(isSeen, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, distance, firstDistance));
    }
  }
  return {inside(row, rows, ofRows), inside(key, keys, ofKeys), isSeen};
}

AttentionKernel::Scores AttentionKernel::emitScores(Values dots, Value otherFirst) {
  Scores result;
  Value hidden = number(nn::kHidden), factor = number(attention.softcap == 0 ? attention.scale : attention.scale / attention.softcap);
  for (auto [i, dot] : llvm::enumerate(dots)) {
    Place place = placeOf(add(ownFirst, own[i / others.size()]), add(otherFirst, others[i % others.size()]));
    Value score = times(dot, factor);
    if (attention.softcap != 0) {
      result.tanhs.push_back(math::TanhOp::create(b, score));
      score = times(result.tanhs.back(), number(attention.softcap));
    }
    if (Value mask = attention.mask) {
      Value element = scalars.emit(mask, indexIn(mask, {place.row, place.key}));
      const bool isBool = typeOf(mask).getElementType().isInteger(1);
      score = isBool ? Value(arith::SelectOp::create(b, element, score, hidden)) : plus(score, element);
    }
    result.scores.push_back(place.isSeen ? Value(arith::SelectOp::create(b, place.isSeen, score, hidden)) : score);
    result.places.push_back(place);
  }
  return result;
}

// How often a weight counts; null without a dropout.
Value AttentionKernel::emitKept(const Place &place) {
  if (attention.draw.empty()) {
    return {};
  }
  auto read = [&](size_t i, ArrayRef<Value> last) { return scalars.emit(attention.draw[i], indexIn(attention.draw[i], last)); };
  auto readScalar = [&](size_t i) { return scalars.emit(attention.draw[i], {}); };
  Value element = arith::AddIOp::create(b, read(1, {place.key}), read(0, {place.row}));
  Value drawn = nn::scalar::uniform(b, b.getF32Type(), {element, readScalar(2), readScalar(3), readScalar(4)});
  Value isKept = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, drawn, number(attention.dropout));
  return arith::SelectOp::create(b, isKept, number(1 / (1 - attention.dropout)), number(0));
}

Value AttentionKernel::logSumAt(Value logSum, Value row) {
  return scalars.emit(logSum, indexIn(logSum, {row}));
}

void AttentionKernel::emitForward(nn::AttentionOp op) {
  const int64_t columns = nn::columnsOf(op.getValue().getType());
  begin(nn::columnsOf(op.getQuery().getType()), columns);
  const AttentionMatrix query = matrixOf(op.getQuery()), key = matrixOf(op.getKey()), value = matrixOf(op.getValue());
  const size_t count = tile.ofRows, ofRow = accumulatedColumns(columns).size();
  Values carried(count * ofRow, number(0));
  carried.append(count, number(nn::kHidden)); // the largest score of each own row so far
  carried.append(count, number(0));           // the thread's part of the sum of exponentials
  Values last = forOthers(carried, [&](Value first, ArrayRef<Value> before) {
    Values sums(before.take_front(count * ofRow)), most(before.slice(count * ofRow, count)), totals(before.take_back(count));
    Scores scores = emitScores(emitDots(query, ownFirst, key, first), first);
    Values weights;
    for (size_t i = 0; i < count; ++i) {
      ArrayRef<Value> ofScores = ArrayRef(scores.scores).slice(i * others.size(), others.size());
      Value largest = ofScores.front();
      llvm::for_each(ofScores.drop_front(), [&](Value score) { largest = larger(largest, score); });
      largest = larger(most[i], combineRow(largest, [&](Value x, Value y) { return larger(x, y); }));
      Value isHidden = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, largest, number(nn::kHidden));
      Value base = arith::SelectOp::create(b, isHidden, number(0), largest); // -inf - -inf would be NaN
      Value shrunk = exponential(minus(most[i], base));
      most[i] = largest;
      totals[i] = times(totals[i], shrunk);
      for (size_t j = 0; j < others.size(); ++j) {
        Value weight = exponential(minus(ofScores[j], base));
        totals[i] = plus(totals[i], weight);
        Value kept = emitKept(scores.places[i * others.size() + j]);
        weights.push_back(kept ? times(weight, kept) : weight);
      }
      for (size_t j = 0; j < ofRow; ++j) {
        sums[i * ofRow + j] = times(sums[i * ofRow + j], shrunk);
      }
    }
    Values next = accumulate(std::move(sums), weights, value, first);
    next.append(most);
    next.append(totals);
    return next;
  });
  Values results;
  Value logSums = outputOf(op.getLogSum()), isFirst = isFirstOfRow();
  for (size_t i = 0; i < count; ++i) {
    Value total = combineRow(last[count * ofRow + count + i], [&](Value x, Value y) { return plus(x, y); });
    for (size_t j = 0; j < ofRow; ++j) {
      results.push_back(arith::DivFOp::create(b, last[i * ofRow + j], total));
    }
    Value row = add(ownFirst, own[i]);
    emitIf(both(isFirst, isBelow(row, rows)), [&] {
      Value logSum = plus(last[count * ofRow + i], math::LogOp::create(b, total));
      memref::StoreOp::create(b, logSum, logSums, add(scale(entry, rows), row));
    });
  }
  storeRows(resultOf(op.getResult()), results, ownFirst);
  func::ReturnOp::create(b);
}

// The mean of the gradients of a row's weights, by the threads that share it.
Value AttentionKernel::emitMean(const AttentionMatrix &out, const AttentionMatrix &slope, Value row, int64_t sharing) {
  Value inRow = inside(row, rows, isByKeys ? tile.others : tile.own);
  Value sum = emitFor(remainder(thread, sharing), constant(out.columns), sharing, {number(0)}, [&](Value column, ArrayRef<Value> carried) {
    return Values{plus(carried[0], times(readElement(out, inRow, column), readElement(slope, inRow, column)))};
  })[0];
  for (int64_t distance = sharing / 2; distance > 0; distance /= 2) {
    sum = plus(sum, shuffle(sum, distance));
  }
  return sum;
}

// Sets the numbers of own rows, or the memory for the ones of other rows.
AttentionKernel::RowNumbers AttentionKernel::prepareRowNumbers(nn::AttentionGradientOp op) {
  RowNumbers numbers{matrixOf(op.getOut()), matrixOf(op.getGradient()), op.getLogSum(), {}, {}, {}, {}};
  if (isByKeys) {
    numbers.sharedLogSums = allocateShared(b.getF32Type(), tile.others);
    numbers.sharedMeans = allocateShared(b.getF32Type(), tile.others);
    return numbers;
  }
  for (Value row : own) {
    Value at = inside(add(ownFirst, row), rows, tile.own);
    numbers.logSums.push_back(logSumAt(numbers.logSum, at));
    numbers.means.push_back(emitMean(numbers.out, numbers.slope, at, tile.sharing));
  }
  return numbers;
}

// Sets the numbers of the rows of a tile from `first` on; barriers of a product come before they are read, and before the next ones.
void AttentionKernel::stageRowNumbers(const RowNumbers &numbers, Value first, bool needsMeans) {
  const int64_t sharing = AttentionTileShape::kThreads / tile.others;
  Value place = divide(thread, sharing), row = inside(add(first, place), rows, tile.others);
  Value mean = needsMeans ? emitMean(numbers.out, numbers.slope, row, sharing) : Value();
  emitIf(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, remainder(thread, sharing), zero), [&] {
    memref::StoreOp::create(b, logSumAt(numbers.logSum, row), numbers.sharedLogSums, place);
    if (mean) {
      memref::StoreOp::create(b, mean, numbers.sharedMeans, place);
    }
  });
}

// Of a tile: weights p = exp(score - log_sum), as often as they count, and t = p (gradient of p - mean) scale slope of the softcap; the
// latter where there are gradients of weights.
AttentionKernel::Weights AttentionKernel::emitWeights(const Scores &scores, ArrayRef<Value> ofWeights, const RowNumbers &numbers) {
  Weights result;
  for (size_t n = 0; n < scores.scores.size(); ++n) {
    auto ofRow = [&](ArrayRef<Value> mine, Value shared) {
      return isByKeys ? Value(memref::LoadOp::create(b, shared, others[n % others.size()])) : mine[n / others.size()];
    };
    Value weight = exponential(minus(scores.scores[n], ofRow(numbers.logSums, numbers.sharedLogSums)));
    Value factor = emitKept(scores.places[n]);
    result.kept.push_back(factor ? times(weight, factor) : weight);
    if (ofWeights.empty()) {
      continue;
    }
    Value ofWeight = factor ? times(ofWeights[n], factor) : ofWeights[n];
    Value gradient = times(weight, minus(ofWeight, ofRow(numbers.means, numbers.sharedMeans)));
    if (attention.softcap != 0) {
      gradient = times(gradient, minus(number(1), times(scores.tanhs[n], scores.tanhs[n])));
    }
    result.slopes.push_back(times(gradient, number(attention.scale)));
  }
  return result;
}

// The gradient of the query is the sum of t key over keys, of the key that of t query over rows, of the value that of p gradient over rows.
void AttentionKernel::emitGradients(ArrayRef<nn::AttentionGradientOp> ops) {
  nn::AttentionGradientOp any = ops.front();
  const int64_t columns = nn::columnsOf(any.getValue().getType()), width = nn::columnsOf(any.getQuery().getType());
  const bool needsSlopes = llvm::any_of(ops, [](nn::AttentionGradientOp op) { return op.getOf() != nn::AttentionOperand::Value; });
  begin(needsSlopes ? std::max(width, columns) : width, std::max(width, columns));
  const AttentionMatrix query = matrixOf(any.getQuery()), key = matrixOf(any.getKey()), value = matrixOf(any.getValue());
  const RowNumbers numbers = prepareRowNumbers(any);
  auto emitTile = [&](const AttentionMatrix &ofRows, const AttentionMatrix &ofKeys, Value first) {
    return isByKeys ? emitDots(ofKeys, ownFirst, ofRows, first) : emitDots(ofRows, ownFirst, ofKeys, first);
  };
  Values carried;
  SmallVector<size_t> counts;
  for (nn::AttentionGradientOp op : ops) {
    counts.push_back(tile.ofRows * accumulatedColumns(nn::columnsOf(op.getType())).size());
    carried.append(counts.back(), number(0));
  }
  Values last = forOthers(carried, [&](Value first, ArrayRef<Value> before) {
    if (isByKeys) {
      stageRowNumbers(numbers, first, needsSlopes);
    }
    const Scores scores = emitScores(emitTile(query, key, first), first);
    const Weights weights = emitWeights(scores, needsSlopes ? emitTile(numbers.slope, value, first) : Values(), numbers);
    Values next;
    for (auto [op, count] : llvm::zip_equal(ops, counts)) {
      Values sums(before.slice(next.size(), count));
      switch (nn::AttentionGradientOp(op).getOf()) {
      case nn::AttentionOperand::Query:
        next.append(accumulate(std::move(sums), weights.slopes, key, first));
        break;
      case nn::AttentionOperand::Key:
        next.append(accumulate(std::move(sums), weights.slopes, query, first));
        break;
      case nn::AttentionOperand::Value:
        next.append(accumulate(std::move(sums), weights.kept, numbers.slope, first));
        break;
      }
    }
    return next;
  });
  ArrayRef<Value> results(last);
  for (auto [op, count] : llvm::zip_equal(ops, counts)) {
    storeRows(resultOf(nn::AttentionGradientOp(op).getResult()), results.take_front(count), ownFirst);
    results = results.drop_front(count);
  }
  func::ReturnOp::create(b);
}

} // namespace

void emitAttentionKernel(exec::FusionOp fusion, func::FuncOp function, ArrayRef<int64_t> alias) {
  Block &body = fusion.getBody().front();
  auto gradients = llvm::to_vector(body.getOps<nn::AttentionGradientOp>());
  if (gradients.empty()) {
    auto op = *body.getOps<nn::AttentionOp>().begin();
    AttentionKernel kernel(fusion, function, alias, Attention::of(op), /*isByKeys=*/false, nn::columnsOf(op.getValue().getType()));
    kernel.emitForward(op);
    return;
  }
  int64_t accumulated = 0;
  llvm::for_each(gradients, [&](nn::AttentionGradientOp op) { accumulated += nn::columnsOf(op.getType()); });
  const bool isByKeys = gradients.front().getOf() != nn::AttentionOperand::Query;
  AttentionKernel(fusion, function, alias, Attention::of(gradients.front()), isByKeys, accumulated).emitGradients(gradients);
}

} // namespace ashlar::lower
