// SPDX-License-Identifier: Apache-2.0
//
// Convolutions: one walk over all products serves the three ops, which differ in the tensor that they add up. Sums run in double and are
// rounded once.

#include "compiler/reference/semantics.h"

#include "dialects/nn/windows/convolution.h"
#include "dialects/support/tensor_values.h"

using namespace mlir;

namespace ashlar::reference {

namespace {

// Calls `body` with the places of an element of x, of the weights and of y for each product x * w that y adds up. Padding is no element.
void forEachProduct(const nn::Convolution &conv, const Tensor &x, const Tensor &weights, const Tensor &y,
                    function_ref<void(int64_t inX, int64_t inWeights, int64_t inY)> body) {
  int64_t channel = conv.channelDim(), channelOfGroup = conv.weightChannelDim(), ofGroup = weights.getShape()[channelOfGroup];
  int64_t outputsOfGroup = weights.getShape()[0] / std::max<int64_t>(conv.groups(), 1);
  forEachIndex(y.getShape(), [&](ArrayRef<int64_t> yIndex, int64_t inY) {
    Index xIndex(yIndex), weightIndex(weights.getShape().size());
    weightIndex[0] = yIndex[channel];
    forEachIndex(weights.getShape().drop_front(), [&](ArrayRef<int64_t> place, int64_t) {
      llvm::copy(place, weightIndex.begin() + 1);
      xIndex[channel] = yIndex[channel] / outputsOfGroup * ofGroup + weightIndex[channelOfGroup];
      bool isPadding = false;
      for (int64_t i = 0; i < conv.spatialRank(); ++i) {
        int64_t d = conv.dimOf(i);
        xIndex[d] = conv.window(i).elementAt(yIndex[d], weightIndex[conv.weightDimOf(i)]);
        isPadding |= xIndex[d] < 0 || xIndex[d] >= x.getShape()[d];
      }
      if (!isPadding) {
        body(x.linearize(xIndex), weights.linearize(weightIndex), inY);
      }
    });
  });
}

Tensor convolve(Operation *op, ArrayRef<Tensor> operands) {
  nn::Convolution conv = *nn::Convolution::find(op);
  Tensor result(resultType(op));
  std::vector<double> sums(result.getNumElements(), 0);
  const Tensor &first = operands[0], &second = operands[1];
  switch (conv.kind) {
  case nn::ConvolutionKind::Forward:
    forEachProduct(conv, first, second, result,
                   [&](int64_t x, int64_t w, int64_t y) { sums[y] += first.getFloat(x) * second.getFloat(w); });
    break;
  case nn::ConvolutionKind::Data:
    forEachProduct(conv, result, second, first,
                   [&](int64_t x, int64_t w, int64_t y) { sums[x] += first.getFloat(y) * second.getFloat(w); });
    break;
  case nn::ConvolutionKind::Weights:
    forEachProduct(conv, first, result, second,
                   [&](int64_t x, int64_t w, int64_t y) { sums[w] += first.getFloat(x) * second.getFloat(y); });
    break;
  }
  for (auto [i, sum] : llvm::enumerate(sums)) {
    result.setFloat(i, sum);
  }
  return result;
}

} // namespace

void addConvolutionSemantics(SemanticsTable &table) {
  table.add<nn::ConvOp>(convolve);
  table.add<nn::ConvDataOp>(convolve);
  table.add<nn::ConvWeightsOp>(convolve);
}

} // namespace ashlar::reference
