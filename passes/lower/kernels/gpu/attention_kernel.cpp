// SPDX-License-Identifier: Apache-2.0
//
// Weights of tiles, around the products of attention_tiles.h.

#include "passes/lower/kernels/gpu/attention_kernel.h"

#include "passes/lower/kernels/gpu/attention_nest.h"

#include "dialects/support/tensor_values.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <limits>

using namespace mlir;

namespace ashlar::lower {

namespace {

class AttentionKernel : public AttentionNest {
public:
  using AttentionNest::AttentionNest;

  void emitForward(nn::AttentionOp op);
  void emitGradients(ArrayRef<nn::AttentionGradientOp> ops);
  void emitCorrection(nn::SubOp op);

private:
  struct Weights {
    Values kept, slopes;
  };
  // Of own rows: the largest score so far, and the thread's part of the sum of exponentials.
  struct RunningSums {
    RunningSums(size_t count, AttentionKernel &kernel) : most(count, kernel.number(nn::kHidden)), totals(count, kernel.number(0)) {}
    explicit RunningSums(ArrayRef<Value> all) : most(all.take_front(all.size() / 2)), totals(all.take_back(all.size() / 2)) {}

    Values all() const {
      Values all = most;
      all.append(totals);
      return all;
    }

    Values most, totals;
  };
  // What a gradient needs of each row: its log-sum-exp, as rounded and what that lost, and the mean of the gradients of its weights; in
  // registers of own rows, or of a tile of other rows in shared memory.
  struct RowNumbers {
    AttentionMatrix out, slope;
    Value logSum, correction;
    Values logSums, corrections, means;
    Value sharedLogSums, sharedCorrections, sharedMeans;
  };

  Values addScores(const Scores &scores, RunningSums &sums, Values &shrunk);
  Value combineTotal(Value total) {
    return combineRow(total, [&](Value x, Value y) { return plus(x, y); });
  }
  RowNumbers prepareRowNumbers(nn::AttentionGradientOp op);
  void stageRowNumbers(const RowNumbers &numbers, Value first, bool needsMeans);
  Weights emitWeights(const Scores &scores, ArrayRef<Value> ofWeights, const RowNumbers &numbers);
  Value emitMean(const AttentionMatrix &out, const AttentionMatrix &slope, Value row, int64_t sharing);
};

// Takes a tile's scores into the largest score and the sum of exponentials of each own row, of which a thread has a part. Returns the
// weights, exp(score - largest), and sets `shrunk` to the factors of what has been added up with the largest scores before.
AttentionKernel::Values AttentionKernel::addScores(const Scores &scores, RunningSums &sums, Values &shrunk) {
  Values weights;
  for (size_t i = 0; i < sums.most.size(); ++i) {
    ArrayRef<Value> ofScores = ArrayRef(scores.scores).slice(i * others.size(), others.size());
    Value largest = ofScores.front();
    llvm::for_each(ofScores.drop_front(), [&](Value score) { largest = larger(largest, score); });
    largest = larger(sums.most[i], combineRow(largest, [&](Value x, Value y) { return larger(x, y); }));
    Value isHidden = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, largest, number(nn::kHidden));
    Value base = arith::SelectOp::create(b, isHidden, number(0), largest); // -inf - -inf would be NaN
    shrunk.push_back(exponential(minus(sums.most[i], base)));
    sums.most[i] = largest;
    sums.totals[i] = times(sums.totals[i], shrunk.back());
    for (Value score : ofScores) {
      weights.push_back(exponential(minus(score, base)));
      sums.totals[i] = plus(sums.totals[i], weights.back());
    }
  }
  return weights;
}

void AttentionKernel::emitForward(nn::AttentionOp op) {
  const int64_t columns = nn::columnsOf(op.getValue().getType());
  begin(nn::columnsOf(op.getQuery().getType()), columns);
  const AttentionMatrix query = matrixOf(op.getQuery()), key = matrixOf(op.getKey()), value = matrixOf(op.getValue());
  const size_t count = tile.ofRows, ofRow = accumulatedColumns(columns).size();
  Values carried(count * ofRow, number(0));
  carried.append(RunningSums(count, *this).all());
  Values last = forOthers(carried, [&](Value first, ArrayRef<Value> before) {
    Values sums(before.take_front(count * ofRow)), shrunk;
    RunningSums running(before.drop_front(count * ofRow));
    const Scores scores = emitScores(emitDots(query, ownFirst, key, first), first);
    Values weights = addScores(scores, running, shrunk);
    for (auto [weight, place] : llvm::zip_equal(weights, scores.places)) {
      Value kept = emitKept(place);
      weight = kept ? times(weight, kept) : weight;
    }
    for (auto [i, sum] : llvm::enumerate(sums)) {
      sum = times(sum, shrunk[i / ofRow]);
    }
    Values next = accumulate(std::move(sums), weights, value, first);
    next.append(running.all());
    return next;
  });
  const RunningSums running(ArrayRef(last).drop_front(count * ofRow));
  Values totals = llvm::map_to_vector(running.totals, [&](Value total) { return combineTotal(total); });
  storeRowNumbers(op.getLogSum(), [&](size_t i) { return plus(running.most[i], math::LogOp::create(b, totals[i])); });
  Values results;
  for (size_t i = 0; i < count * ofRow; ++i) {
    results.push_back(arith::DivFOp::create(b, last[i], totals[i / ofRow]));
  }
  storeRows(resultOf(op.getResult()), results, ownFirst);
  func::ReturnOp::create(b);
}

// The log-sum-exp of rows where it is large, less what it was rounded to; 0 of others. All threads of a block agree on whether it has such
// rows.
void AttentionKernel::emitCorrection(nn::SubOp op) {
  constexpr double kLarge = 256, kInfinity = std::numeric_limits<double>::infinity(); // below, 2^-17 of a weight is lost at most
  begin(nn::columnsOf(typeOf(attention.query)), /*columns=*/1);
  const AttentionMatrix query = matrixOf(attention.query), key = matrixOf(attention.key);
  Value logSum = op.getRhs(), none = arith::ConstantIntOp::create(b, false, 1);
  Value isLarge = emitFor(zero, constant(tile.own), 1, {none}, [&](Value row, ArrayRef<Value> carried) {
    Value size = math::AbsFOp::create(b, rowNumberAt(logSum, inside(add(ownFirst, row), rows, tile.own)));
    Value above = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, size, number(kLarge));
    Value isFinite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size, number(kInfinity));
    return Values{arith::OrIOp::create(b, carried[0], both(above, isFinite))};
  })[0];
  storeRowNumbers(op.getResult(), [&](size_t) { return number(0); });
  emitIf(isLarge, [&] {
    Values last = forOthers(RunningSums(tile.ofRows, *this).all(), [&](Value first, ArrayRef<Value> before) {
      RunningSums running(before);
      Values shrunk;
      addScores(emitScores(emitDots(query, ownFirst, key, first), first), running, shrunk);
      return running.all();
    });
    const RunningSums running{ArrayRef<Value>(last)};
    Values totals = llvm::map_to_vector(running.totals, [&](Value total) { return combineTotal(total); });
    storeRowNumbers(op.getResult(), [&](size_t i) {
      Value rounded = rowNumberAt(logSum, inside(add(ownFirst, own[i]), rows, tile.own));
      return plus(minus(running.most[i], rounded), math::LogOp::create(b, totals[i]));
    });
  });
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
  RowNumbers numbers;
  numbers.out = matrixOf(op.getOut());
  numbers.slope = matrixOf(op.getGradient());
  auto whole = op.getLogSum().getDefiningOp<nn::AddOp>();
  numbers.logSum = whole.getLhs();
  numbers.correction = whole.getRhs();
  if (isByKeys) {
    for (Value *shared : {&numbers.sharedLogSums, &numbers.sharedCorrections, &numbers.sharedMeans}) {
      *shared = allocateShared(b.getF32Type(), tile.others);
    }
    return numbers;
  }
  for (Value row : own) {
    Value at = inside(add(ownFirst, row), rows, tile.own);
    numbers.logSums.push_back(rowNumberAt(numbers.logSum, at));
    numbers.corrections.push_back(rowNumberAt(numbers.correction, at));
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
    memref::StoreOp::create(b, rowNumberAt(numbers.logSum, row), numbers.sharedLogSums, place);
    memref::StoreOp::create(b, rowNumberAt(numbers.correction, row), numbers.sharedCorrections, place);
    if (mean) {
      memref::StoreOp::create(b, mean, numbers.sharedMeans, place);
    }
  });
}

