// SPDX-License-Identifier: Apache-2.0
//
// Moments and normalization; labels of constraints as in nn_normalization.td. The reference semantics are the definitions: the variance is
// the mean of the squared distances from the mean, in two passes.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"
#include "dialects/nn/pairs.h"

#include <cmath>

using namespace mlir;

namespace ashlar::nn {

//===-- nn.moments --------------------------------------------------------------------------------------------------------------------===//

LogicalResult MomentsOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> dims = adaptor.getDims();
  if (!isIncreasing(dims, from.getRank())) { // C1
    return emitOptionalError(loc, "moments dims [", dims, "] are not strictly increasing within rank ", from.getRank());
  }
  SmallVector<int64_t> shape = {2};
  for (int64_t d = 0; d < from.getRank(); ++d) {
    if (!llvm::is_contained(dims, d)) {
      shape.push_back(from.getDimSize(d));
    } else if (from.getDimSize(d) == 0) { // C2
      return emitOptionalError(loc, "moments of ", from, " along dims [", dims, "] are of no elements");
    }
  }
  bool isNarrow = isNarrowFloat(from.getElementType());
  types.push_back(RankedTensorType::get(shape, isNarrow ? Float32Type::get(context) : from.getElementType()));
  return success();
}

// moments dims = [0]: ([n, c]) -> ([m, c]) expanded={n} replicated={m}, m being mean and variance
ShardingRule MomentsOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(shapeOf(getInput()), /*numOperands=*/1, /*numResults=*/0);
  TensorFactors result = {{rule.addFactor(2, FactorKind::NeedReplication)}};
  for (auto [d, factors] : llvm::enumerate(rule.operands.front())) {
    if (llvm::is_contained(getDims(), d)) {
      rule.factors[d].kind = FactorKind::Expanded;
    } else {
      result.push_back(factors);
    }
  }
  rule.results = {result};
  return rule;
}

// (gmean + 2 gvariance (x - mean)) / n, from the result's own mean: x is read once, and nothing is added up.
void MomentsOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  Value x = b.wide(getInput());
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  double share = typeOf(g[0]).getNumElements() / 2.0 / typeOf(x).getNumElements(); // 1 / n
  auto along = [&](Value statistic) { return b.broadcastAlong(statistic, getDims(), shape); };
  Value meanSlope = b.times(partOf(b, g[0], 0), share), varianceSlope = b.times(partOf(b, g[0], 1), 2 * share);
  Value centred = b.sub(x, along(partOf(b, getResult(), 0)));
  out[0] = b.as(getInput(), b.add(along(meanSlope), b.mul(centred, along(varianceSlope))));
}

// mean = sum(x) / n, variance = sum(x^2) / n - mean^2, in f64. Rounding may leave a variance below 0 where all x are equal.
Value MomentsOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  Value x = b.as(b.getF64Type(), getInput());
  Value sum = ReduceOp::create(b, Reduction::Sum, x, getDims());
  Value squares = ReduceOp::create(b, Reduction::Sum, MulOp::create(b, x, x), getDims());
  Value sums = pairUp(b, sum, squares); // one tensor, so that one collective combines the parts of both
  double count = static_cast<double>(typeOf(x).getNumElements()) / static_cast<double>(typeOf(sum).getNumElements());
  Value means = MulOp::create(b, sums, ConstantOp::create(b, splat(typeOf(sums), 1 / count)));
  Value mean = partOf(b, means, 0);
  Value variance = SubOp::create(b, partOf(b, means, 1), MulOp::create(b, mean, mean));
  variance = MaxOp::create(b, variance, ConstantOp::create(b, splat(typeOf(variance), 0)));
  return b.as(getType().getElementType(), pairUp(b, mean, variance));
}

namespace {

// Returns the entries of an index whose dims `keeps` chooses.
Index placeWithin(ArrayRef<int64_t> index, llvm::function_ref<bool(int64_t)> keeps) {
  Index part;
  for (auto [d, i] : llvm::enumerate(index)) {
    if (keeps(d)) {
      part.push_back(i);
    }
  }
  return part;
}

} // namespace

