// SPDX-License-Identifier: Apache-2.0
//
// Moments and normalization, as their definitions say: the variance is the mean of the squared distances from the mean, in two passes.

#include "compiler/reference/semantics.h"

#include "dialects/nn/nn.h"

#include <cmath>

using namespace mlir;

namespace ashlar::reference {

namespace {

// Returns the part of an index that `keeps` says of its dims.
Index partOf(ArrayRef<int64_t> index, llvm::function_ref<bool(int64_t)> keeps) {
  Index part;
  for (auto [d, i] : llvm::enumerate(index)) {
    if (keeps(d)) {
      part.push_back(i);
    }
  }
  return part;
}

Tensor moments(Operation *op, ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> dims = cast<nn::MomentsOp>(op).getDims();
  const Tensor &input = operands[0];
  Tensor result(resultType(op));
  int64_t kept = result.getNumElements() / 2;
  if (kept == 0) {
    return result;
  }
  double count = static_cast<double>(input.getNumElements() / kept);
  auto placeOf = [&](ArrayRef<int64_t> index) {
    Index place = partOf(index, [&](int64_t d) { return !llvm::is_contained(dims, d); });
    place.insert(place.begin(), 0);
    return result.linearize(place);
  };
  std::vector<double> means(kept, 0), variances(kept, 0);
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) { means[placeOf(index)] += input.getFloat(i) / count; });
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    double distance = input.getFloat(i) - means[placeOf(index)];
    variances[placeOf(index)] += distance * distance / count;
  });
  for (int64_t i = 0; i < kept; ++i) {
    result.setFloat(i, means[i]);
    result.setFloat(kept + i, variances[i]);
  }
  return result;
}

Tensor normalize(Operation *op, ArrayRef<Tensor> operands) {
  auto normalizeOp = cast<nn::NormalizeOp>(op);
  const Tensor &x = operands[0], &scale = operands[1], &shift = operands[2], &mean = operands[3], &variance = operands[4];
  double epsilon = normalizeOp.getEpsilon().convertToDouble();
  Tensor result(resultType(op));
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t at = scale.linearize(partOf(index, [&](int64_t d) { return llvm::is_contained(normalizeOp.getDims(), d); }));
    double root = std::sqrt(variance.getFloat(at) + epsilon);
    result.setFloat(i, (x.getFloat(i) - mean.getFloat(at)) * scale.getFloat(at) / root + shift.getFloat(at));
  });
  return result;
}

} // namespace

void addNormalizationSemantics(SemanticsTable &table) {
  table.add<nn::MomentsOp>(moments);
  table.add<nn::NormalizeOp>(normalize);
}

} // namespace ashlar::reference
