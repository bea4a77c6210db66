// SPDX-License-Identifier: Apache-2.0
//
// Softmax and its relatives: all work row by row along the last dim.

#include "compiler/reference/semantics.h"

#include "dialects/nn/nn.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ashlar::reference {

namespace {

// The largest element of a row, and the logarithm of the sum of exp(x - largest).
struct RowNorm {
  double largest;
  double logSum;

  double logSoftmax(double x) const { return x - largest - logSum; }
};

RowNorm normOfRow(const Tensor &input, int64_t begin, int64_t size) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = begin; i < begin + size; ++i) {
    largest = std::max(largest, input.getFloat(i));
  }
  for (int64_t i = begin; i < begin + size; ++i) {
    sum += std::exp(input.getFloat(i) - largest);
  }
  return {largest, std::log(sum)};
}

// softmax and log_softmax, by what becomes of the logarithm.
template <bool isLog> Tensor softmax(Operation *op, ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  int64_t size = result.getShape().back();
  for (int64_t begin = 0; begin < result.getNumElements(); begin += size) {
    RowNorm norm = normOfRow(input, begin, size);
    for (int64_t i = begin; i < begin + size; ++i) {
      double value = norm.logSoftmax(input.getFloat(i));
      result.setFloat(i, isLog ? value : std::exp(value));
    }
  }
  return result;
}

Tensor softmaxCrossEntropy(Operation *op, ArrayRef<Tensor> operands) {
  const Tensor &logits = operands[0], &labels = operands[1];
  Tensor result(resultType(op));
  int64_t classes = logits.getShape().back();
  for (int64_t row = 0; row < result.getNumElements(); ++row) {
    int64_t label = labels.getInt(row);
    if (label >= 0 && label < classes) {
      RowNorm norm = normOfRow(logits, row * classes, classes);
      result.setFloat(row, -norm.logSoftmax(logits.getFloat(row * classes + label)));
    }
  }
  return result;
}

} // namespace

void addLossSemantics(SemanticsTable &table) {
  table.add<nn::SoftmaxOp>(softmax</*isLog=*/false>);
  table.add<nn::LogSoftmaxOp>(softmax</*isLog=*/true>);
  table.add<nn::SoftmaxCrossEntropyOp>(softmaxCrossEntropy);
}

} // namespace ashlar::reference