Tensor MomentsOp::evaluate(ArrayRef<Tensor> operands) {
  ArrayRef<int64_t> dims = getDims();
  const Tensor &input = operands[0];
  Tensor result(getType());
  int64_t kept = result.getNumElements() / 2;
  if (kept == 0) {
    return result;
  }
  double count = static_cast<double>(input.getNumElements() / kept);
  auto placeOf = [&](ArrayRef<int64_t> index) {
    Index place = placeWithin(index, [&](int64_t d) { return !llvm::is_contained(dims, d); });
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

//===-- nn.normalize ------------------------------------------------------------------------------------------------------------------===//

LogicalResult NormalizeOp::verify() {
  RankedTensorType input = getInput().getType(), scale = getScale().getType();
  int64_t previous = -1;
  SmallVector<int64_t> expected;
  for (int64_t dim : getDims()) {
    if (dim <= previous || dim >= input.getRank()) { // C1
      return emitOpError("dims [") << getDims() << "] are not strictly increasing within rank " << input.getRank();
    }
    expected.push_back(input.getDimSize(dim));
    previous = dim;
  }
  if (scale.getShape() != ArrayRef<int64_t>(expected)) { // C2
    return emitOpError("has scale of ") << scale << " but dims [" << getDims() << "] of " << input << " need " << scale.clone(expected);
  }
  if (scale.getElementType() != input.getElementType()) { // C3
    return emitOpError("normalizes ") << input << " by " << scale << "; element types differ";
  }
  return success();
}

// normalize dims = [1]: ([n, c], [c], [c], [c], [c]) -> ([n, c])
ShardingRule NormalizeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
  TensorFactors statistics;
  for (int64_t dim : getDims()) {
    statistics.push_back(rule.results.front()[dim]);
  }
  rule.operands.append(4, statistics);
  return rule;
}

// With r = 1 / sqrt(variance + epsilon), s = sum(g) and t = sum(g (x - mean)):
//   gx = g scale r, gscale = t r, gshift = s, gmean = -s scale r, gvariance = -t scale r^3 / 2
void NormalizeOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> summed = NnBuilder::otherDims(getDims(), getType().getRank());
  Value x = b.wide(getInput()), slope = b.wide(g[0]), scale = b.wide(getScale()), variance = b.wide(getVariance());
  auto along = [&](Value statistic) { return b.broadcastAlong(statistic, summed, getType().getShape()); };
  Value root = SqrtOp::create(b, b.plus(variance, getEpsilon().convertToDouble()));
  Value inverse = b.div(b.constant(typeOf(root), 1), root), factor = b.mul(scale, inverse);
  Value centred = b.sub(x, along(b.wide(getMean())));
  Value sums = pairUp(b, b.sum(slope, summed), b.sum(b.mul(slope, centred), summed));
  Value plain = partOf(b, sums, 0), weighted = partOf(b, sums, 1);
  out[0] = b.as(getInput(), b.mul(slope, along(factor)));
  out[1] = b.as(getScale(), b.mul(weighted, inverse));
  out[2] = b.as(getShift(), plain);
  out[3] = b.as(getMean(), b.neg(b.mul(plain, factor)));
  out[4] = b.as(getVariance(), b.times(b.mul(b.mul(weighted, factor), b.mul(inverse, inverse)), -0.5));
}

// (x - mean) * (scale * (1 / sqrt(variance + epsilon))) + shift. The difference comes first: it is small where x and its mean are large.
Value NormalizeOp::buildExpansion(OpBuilder &builder) {
  NnBuilder b(*this, builder);
  Value x = b.wide(getInput()), variance = b.wide(getVariance());
  auto repeated = [&](Value statistic) { return BroadcastOp::create(b, typeOf(x), b.wide(statistic), getDims()).getResult(); };
  auto constant = [&](double value) { return ConstantOp::create(b, splat(typeOf(variance), value)).getResult(); };
  Value root = SqrtOp::create(b, AddOp::create(b, variance, constant(getEpsilon().convertToDouble())));
  Value factor = MulOp::create(b, b.wide(getScale()), DivOp::create(b, constant(1), root));
  Value scaled = MulOp::create(b, SubOp::create(b, x, repeated(getMean())), repeated(factor));
  return b.as(getType().getElementType(), AddOp::create(b, scaled, repeated(getShift())));
}

Tensor NormalizeOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &x = operands[0], &scale = operands[1], &shift = operands[2], &mean = operands[3], &variance = operands[4];
  double epsilon = getEpsilon().convertToDouble();
  ArrayRef<int64_t> dims = getDims();
  Tensor result(getType());
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    int64_t at = scale.linearize(placeWithin(index, [&](int64_t d) { return llvm::is_contained(dims, d); }));
    double root = std::sqrt(variance.getFloat(at) + epsilon);
    result.setFloat(i, (x.getFloat(i) - mean.getFloat(at)) * scale.getFloat(at) / root + shift.getFloat(at));
  });
  return result;
}

} // namespace ashlar::nn
