// SPDX-License-Identifier: Apache-2.0
//
// nn.resample: types, sharding rule, gradient, expansion; labels as in window_ops.td. The op is linear, and its gradient is one of the same
// kind with the places turned round: which elements of the result an element of the operand goes to. Where its dim is split, each device
// has the run of elements that its positions read, and finds its rows of the tables by the number of its first position.

#include "dialects/nn/nn.h"
#include "dialects/nn/ops/evaluation.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_values.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::nn {

namespace {

// Up to as many terms are written out, so that all of them are computed in one loop over the innermost dim; more are a reduction.
constexpr int64_t kMostTerms = 8;

RankedTensorType typeOfTable(ElementsAttr table) {
  return cast<RankedTensorType>(table.getShapedType());
}

// Brings dim `dim` of a tensor of `rank` to the front, or, with `back`, `count` dims from the front to the place of dim `dim`.
SmallVector<int64_t> dimToFront(int64_t rank, int64_t dim) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::rotate(order.begin(), order.begin() + dim, order.begin() + dim + 1);
  return order;
}
SmallVector<int64_t> dimsToPlace(int64_t rank, int64_t dim, int64_t count) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::rotate(order.begin(), order.begin() + count, order.begin() + count + dim);
  return order;
}

// Writes an nn.resample out, in f32 where its type is narrower and something is added or multiplied.
class ResampleExpansion {
public:
  ResampleExpansion(ResampleOp op, OpBuilder &builder) : op(op), b(op.getLoc(), builder), dim(op.getDim()) {
    RankedTensorType table = typeOfTable(op.getPlaces());
    rows = table.getDimSize(0);
    terms = table.getDimSize(1);
    places = llvm::to_vector(op.getPlaces().getValues<int64_t>());
    if (op.getWeights()) {
      weights = llvm::to_vector(op.getWeights()->getValues<double>());
    }
    rank = op.getType().getRank();
    count = op.getType().getDimSize(dim);
  }

  Value build() {
    if (terms == 1 && weights.empty()) {
      return term(0);
    }
    Value sum;
    if (terms <= kMostTerms) {
      for (int64_t k = 0; k < terms; ++k) {
        Value next = weighted(term(k), column(ArrayRef(weights), k), {rows}, {dim});
        sum = sum ? Value(AddOp::create(b, sum, next)) : next;
      }
    } else {
      Value all = weighted(pick({rows, terms}, places), weights, {rows, terms}, {dim, dim + 1});
      sum = ReduceOp::create(b, Reduction::Sum, all, ArrayRef<int64_t>{dim + 1});
    }
    return sum.getType() == op.getType() ? sum : CastOp::create(b, op.getType(), sum).getResult();
  }

private:
  ResampleOp op;
  ImplicitLocOpBuilder b;
  int64_t dim, rank, rows, terms;
  int64_t count; // of positions, which are the rows but where there are starts
  SmallVector<int64_t> places;
  SmallVector<double> weights; // none: all are 1

  template <typename T> SmallVector<T> column(ArrayRef<T> table, int64_t k) {
    SmallVector<T> taken;
    for (size_t i = k; i < table.size(); i += terms) {
      taken.push_back(table[i]);
    }
    return taken;
  }

  // Returns the rows of a table that the positions have.
  Value rowsOf(DenseElementsAttr table) {
    Value all = ConstantOp::create(b, table);
    return op.getStarts().empty() ? all : GatherOp::create(b, all, plus(IndexOp::create(b, positionsType(), 1), op.getStarts().front()));
  }
  RankedTensorType positionsType() { return RankedTensorType::get({count}, b.getI64Type()); }
  Value plus(Value numbers, Value scalar) {
    return AddOp::create(b, numbers, BroadcastOp::create(b, typeOf(numbers), scalar, ArrayRef<int64_t>()));
  }

