// SPDX-License-Identifier: Apache-2.0
//
// What the ops of attention compute, as plain loops.

#include "dialects/nn/nn.h"
#include "dialects/nn/ops/attention_scores.h"
#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/philox.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns a number of an index of rows or keys, (batch or 1..., last), for an element of the batch, counted over its dims.
int64_t numberAt(const Tensor &index, ArrayRef<int64_t> batchDims, int64_t batch, int64_t last) {
  int64_t place = last, stride = index.getShape().back();
  for (size_t d = batchDims.size(); d-- > 0; batch /= batchDims[d]) {
    const int64_t size = index.getShape()[d];
    place += size == 1 ? 0 : batch % batchDims[d] * stride;
    stride *= size;
  }
  return index.getInt(place);
}

// The scores of an attention, row by row, in double precision.
class ReferenceScores {
public:
  template <typename Op>
  ReferenceScores(Op op, ArrayRef<Tensor> operands)
      : query(operands[0]), key(operands[1]), mask(op.getMask() ? &operands[op.getMaskMutable().begin()->getOperandNumber()] : nullptr),
        scale(op.getScale().convertToDouble()), softcap(op.getSoftcap().convertToDouble()),
        diagonal(op.getCausal() ? diagonalOf(op) : INT64_MAX), firstDistance(firstDistanceOf(op)),
        shape(scoresTypeOf(op.getQuery().getType(), op.getKey().getType()).getShape()), width(columnsOf(query.getType())) {
    if (!op.getPositions().empty()) {
      positions = operands.drop_front(op.getPositionsMutable().begin()->getOperandNumber()).take_front(2);
    }
    rows = shape.end()[-2];
    keys = shape.back();
    batches = llvm::product_of(ArrayRef(shape).drop_back(2));
  }

  // Calls `visit` with each row, counted over the batch, its scores and the derivatives of their softcaps.
  void forEachRow(llvm::function_ref<void(int64_t batch, int64_t row, ArrayRef<double> scores, ArrayRef<double> slopes)> visit) const {
    std::vector<double> scores(keys), slopes(keys, 1);
    forEachIndex(ArrayRef(shape).drop_back(), [&](ArrayRef<int64_t> index, int64_t at) {
      int64_t batch = rows == 0 ? 0 : at / rows;
      for (int64_t j = 0; j < keys; ++j) {
        double sum = 0;
        for (int64_t w = 0; w < width; ++w) {
          sum += query.getFloat(at * width + w) * key.getFloat((batch * keys + j) * width + w);
        }
        double score = scale * sum;
        if (softcap != 0) {
          const double share = std::tanh(score / softcap);
          score = softcap * share;
          slopes[j] = 1 - share * share;
        }
        const int64_t distance = distanceOf(batch, index.back(), j);
        scores[j] = distance > diagonal || distance < firstDistance ? kHidden : masked(score, index, j);
      }
      visit(batch, at, scores, slopes);
    });
  }

  int64_t batches, rows, keys;

private:
  int64_t distanceOf(int64_t batch, int64_t row, int64_t j) const {
    ArrayRef<int64_t> batchDims = ArrayRef(shape).drop_back(2);
    return positions.empty() ? j - row : numberAt(positions[1], batchDims, batch, j) - numberAt(positions[0], batchDims, batch, row);
  }

  double masked(double score, ArrayRef<int64_t> row, int64_t j) const {
    if (!mask) {
      return score;
    }
    Index place(row);
    place.push_back(j);
    for (auto [d, size] : llvm::enumerate(mask->getShape())) {
      place[d] = size == 1 ? 0 : place[d];
    }
    int64_t i = mask->linearize(place);
    return mask->isFloat() ? score + mask->getFloat(i) : mask->getInt(i) != 0 ? score : kHidden;
  }

  const Tensor &query, &key, *mask;
  double scale, softcap;
  int64_t diagonal, firstDistance;
  ArrayRef<Tensor> positions;
  SmallVector<int64_t> shape;
  int64_t width;
};

// How often the weights of an attention count.
class ReferenceDropout {
public:
  template <typename Op> ReferenceDropout(Op op, ArrayRef<Tensor> operands) : dropout(op.getDropout().convertToDouble()) {
    if (op.getDraw().empty()) {
      return;
    }
    draw = operands.drop_front(op.getDrawMutable().begin()->getOperandNumber()).take_front(5);
    shape.assign(shapeOf(op.getQuery()).drop_back().begin(), shapeOf(op.getQuery()).drop_back().end());
    isWide = typeOf(op.getQuery()).getElementType().isF64();
    if (!isWide) { // as the numbers that it is compared with
      least = static_cast<float>(dropout);
    }
  }

