// SPDX-License-Identifier: Apache-2.0
//
// Ops that cut, extend and join dims; labels of constraints as in nn_ops.td. Along a sharded dim they are windowed: a device gets the run
// of elements that its part of the result reads. The sharding rules are mirrored by test/passes/layout/print_sharding_rules.mlir.

#include "dialects/nn/ops/evaluation.h"
#include "dialects/nn/ops/nn_builder.h"
#include "dialects/nn/ops/op_checks.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace ashlar::nn {

namespace {

// Returns the rule of an op whose result dims are runs of `blocks[d]` elements, one a position, and whose position p along dim d reads the
// elements of the operand that `accesses[d]` gives. A dim that the op leaves as it is has no windows. Nothing of an empty dim is split.
ShardingRule dimwiseRule(Value input, Value result, ArrayRef<int64_t> blocks, ArrayRef<Access> accesses) {
  ShardingRule rule;
  ArrayRef<int64_t> from = shapeOf(input), to = shapeOf(result);
  TensorFactors factors;
  for (size_t d = 0; d < from.size(); ++d) {
    factors.push_back({rule.addFactor(from[d] == 0 ? 0 : llvm::divideCeil(to[d], blocks[d]))});
  }
  rule.operands = rule.results = {factors};
  for (size_t d = 0; d < from.size(); ++d) {
    if (rule.factors[d].size != 0) {
      rule.addWindow(/*tensor=*/0, d, from[d], accesses[d]);
      rule.addWindow(/*tensor=*/1, d, to[d], {blocks[d], 0, blocks[d]});
    }
  }
  return rule;
}

} // namespace

//===-- nn.concat ---------------------------------------------------------------------------------------------------------------------===//

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) { // C1
    return emitOptionalError(loc, "concat needs at least one operand");
  }
  RankedTensorType first = typeOf(adaptor.getInputs().front());
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank()) { // C2
    return emitOptionalError(loc, "concat dim ", dim, " is not within rank ", first.getRank());
  }
  SmallVector<int64_t> shape(first.getShape());
  shape[dim] = 0;
  for (Value input : adaptor.getInputs()) {
    RankedTensorType type = typeOf(input);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType()) { // C3
      return emitOptionalError(loc, "concat joins ", first, " with ", type);
    }
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (d != dim && type.getDimSize(d) != first.getDimSize(d)) { // C3
        return emitOptionalError(loc, "concat along dim ", dim, " joins ", first, " with ", type, ", which differ in dim ", d);
      }
    }
    shape[dim] = joinedSize(shape[dim], type.getDimSize(dim));
  }
  types.push_back(first.clone(shape));
  return success();
}

// concat dim = 1: ([i, j], [i, j]) -> ([i, j]) window={j}, j the elements of the result
ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), getInputs().size());
  const int64_t dim = getDim();
  auto sizeOf = [&](Value input) { return shapeOf(input)[dim]; };
  // Where the dim is split, a device has a run as long as its shard of the result of each operand: of many they are too long.
  constexpr size_t kMostRuns = 8;
  if (getInputs().size() > kMostRuns || llvm::is_contained(llvm::map_range(getInputs(), sizeOf), 0)) {
    rule.factors[dim].kind = FactorKind::Permutation;
    for (Value input : getInputs()) {
      rule.factors[dim].size = std::min(rule.factors[dim].size, sizeOf(input));
    }
    return rule;
  }
  int64_t begin = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    rule.addWindow(/*tensor=*/i, dim, sizeOf(input), {/*step=*/1, /*first=*/-begin, /*last=*/1 - begin});
    begin += sizeOf(input);
  }
  return rule;
}

// Each operand is a run as long as the device's part of the result by now, with zeros where it has no elements. Of these the op takes the
// last that has begun.
void ConcatOp::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder buildStart) {
  if (!dims.test(getDim())) {
    return;
  }
  OpBuilder builder(*this);
  NnBuilder b(*this, builder);
  RankedTensorType type = getType(), numbers = type.clone(b.getI64Type());
  SmallVector<int64_t> strides(type.getRank(), 0);
  strides[getDim()] = 1;
  Value index = IndexOp::create(b, numbers, strides), taken = getInputs().front();
  for (unsigned i = 1; i < getInputs().size(); ++i) {
    Value start = BroadcastOp::create(b, numbers, buildStart(i, getDim()).element, ArrayRef<int64_t>());
    Value hasBegun = b.compare(Predicate::Ge, b.add(index, start), ConstantOp::create(b, splat(numbers, 0)));
    taken = b.select(hasBegun, getInputs()[i], taken);
  }
  getInputsMutable().assign(taken);
}

bool ConcatOp::isIdentityOfEqualTypes() {
  return true;
}

void ConcatOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> starts(getType().getRank(), 0), limits(getType().getShape()), steps(getType().getRank(), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    limits[getDim()] = starts[getDim()] + typeOf(input).getDimSize(getDim());
    out[i] = SliceOp::create(b, g[0], starts, limits, steps);
    starts[getDim()] = limits[getDim()];
  }
}

Tensor ConcatOp::evaluate(ArrayRef<Tensor> operands) {
  int64_t dim = getDim();
  Tensor result(getType());
  int64_t begin = 0;
  for (const Tensor &input : operands) {
    forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
      Index to(index);
      to[dim] += begin;
      result.copyElement(result.linearize(to), input, i);
    });
    begin += input.getShape()[dim];
  }
  return result;
}