  // Returns the elements at the places in rows of `shape`, whose dims stand where `dim` was.
  Value pick(ArrayRef<int64_t> shape, ArrayRef<int64_t> at) {
    auto toTable = [&](ArrayRef<int64_t> numbers) {
      return rowsOf(DenseElementsAttr::get(RankedTensorType::get(shape, b.getI64Type()), numbers));
    };
    Value known;
    if (op.getStarts().empty()) {
      known = toTable(at);
    } else {
      // A row behind the last gives 0, which has to be no place: the table counts from far behind all elements.
      constexpr int64_t kFar = int64_t(1) << 50;
      Value far = ConstantOp::create(b, DenseElementsAttr::get(RankedTensorType::get({}, b.getI64Type()), kFar));
      auto fromFar = [](int64_t place) { return place < 0 ? 0 : place - kFar; };
      known = plus(toTable(llvm::map_to_vector(at, fromFar)), SubOp::create(b, far, op.getStarts().back()));
    }
    if (dim == 0) {
      return GatherOp::create(b, op.getInput(), known);
    }
    Value table = TransposeOp::create(b, op.getInput(), dimToFront(rank, dim));
    int64_t dims = shape.size();
    return TransposeOp::create(b, GatherOp::create(b, table, known), dimsToPlace(rank - 1 + dims, dim, dims));
  }
  Value term(int64_t k) { return pick({rows}, column(ArrayRef(places), k)); }

  Value weighted(Value elements, ArrayRef<double> factors, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
    RankedTensorType type = typeOf(elements);
    if (isNarrowFloat(type.getElementType())) {
      type = type.clone(b.getF32Type());
      elements = CastOp::create(b, type, elements);
    }
    if (factors.empty()) {
      return elements;
    }
    auto element = cast<FloatType>(type.getElementType());
    SmallVector<Attribute> values =
        llvm::map_to_vector(factors, [&](double factor) -> Attribute { return FloatAttr::get(element, factor); });
    Value known = rowsOf(DenseElementsAttr::get(type.clone(shape), values));
    return MulOp::create(b, elements, BroadcastOp::create(b, type, known, dims));
  }
};

} // namespace

void ResampleOp::build(OpBuilder &builder, OperationState &state, Value input, int64_t dim, int64_t terms, ArrayRef<int64_t> places,
                       ArrayRef<double> weights) {
  SmallVector<int64_t> shape{static_cast<int64_t>(places.size()) / terms, terms}, result(shapeOf(input));
  auto places64 = DenseIntElementsAttr::get(RankedTensorType::get(shape, builder.getI64Type()), places);
  DenseElementsAttr weights64;
  if (!weights.empty()) {
    weights64 = DenseElementsAttr::get(RankedTensorType::get(shape, builder.getF64Type()), weights);
  }
  result[dim] = shape.front();
  build(builder, state, typeOf(input).clone(result), input, /*starts=*/{}, builder.getI64IntegerAttr(dim), places64, weights64);
}

LogicalResult ResampleOp::verify() {
  RankedTensorType from = getInput().getType(), places = typeOfTable(getPlaces());
  auto dim = static_cast<int64_t>(getDim());
  if (dim < 0 || dim >= from.getRank()) { // C1
    return emitOpError("dim ") << dim << " is not within rank " << from.getRank();
  }
  if (places.getRank() != 2 || places.getDimSize(1) == 0) { // C2
    return emitOpError("places of ") << places << " are not a matrix with a column";
  }
  if (std::optional<ElementsAttr> weights = getWeights()) {
    if (typeOfTable(*weights).getShape() != places.getShape()) { // C2
      return emitOpError("places are ") << places << " but weights are " << typeOfTable(*weights);
    }
    if (!isa<FloatType>(from.getElementType())) { // C3
      return emitOpError("has weights for elements of ") << from.getElementType();
    }
  }
  if (!getStarts().empty() && getStarts().size() != 2) { // C4
    return emitOpError("has ") << getStarts().size() << " starts; give those of its position and its element, or none";
  }
  SmallVector<int64_t> shape(from.getShape());
  shape[dim] = getStarts().empty() || getType().getRank() != from.getRank() ? places.getDimSize(0) : getType().getDimSize(dim);
  if (getType() != from.clone(shape)) { // C5
    return emitOpError("gives ") << getType() << " from " << from << " and " << places.getDimSize(0) << " rows; its result is "
                                 << from.clone(shape);
  }
  return success();
}

