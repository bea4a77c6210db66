// SPDX-License-Identifier: Apache-2.0
//
// nn.resample: types, sharding rule, gradient, expansion; labels as in window_ops.td. The op is linear, and its gradient is one of the same
// kind with the places turned round: which elements of the result an element of the operand goes to.

#include "dialects/nn/nn.h"
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
  SmallVector<int64_t> places;
  SmallVector<double> weights; // none: all are 1

  template <typename T> SmallVector<T> column(ArrayRef<T> table, int64_t k) {
    SmallVector<T> taken;
    for (size_t i = k; i < table.size(); i += terms) {
      taken.push_back(table[i]);
    }
    return taken;
  }

  // Returns the elements at the given places, whose dims stand where `dim` was.
  Value pick(ArrayRef<int64_t> shape, ArrayRef<int64_t> at) {
    Value known = ConstantOp::create(b, DenseElementsAttr::get(RankedTensorType::get(shape, b.getI64Type()), at));
    if (dim == 0) {
      return GatherOp::create(b, op.getInput(), known);
    }
    Value table = TransposeOp::create(b, op.getInput(), dimToFront(rank, dim));
    int64_t count = shape.size();
    return TransposeOp::create(b, GatherOp::create(b, table, known), dimsToPlace(rank - 1 + count, dim, count));
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
    Value known = ConstantOp::create(b, DenseElementsAttr::get(type.clone(shape), values));
    return MulOp::create(b, elements, BroadcastOp::create(b, type, known, dims));
  }
};

} // namespace

void ResampleOp::build(OpBuilder &builder, OperationState &state, Value input, int64_t dim, int64_t terms, ArrayRef<int64_t> places,
                       ArrayRef<double> weights) {
  SmallVector<int64_t> shape{static_cast<int64_t>(places.size()) / terms, terms};
  auto places64 = DenseIntElementsAttr::get(RankedTensorType::get(shape, builder.getI64Type()), places);
  DenseElementsAttr weights64;
  if (!weights.empty()) {
    weights64 = DenseElementsAttr::get(RankedTensorType::get(shape, builder.getF64Type()), weights);
  }
  build(builder, state, input, builder.getI64IntegerAttr(dim), places64, weights64);
}

LogicalResult ResampleOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor, SmallVectorImpl<Type> &types) {
  RankedTensorType from = typeOf(adaptor.getInput());
  auto dim = static_cast<int64_t>(adaptor.getDim());
  if (dim < 0 || dim >= from.getRank()) { // C1
    return emitOptionalError(loc, "dim ", dim, " is not within rank ", from.getRank());
  }
  RankedTensorType places = typeOfTable(adaptor.getPlaces());
  if (places.getRank() != 2 || places.getDimSize(1) == 0) { // C2
    return emitOptionalError(loc, "places of ", places, " are not a matrix with a column");
  }
  if (std::optional<DenseElementsAttr> weights = adaptor.getWeights()) {
    if (typeOfTable(*weights).getShape() != places.getShape()) { // C2
      return emitOptionalError(loc, "places are ", places, " but weights are ", typeOfTable(*weights));
    }
    if (!isa<FloatType>(from.getElementType())) { // C3
      return emitOptionalError(loc, "has weights for elements of ", from.getElementType());
    }
  }
  SmallVector<int64_t> shape(from.getShape());
  shape[dim] = places.getDimSize(0);
  types.push_back(from.clone(shape));
  return success();
}

// resample dim = 1: ([b, i]) -> ([b, i]) permuted={i}
ShardingRule ResampleOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(getType().getShape(), /*numOperands=*/1);
  Factor &moved = rule.factors[getDim()];
  moved.kind = FactorKind::Permutation;
  moved.size = std::min(moved.size, shapeOf(getInput())[getDim()]);
  return rule;
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

} // namespace ashlar::nn