//===-- nn.slice ----------------------------------------------------------------------------------------------------------------------===//

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(), steps = adaptor.getSteps();
  size_t rank = from.getRank();
  if (starts.size() != rank || limits.size() != rank || steps.size() != rank) { // C1
    return emitOptionalError(loc, "slice of rank ", rank, " has ", starts.size(), " starts, ", limits.size(), " limits and ", steps.size(),
                             " steps");
  }
  SmallVector<int64_t> shape;
  for (size_t d = 0; d < rank; ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] || limits[d] > from.getDimSize(d)) { // C2
      return emitOptionalError(loc, "slice [", starts[d], ", ", limits[d], ") of dim ", d, " is not within size ", from.getDimSize(d));
    }
    if (steps[d] < 1) { // C3
      return emitOptionalError(loc, "slice of dim ", d, " has step ", steps[d], ", which is not positive");
    }
    shape.push_back(llvm::divideCeil(limits[d] - starts[d], steps[d]));
  }
  types.push_back(from.clone(shape));
  return success();
}

// slice along dim 1: ([i, j]) -> ([i, j]) window={j}, j the elements of the result
ShardingRule SliceOp::getShardingRule() {
  SmallVector<Access> accesses;
  for (auto [start, step] : llvm::zip_equal(getStarts(), getSteps())) {
    accesses.push_back({step, start, start + 1});
  }
  return dimwiseRule(getInput(), getResult(), SmallVector<int64_t>(accesses.size(), 1), accesses);
}

void SliceOp::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder) {
  SmallVector<int64_t> starts(getStarts()), limits(getLimits());
  for (unsigned d : dims.set_bits()) {
    starts[d] = 0;
    limits[d] = shapeOf(getInput())[d];
  }
  setStarts(starts);
  setLimits(limits);
}

bool SliceOp::isIdentityOfEqualTypes() {
  return true;
}

void SliceOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> interior = llvm::map_to_vector(getSteps(), [](int64_t step) { return step - 1; });
  out[0] = PadOp::create(b, getInput().getType(), g[0], getStarts(), interior);
}

Tensor SliceOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index from(index);
    for (size_t d = 0; d < from.size(); ++d) {
      from[d] = getStarts()[d] + index[d] * getSteps()[d];
    }
    result.copyElement(i, input, input.linearize(from));
  });
  return result;
}

//===-- nn.pad ------------------------------------------------------------------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  int64_t rank = from.getRank();
  if (to.getRank() != rank || static_cast<int64_t>(getLow().size()) != rank || static_cast<int64_t>(getInterior().size()) != rank) { // C1
    return emitOpError("has ranks ") << rank << " and " << to.getRank() << " with " << getLow().size() << " low and "
                                     << getInterior().size() << " interior entries";
  }
  for (int64_t d = 0; d < rank; ++d) {
    int64_t low = getLow()[d], interior = getInterior()[d];
    if (low < 0 || interior < 0) { // C1
      return emitOpError("has low ") << low << " and interior " << interior << " in dim " << d << "; neither may be negative";
    }
    // The last element lands at low + (size - 1) * (interior + 1).
    int64_t size = from.getDimSize(d), stride = 0;
    bool counted = size == 0 || !llvm::AddOverflow(interior, int64_t{1}, stride);
    std::optional<int64_t> last = counted ? llvm::checkedMulAdd(std::max<int64_t>(size - 1, 0), stride, low) : std::nullopt;
    if (!last || *last == std::numeric_limits<int64_t>::max()) { // C2
      return emitOpError("needs more rows in dim ") << d << " than can be counted";
    }
    int64_t needed = size == 0 ? low : *last + 1;
    if (needed > to.getDimSize(d)) { // C2
      return emitOpError("needs size ") << needed << " in dim " << d << " but the result has " << to.getDimSize(d);
    }
  }
  return verifySameElementType(*this, from, to); // C3
}

// pad along dim 1: ([i, j]) -> ([i, j]) window={j}, j the blocks of the result with the place of one element each
ShardingRule PadOp::getShardingRule() {
  SmallVector<int64_t> blocks;
  SmallVector<Access> accesses;
  for (auto [low, interior] : llvm::zip_equal(getLow(), getInterior())) {
    blocks.push_back(interior + 1);
    accesses.push_back({/*step=*/1, /*first=*/-(low / blocks.back()), /*last=*/1 - low / blocks.back()});
  }
  return dimwiseRule(getInput(), getResult(), blocks, accesses);
}

void PadOp::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder) {
  SmallVector<int64_t> low(getLow());
  for (unsigned d : dims.set_bits()) {
    low[d] %= getInterior()[d] + 1; // the blocks of the result have their elements by now
  }
  setLow(low);
}

bool PadOp::isIdentityOfEqualTypes() {
  return true;
}

void PadOp::buildGradients(OpBuilder &builder, ValueRange g, Gradients out) {
  NnBuilder b(*this, builder);
  SmallVector<int64_t> limits, steps;
  for (auto [size, low, interior] : llvm::zip_equal(getInput().getType().getShape(), getLow(), getInterior())) {
    steps.push_back(interior + 1);
    limits.push_back(size == 0 ? low : low + (size - 1) * (interior + 1) + 1);
  }
  out[0] = SliceOp::create(b, g[0], getLow(), limits, steps);
}

Tensor PadOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  ArrayRef<int64_t> low = getLow(), interior = getInterior();
  Tensor result(getType());
  forEachIndex(input.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    Index to(index);
    for (size_t d = 0; d < to.size(); ++d) {
      to[d] = low[d] + index[d] * (interior[d] + 1);
    }
    result.copyElement(result.linearize(to), input, i);
  });
  return result;
}

} // namespace ashlar::nn