// Of a tile: weights p = exp(score - log_sum), which is a difference of three as a large log_sum is rounded, as often as they count, and t
// = p (gradient of p - mean) scale slope of the softcap; the latter where there are gradients of weights.
AttentionKernel::Weights AttentionKernel::emitWeights(const Scores &scores, ArrayRef<Value> ofWeights, const RowNumbers &numbers) {
  Weights result;
  for (size_t n = 0; n < scores.scores.size(); ++n) {
    auto ofRow = [&](ArrayRef<Value> mine, Value shared) {
      return isByKeys ? Value(memref::LoadOp::create(b, shared, others[n % others.size()])) : mine[n / others.size()];
    };
    Value rounded = minus(scores.scores[n], ofRow(numbers.logSums, numbers.sharedLogSums));
    Value weight = exponential(minus(rounded, ofRow(numbers.corrections, numbers.sharedCorrections)));
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
  auto attentions = llvm::to_vector(body.getOps<nn::AttentionOp>());
  if (!gradients.empty()) {
    int64_t accumulated = 0;
    llvm::for_each(gradients, [&](nn::AttentionGradientOp op) { accumulated += nn::columnsOf(op.getType()); });
    nn::AttentionGradientOp first = gradients.front();
    const bool isByKeys = first.getOf() != nn::AttentionOperand::Query;
    Attention attention = Attention::of(first, first.getDraw(), first.getDropout().convertToDouble());
    return AttentionKernel(fusion, function, alias, attention, isByKeys, accumulated).emitGradients(gradients);
  }
  if (!attentions.empty()) {
    nn::AttentionOp op = attentions.front();
    Attention attention = Attention::of(op, op.getDraw(), op.getDropout().convertToDouble());
    const int64_t accumulated = nn::columnsOf(op.getValue().getType());
    return AttentionKernel(fusion, function, alias, attention, /*isByKeys=*/false, accumulated).emitForward(op);
  }
  auto correction = *body.getOps<nn::SubOp>().begin();
  auto logSum = correction.getLhs().getDefiningOp<nn::AttentionLogSumOp>();
  AttentionKernel(fusion, function, alias, Attention::of(logSum), /*isByKeys=*/false, /*accumulated=*/0).emitCorrection(correction);
}

} // namespace ashlar::lower