// resample dim = 1: ([b, i]) -> ([b, i]) window={i}, i the positions
ShardingRule ResampleOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
  auto dim = static_cast<unsigned>(getDim());
  int64_t size = shapeOf(getInput())[dim], terms = typeOfTable(getPlaces()).getDimSize(1);
  if (!getStarts().empty() || size == 0 || getType().getDimSize(dim) == 0) { // a device's part, or nothing to split
    rule.factors[dim].kind = FactorKind::NeedReplication;
    rule.operands.resize(getNumOperands());
    return rule;
  }
  SmallVector<ElementRange, 0> ranges(getType().getDimSize(dim), {size, 0});
  for (auto [i, place] : llvm::enumerate(getPlaces().getValues<int64_t>())) {
    if (place >= 0 && place < size) {
      ElementRange &range = ranges[i / terms];
      range = {std::min(range.begin, place), std::max(range.end, place + 1)};
    }
  }
  rule.addWindow(/*operand=*/0, dim, size, std::move(ranges));
  return rule;
}

// Rows that are nobody's positions have no places.
void ResampleOp::computeOnRuns(const llvm::SmallBitVector &dims, RunStartBuilder buildStart) {
  if (dims.test(getDim())) {
    RunStart start = buildStart(/*operand=*/0, getDim());
    getStartsMutable().assign({start.position, start.element});
  }
}

void ResampleOp::buildGradients(OpBuilder &builder, ValueRange g, MutableArrayRef<Value> out) {
  struct Use {
    int64_t row;
    double weight;
  };
  int64_t size = shapeOf(getInput())[getDim()], terms = typeOfTable(getPlaces()).getDimSize(1);
  std::vector<SmallVector<Use, 2>> uses(size); // of each element of the operand
  auto weights = getWeights() ? llvm::to_vector(getWeights()->getValues<double>()) : SmallVector<double>();
  size_t most = 1;
  for (auto [i, place] : llvm::enumerate(getPlaces().getValues<int64_t>())) {
    if (place >= 0 && place < size) {
      uses[place].push_back({static_cast<int64_t>(i) / terms, weights.empty() ? 1 : weights[i]});
      most = std::max(most, uses[place].size());
    }
  }
  SmallVector<int64_t> places(size * most, -1);
  SmallVector<double> factors(size * most, 0);
  for (int64_t i = 0; i < size; ++i) {
    for (auto [k, use] : llvm::enumerate(uses[i])) {
      places[i * most + k] = use.row;
      factors[i * most + k] = use.weight;
    }
  }
  if (!getWeights()) {
    factors.clear();
  }
  out[0] = ResampleOp::create(builder, getLoc(), g[0], static_cast<int64_t>(getDim()), static_cast<int64_t>(most), places, factors);
}

Value ResampleOp::buildExpansion(OpBuilder &builder) {
  return ResampleExpansion(*this, builder).build();
}

// Floats are summed in double and rounded once. A row behind the last has no places.
Tensor ResampleOp::evaluate(ArrayRef<Tensor> operands) {
  const Tensor &input = operands[0];
  Tensor result(getType());
  int64_t dim = getDim(), size = input.getShape()[dim];
  int64_t terms = cast<ShapedType>(getPlaces().getShapedType()).getDimSize(1);
  int64_t firstRow = operands.size() > 1 ? operands[1].getInt(0) : 0, firstElement = operands.size() > 1 ? operands[2].getInt(0) : 0;
  auto places = llvm::to_vector(getPlaces().getValues<int64_t>());
  auto weights = getWeights() ? llvm::to_vector(getWeights()->getValues<double>()) : SmallVector<double>();
  forEachIndex(result.getShape(), [&](ArrayRef<int64_t> index, int64_t i) {
    double sum = 0;
    uint64_t intSum = 0; // wraps around
    int64_t row = firstRow + index[dim], rows = static_cast<int64_t>(places.size()) / terms;
    for (int64_t k = row * terms; row < rows && k < (row + 1) * terms; ++k) {
      int64_t place = places[k] - firstElement;
      if (places[k] < 0 || place < 0 || place >= size) {
        continue;
      }
      Index from(index);
      from[dim] = place;
      int64_t at = input.linearize(from);
      if (input.isFloat()) {
        sum += (weights.empty() ? 1 : weights[k]) * input.getFloat(at);
      } else {
        intSum += static_cast<uint64_t>(input.getInt(at));
      }
    }
    input.isFloat() ? result.setFloat(i, sum) : result.setInt(i, static_cast<int64_t>(intSum));
  });
  return result;
}

} // namespace ashlar::nn