  // Returns how often the weight of a row, counted over the batch, and a key counts.
  double countOf(int64_t row, int64_t j) const {
    if (draw.empty()) {
      return 1;
    }
    const int64_t batch = row / shape.back();
    ArrayRef<int64_t> batchDims = ArrayRef(shape).drop_back();
    const int64_t index = numberAt(draw[0], batchDims, batch, row % shape.back()) + numberAt(draw[1], batchDims, batch, j);
    PhiloxWords words = philoxOfElement(index, draw[2].getInt(0), draw[3].getInt(0), static_cast<uint32_t>(draw[4].getInt(0)));
    const double drawn = isWide ? ((words[0] >> 5) * 0x1p26 + (words[1] >> 6)) * 0x1p-53 : (words[0] >> 8) * 0x1p-24;
    return drawn >= least ? 1 / (1 - dropout) : 0;
  }

private:
  ArrayRef<Tensor> draw;
  SmallVector<int64_t> shape; // of the rows
  double dropout, least = dropout;
  bool isWide = false;
};

} // namespace

Tensor AttentionLogSumOp::evaluate(ArrayRef<Tensor> operands) {
  Tensor result(getType());
  ReferenceScores(*this, operands).forEachRow([&](int64_t, int64_t row, ArrayRef<double> scores, ArrayRef<double>) {
    double largest = kHidden, sum = 0;
    for (double score : scores) {
      largest = score > largest || std::isnan(score) ? score : largest; // a NaN wins
    }
    for (double score : scores) {
      sum += std::exp(score - largest);
    }
    result.setFloat(row, largest == kHidden ? kHidden : largest + std::log(sum));
  });
  return result;
}

Tensor AttentionOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &value = operands[2], &logSum = operands[3];
  Tensor result(getType());
  int64_t columns = result.getShape().back();
  ReferenceScores reference(*this, operands);
  ReferenceDropout dropout(*this, operands);
  std::vector<double> weights(reference.keys);
  reference.forEachRow([&](int64_t batch, int64_t row, ArrayRef<double> scores, ArrayRef<double>) {
    for (auto [j, score] : llvm::enumerate(scores)) {
      weights[j] = std::exp(score - logSum.getFloat(row)) * dropout.countOf(row, static_cast<int64_t>(j));
    }
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (auto [j, weight] : llvm::enumerate(weights)) {
        sum += weight * value.getFloat((batch * reference.keys + j) * columns + c);
      }
      result.setFloat(row * columns + c, sum);
    }
  });
  return result;
}

Tensor AttentionGradientOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &query = operands[0], &key = operands[1], &value = operands[2], &logSum = operands[3], &out = operands[4],
               &slope = operands[5];
  int64_t width = query.getShape().back(), columns = value.getShape().back();
  Tensor result(getType());
  std::vector<double> sums(result.getNumElements(), 0);
  ReferenceScores reference(*this, operands);
  ReferenceDropout dropout(*this, operands);
  reference.forEachRow([&](int64_t batch, int64_t row, ArrayRef<double> scores, ArrayRef<double> slopes) {
    for (auto [j, score] : llvm::enumerate(scores)) {
      int64_t keyRow = batch * reference.keys + static_cast<int64_t>(j);
      double weight = std::exp(score - logSum.getFloat(row)), count = dropout.countOf(row, static_cast<int64_t>(j)), ofScore = 0;
      for (int64_t c = 0; c < columns; ++c) {
        ofScore += slope.getFloat(row * columns + c) * (count * value.getFloat(keyRow * columns + c) - out.getFloat(row * columns + c));
      }
      ofScore *= weight * slopes[j] * getScale().convertToDouble();
      for (int64_t w = 0; w < width && getOf() == AttentionOperand::Query; ++w) {
        sums[row * width + w] += ofScore * key.getFloat(keyRow * width + w);
      }
      for (int64_t w = 0; w < width && getOf() == AttentionOperand::Key; ++w) {
        sums[keyRow * width + w] += ofScore * query.getFloat(row * width + w);
      }
      for (int64_t c = 0; c < columns && getOf() == AttentionOperand::Value; ++c) {
        sums[keyRow * columns + c] += count * weight * slope.getFloat(row * columns + c);
      }
    }
  });
  for (auto [i, sum] : llvm::enumerate(sums)) {
    result.setFloat(static_cast<int64_t>(i), sum);
  }
  return result;
}

} // namespace ashlar::nn
