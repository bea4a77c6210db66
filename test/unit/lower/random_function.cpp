// SPDX-License-Identifier: Apache-2.0
//
// Grows a function op by op from a pool of values.

#include "test/unit/lower/random_function.h"

#include "dialects/nn/functions.h"
#include "dialects/nn/pairs.h"
#include "dialects/nn/windows/window_views.h"
#include "test/unit/reference/random_convolution.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::test {

namespace {

constexpr int64_t kSizes[] = {1, 2, 3, 5, 8, 9, 17, 33};
constexpr int64_t kMaxElements = 20000;

class Generator {
public:
  Generator(func::FuncOp function, std::mt19937_64 &random)
      : b(function.getLoc(), function.getContext()), random(random), f64(b.getF64Type()) {
    b.setInsertionPointToStart(function.addEntryBlock());
    for (Value argument : function.getArguments()) {
      add(argument);
    }
  }

  void step() {
    using Maker = void (Generator::*)();
    static constexpr Maker makers[] = {&Generator::unary,     &Generator::unary,       &Generator::binary,    &Generator::binary,
                                       &Generator::binary,    &Generator::select,      &Generator::reduce,    &Generator::reduce,
                                       &Generator::broadcast, &Generator::bias,        &Generator::softmax,   &Generator::crossEntropy,
                                       &Generator::transpose, &Generator::slice,       &Generator::pad,       &Generator::concat,
                                       &Generator::reshape,   &Generator::matmul,      &Generator::normalise, &Generator::gather,
                                       &Generator::scatter,   &Generator::convolution, &Generator::windows,   &Generator::windows,
                                       &Generator::attention, &Generator::insert};
    (this->*makers[below(std::size(makers))])();
  }

  void finish(func::FuncOp function) {
    SmallVector<Value> unused;
    for (Value value : pool) {
      if (value.use_empty()) {
        unused.push_back(value);
      }
    }
    func::ReturnOp::create(b, unused);
    function.setType(b.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(unused))));
  }

private:
  ImplicitLocOpBuilder b;
  std::mt19937_64 &random;
  Type f64;
  SmallVector<Value> pool;

  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); }
  Value pick() { return pool[below(pool.size())]; }
  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  RankedTensorType tensor(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, f64); }
  Value splat(RankedTensorType type, double value) { return nn::ConstantOp::create(b, nn::splat(type, value)); }

  void add(Value value) {
    if (typeOf(value).getNumElements() <= kMaxElements) {
      pool.push_back(value);
    }
  }

  // Brings a result whose size may have grown back into [-1, 1].
  void addBounded(Value value) { add(nn::TanhOp::create(b, value)); }

  // A second value of the type of `value`, from the pool when there is one.
  Value partner(Value value) {
    SmallVector<Value> same;
    for (Value candidate : pool) {
      if (candidate.getType() == value.getType()) {
        same.push_back(candidate);
      }
    }
    return same.size() > 1 ? same[below(same.size())] : splat(typeOf(value), 0.25);
  }

  // x rounded toward zero in steps of 1/8: through i64 and back.
  Value castThereAndBack(Value x) {
    RankedTensorType type = typeOf(x);
    // Away from a step, where rounding differences would show.
    Value scaled = nn::AddOp::create(b, nn::MulOp::create(b, x, splat(type, 8)), splat(type, 0.000123));
    Value integer = nn::CastOp::create(b, type.clone(b.getI64Type()), scaled);
    return nn::MulOp::create(b, nn::CastOp::create(b, type, integer), splat(type, 0.125));
  }

  // Integers of any width, with or without a sign, computed from x and another value, and what they become as another such type.
  void throughIntegers(Value x) {
    RankedTensorType type = typeOf(x);
    auto integers = [&]() -> RankedTensorType {
      auto sign = below(2) == 0 ? IntegerType::Signless : IntegerType::Unsigned;
      return type.clone(IntegerType::get(b.getContext(), 8 << below(4), sign));
    };
    RankedTensorType first = integers(), second = integers();
    auto asInteger = [&](Value value) -> Value { // beyond what a byte holds; away from a step
      Value scaled = nn::AddOp::create(b, nn::MulOp::create(b, value, splat(type, 300)), splat(type, 0.000123));
      return nn::CastOp::create(b, first, scaled);
    };
    Value lhs = asInteger(x), rhs = asInteger(partner(x)), result = combineIntegers(lhs, rhs);
    if (below(3) == 0 && !first.getShape().empty()) {
      Reduction kind = below(2) == 0 ? Reduction::Max : Reduction::Min;
      Value most = nn::ReduceOp::create(b, kind, result, ArrayRef<int64_t>{0});
      SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(1, type.getRank()));
      result = nn::DivOp::create(b, result, nn::BroadcastOp::create(b, first, most, dims));
    }
    Value number = nn::CastOp::create(b, type, nn::CastOp::create(b, second, result));
    if (below(3) == 0) { // sign and exponent
      RankedTensorType words = type.clone(b.getI64Type());
      Value exponent = nn::ConstantOp::create(b, nn::splat(words, 0x1p52));
      number = nn::CastOp::create(b, type, nn::DivOp::create(b, nn::BitcastOp::create(b, words, number), exponent));
    }
    addBounded(nn::MulOp::create(b, number, splat(type, 1.0 / 512)));
  }

  Value combineIntegers(Value lhs, Value rhs) {
    switch (below(8)) {
    case 0:
      return nn::AddOp::create(b, lhs, rhs);
    case 1:
      return nn::SubOp::create(b, lhs, rhs);
    case 2:
      return nn::MulOp::create(b, lhs, rhs);
    case 3:
      return nn::MaxOp::create(b, lhs, rhs);
    case 4:
      return nn::MinOp::create(b, lhs, rhs);
    case 5:
      return nn::MulOp::create(b, nn::AbsOp::create(b, lhs), nn::SignOp::create(b, rhs));
    case 6: {
      auto boolType = typeOf(lhs).clone(b.getI1Type());
      return nn::SelectOp::create(b, lhs.getType(), nn::CompareOp::create(b, boolType, nn::Predicate::Lt, lhs, rhs), rhs,
                                  nn::NegOp::create(b, lhs));
    }
    default:
      return nn::DivOp::create(b, lhs, rhs);
    }
  }

  void unary() {
    Value x = pick();
    switch (below(19)) {
    case 8:
      return addBounded(nn::LogOp::create(b, nn::AddOp::create(b, nn::AbsOp::create(b, x), splat(typeOf(x), 0.2))));
    case 9:
      return addBounded(nn::PowOp::create(b, nn::AddOp::create(b, nn::AbsOp::create(b, x), splat(typeOf(x), 0.2)),
                                          splat(typeOf(x), below(2) == 0 ? 2 : 1.7)));
    case 10:
      return add(nn::MulOp::create(b, nn::SignOp::create(b, x), x));
    case 11:
      return add(castThereAndBack(x));
    case 12:
      return add(nn::SinOp::create(b, x));
    case 13:
      return add(nn::CosOp::create(b, x));
    case 14:
      return addBounded(nn::MulOp::create(b, wholeNumber(x), x));
    case 15:
      return add(circular(x));
    case 16:
      return addBounded(hyperbolic(x));
    case 17:
    case 18:
      return throughIntegers(x);
    case 0:
      return add(nn::NegOp::create(b, x));
    case 1:
      return add(nn::SigmoidOp::create(b, x));
    case 2:
      return add(nn::ReluOp::create(b, x));
    case 3:
      return addBounded(nn::ExpOp::create(b, x));
    case 4:
      return add(nn::ErfOp::create(b, x));
    case 5:
      return add(nn::GeluOp::create(b, x.getType(), x, /*tanh_approximation=*/below(2) == 0));
    case 6:
      return add(nn::SqrtOp::create(b, nn::AddOp::create(b, nn::AbsOp::create(b, x), splat(typeOf(x), 0.1))));
    default:
      return add(nn::LeakyReluOp::create(b, x.getType(), x, llvm::APFloat(0.1)));
    }
  }

  // Functions of x in [-1, 1] where their slope is bounded.
  Value circular(Value x) {
    Value half = nn::MulOp::create(b, x, splat(typeOf(x), 0.5));
    switch (below(4)) {
    case 0:
      return nn::TanOp::create(b, half);
    case 1:
      return nn::AsinOp::create(b, half);
    case 2:
      return nn::MulOp::create(b, nn::AcosOp::create(b, half), splat(typeOf(x), 0.25));
    default:
      return nn::AtanOp::create(b, x);
    }
  }
  Value hyperbolic(Value x) {
    switch (below(5)) {
    case 0:
      return nn::SinhOp::create(b, x);
    case 1:
      return nn::CoshOp::create(b, x);
    case 2:
      return nn::AsinhOp::create(b, x);
    case 3:
      return nn::AcoshOp::create(b, nn::AddOp::create(b, nn::AbsOp::create(b, x), splat(typeOf(x), 1.5)));
    default:
      return nn::AtanhOp::create(b, nn::MulOp::create(b, x, splat(typeOf(x), 0.5)));
    }
  }

  // A whole number near x, away from where rounding differences would show.
  Value wholeNumber(Value x) {
    Value away = nn::AddOp::create(b, x, splat(typeOf(x), 0.000123));
    switch (below(3)) {
    case 0:
      return nn::FloorOp::create(b, away);
    case 1:
      return nn::CeilOp::create(b, away);
    default:
      return nn::RoundOp::create(b, away);
    }
  }

  void binary() {
    Value x = pick(), y = partner(x);
    switch (below(7)) {
    case 6: // of 2 to 3 by 1.6: no jump
      x = nn::AddOp::create(b, nn::MulOp::create(b, x, splat(typeOf(x), 0.5)), splat(typeOf(x), 2.5));
      return addBounded(nn::RemOp::create(b, x, splat(typeOf(x), 1.6)));
    case 5:
      return add(nn::MinOp::create(b, x, y));
    case 0:
      return addBounded(nn::AddOp::create(b, x, y));
    case 1:
      return addBounded(nn::SubOp::create(b, x, y));
    case 2:
      return add(nn::MulOp::create(b, x, y));
    case 3:
      return add(nn::MaxOp::create(b, x, y));
    default:
      return addBounded(nn::DivOp::create(b, x, nn::AddOp::create(b, nn::AbsOp::create(b, y), splat(typeOf(y), 0.5))));
    }
  }

  void select() {
    Value x = pick(), y = partner(x);
    Value threshold = splat(typeOf(x), 0.0123456789);
    RankedTensorType boolType = typeOf(x).clone(b.getI1Type());
    Value condition = nn::CompareOp::create(b, boolType, nn::Predicate::Gt, x, threshold);
    if (below(2) == 0) {
      Value other = nn::NotOp::create(b, nn::CompareOp::create(b, boolType, nn::Predicate::Le, y, threshold));
      condition = below(2) == 0 ? Value(nn::AndOp::create(b, condition, other)) : Value(nn::OrOp::create(b, condition, other));
    }
    add(nn::SelectOp::create(b, x.getType(), condition, y, x));
  }

  void reduce() {
    Value x = pick();
    SmallVector<int64_t> dims;
    int64_t rank = typeOf(x).getRank();
    for (int64_t d = 0; d < rank; ++d) {
      if (below(2) == 0) {
        dims.push_back(d);
      }
    }
    if (dims.empty() && rank > 0) {
      dims.push_back(rank - 1);
    }
    addBounded(nn::ReduceOp::create(b, static_cast<Reduction>(below(3)), x, dims));
  }

  void broadcast() {
    Value x = pick();
    SmallVector<int64_t> shape(typeOf(x).getShape()), dims = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    int64_t at = below(shape.size() + 1);
    shape.insert(shape.begin() + at, kSizes[below(std::size(kSizes))]);
    for (int64_t &dim : dims) {
      dim += dim >= at ? 1 : 0;
    }
    if (shape.size() <= 3) {
      add(nn::BroadcastOp::create(b, tensor(shape), x, dims));
    }
  }

  // x + a vector along one of its dims.
  void bias() {
    Value x = pick();
    if (typeOf(x).getRank() == 0) {
      return;
    }
    int64_t dim = below(typeOf(x).getRank());
    for (Value candidate : pool) {
      if (typeOf(candidate).getShape() == ArrayRef<int64_t>{typeOf(x).getDimSize(dim)}) {
        return addBounded(nn::AddOp::create(b, x, nn::BroadcastOp::create(b, typeOf(x), candidate, ArrayRef<int64_t>{dim})));
      }
    }
  }

  void softmax() {
    Value x = pick();
    if (typeOf(x).getRank() > 0) {
      add(below(2) == 0 ? Value(nn::SoftmaxOp::create(b, x)) : Value(nn::LogSoftmaxOp::create(b, x)));
    }
  }

  void crossEntropy() {
    Value x = pick();
    if (typeOf(x).getRank() == 0) {
      return;
    }
    RankedTensorType labels = RankedTensorType::get(typeOf(x).getShape().drop_back(), b.getI64Type());
    SmallVector<int64_t> strides(labels.getRank(), 1);
    add(nn::SoftmaxCrossEntropyOp::create(b, x, nn::IndexOp::create(b, labels, strides)));
  }

  void transpose() {
    Value x = pick();
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(x).getRank()));
    std::shuffle(permutation.begin(), permutation.end(), random);
    add(nn::TransposeOp::create(b, x, permutation));
  }

  void slice() {
    Value x = pick();
    SmallVector<int64_t> starts, limits, steps;
    for (int64_t size : typeOf(x).getShape()) {
      starts.push_back(below(size));
      limits.push_back(starts.back() + 1 + below(size - starts.back()));
      steps.push_back(1 + below(2));
    }
    add(nn::SliceOp::create(b, x, starts, limits, steps));
  }

  void pad() {
    Value x = pick();
    SmallVector<int64_t> low, interior, shape;
    for (int64_t size : typeOf(x).getShape()) {
      low.push_back(below(3));
      interior.push_back(below(2));
      shape.push_back(low.back() + (size - 1) * (interior.back() + 1) + 1 + below(3));
    }
    add(nn::PadOp::create(b, tensor(shape), x, low, interior));
  }

  // Windows along one dim or two: sums, the largest and where it stands; sums of elements at places.
  void windows() {
    Value x = pick();
    int64_t rank = typeOf(x).getRank();
    if (rank == 0) {
      return;
    }
    SmallVector<int64_t> dims{below(rank)};
    if (dims.front() + 1 < rank && below(2) == 0) {
      dims.push_back(dims.front() + 1 + below(rank - 1 - dims.front()));
    }
    SmallVector<Attribute> each;
    for (int64_t dim : dims) {
      each.push_back(window(typeOf(x).getDimSize(dim)));
    }
    ArrayAttr all = b.getArrayAttr(each);
    Value views = nn::WindowsOp::create(b, x, dims, all);
    if (typeOf(views).getNumElements() > kMaxElements) {
      return;
    }
    switch (below(5)) {
    case 0:
      return add(views);
    case 1:
      return addBounded(nn::ReduceOp::create(b, Reduction::Sum, views, nn::windowDims(dims)));
    case 2:
      return addBounded(nn::UnwindowsOp::create(b, tensor(nn::withWindows(typeOf(x).getShape(), dims, all)), views, dims, all));
    case 3:
      return addPool(dims, all);
    default:
      return resample(x, dims.front());
    }
  }

  // Of an argument, no two elements of which are alike: where the largest stands does not depend on rounding.
  void addPool(ArrayRef<int64_t> dims, ArrayAttr windows) {
    for (Value x : pool) {
      int64_t rank = typeOf(x).getRank();
      if (!isa<BlockArgument>(x) || dims.back() >= rank || failed(nn::positionShape(std::nullopt, typeOf(x).getShape(), dims, windows))) {
        continue;
      }
      Value largest = nn::MaxPoolOp::create(b, x, dims, windows);
      Value place = nn::MaxPoolPlaceOp::create(b, x, largest, dims, windows);
      addBounded(largest);
      return addBounded(nn::CastOp::create(b, typeOf(largest), place));
    }
  }

  // With padding or with elements left out; a window may lie in the padding.
  nn::WindowAttr window(int64_t size) {
    while (true) {
      auto window = nn::WindowAttr::get(b.getContext(), 1 + below(3), 1 + below(3), 1 + below(2), below(4) - 1, below(4) - 1);
      if (window.countPositions(size)) {
        return window;
      }
    }
  }

  void resample(Value x, int64_t dim) {
    int64_t terms = 1 + below(10), size = typeOf(x).getDimSize(dim), rows = 1 + below(size + 3);
    SmallVector<int64_t> places;
    SmallVector<double> weights;
    bool isWeighted = below(2) == 0;
    for (int64_t i = 0; i < rows * terms; ++i) {
      places.push_back(below(size + 2) - 1);
      if (isWeighted) {
        weights.push_back(static_cast<double>(below(9)) / 4 - 1);
      }
    }
    nn::ResampleOp resample = nn::ResampleOp::create(b, x, dim, terms, places, weights);
    if (below(2) == 0) { // as on a device that has some of the rows and elements
      auto number = [&](int64_t value) {
        return nn::ConstantOp::create(b, DenseElementsAttr::get(RankedTensorType::get({}, b.getI64Type()), value)).getResult();
      };
      SmallVector<int64_t> shape(resample.getType().getShape());
      shape[dim] = 1 + below(rows + 1);
      b.setInsertionPoint(resample);
      resample.getStartsMutable().assign({number(below(rows)), number(below(size + 2) - 2)});
      resample.getResult().setType(resample.getType().clone(shape));
      b.setInsertionPointAfter(resample);
    }
    addBounded(resample);
  }

  void concat() {
    Value x = pick(), y = partner(x);
    if (typeOf(x).getRank() > 0) {
      add(nn::ConcatOp::create(b, ValueRange{x, y, x}, below(typeOf(x).getRank())));
    }
  }

  void reshape() {
    Value x = pick();
    int64_t elements = typeOf(x).getNumElements();
    int64_t rows = elements % 3 == 0 ? 3 : 1;
    add(nn::ReshapeOp::create(b, tensor({rows, elements / rows}), x));
  }

  void matmul() {
    Value x = pick();
    for (Value y : pool) {
      if (typeOf(x).getRank() == 2 && typeOf(y).getRank() == 2 && typeOf(x).getDimSize(1) == typeOf(y).getDimSize(0) &&
          typeOf(x).getNumElements() * typeOf(y).getDimSize(1) < kMaxElements) {
        return addBounded(nn::MatMulOp::create(b, x, y, /*transpose_a=*/false, /*transpose_b=*/false));
      }
    }
    if (typeOf(x).getRank() == 2) {
      bool transposeA = below(2) == 0;
      addBounded(nn::MatMulOp::create(b, x, x, transposeA, !transposeA));
    }
  }

  // Of x to itself, and its gradients.
  void attention() {
    Value x = pick(), slope = partner(x);
    if (typeOf(x).getRank() < 2) {
      return;
    }
    llvm::APFloat scale(0.5 / static_cast<double>(typeOf(x).getShape().back()));
    const bool isCausal = below(2) == 0;
    const int64_t diagonal = isCausal ? below(3) : 0;
    const int64_t window = isCausal && below(2) == 0 ? diagonal + 1 + below(3) : 0;
    const llvm::APFloat softcap(below(3) == 0 ? 1.5 : 0);
    Value mask;
    if (below(2) == 0 && window == 0) { // each row sees a key
      SmallVector<int64_t> shape(typeOf(x).getRank(), 1);
      shape.back() = typeOf(x).getShape().end()[-2];
      SmallVector<int64_t> strides(shape.size(), 1);
      Value number = nn::IndexOp::create(b, tensor(shape).clone(b.getI64Type()), strides);
      Value bound = nn::ConstantOp::create(b, nn::splat(typeOf(number), 1 + below(3)));
      mask = nn::CompareOp::create(b, typeOf(number).clone(b.getI1Type()), nn::Predicate::Lt, number, bound);
    }
    const ValueRange none; // the simulator of kernels has no words of Philox
    Value logSum = nn::AttentionLogSumOp::create(b, x, x, mask, scale, isCausal, diagonal, window, softcap, none);
    const llvm::APFloat dropout(0.0);
    Value out =
        nn::AttentionOp::create(b, x.getType(), x, x, x, logSum, mask, scale, isCausal, diagonal, window, softcap, none, none, dropout);
    addBounded(logSum);
    add(out);
    auto of = static_cast<nn::AttentionOperand>(below(3));
    addBounded(nn::AttentionGradientOp::create(b, x.getType(), of, x, x, x, logSum, out, slope, mask, scale, isCausal, diagonal, window,
                                               softcap, none, none, dropout));
  }

  void convolution() {
    Value x = pick();
    auto form = drawConvolution(b.getContext(), typeOf(x).getShape(), [&](int64_t limit) { return below(limit); });
    if (form && tensor(form->result).getNumElements() * form->terms <= kMaxElements) {
      addBounded(createConvolution(b, b.getLoc(), *form, x, partner(splat(tensor(form->second), 0.25))));
    }
  }

  // Numbers of rows, some of them before the first of `rows` and some behind the last; from the values of the pool or from the places.
  Value numbers(ArrayRef<int64_t> shape, int64_t rows) {
    RankedTensorType type = tensor(shape).clone(b.getI64Type());
    SmallVector<int64_t> strides(shape.size(), 2);
    Value result = nn::SubOp::create(b, nn::IndexOp::create(b, type, strides), nn::ConstantOp::create(b, nn::splat(type, 1)));
    if (below(2) == 0) {
      Value scaled = nn::MulOp::create(b, partner(splat(tensor(shape), 0.5)), splat(tensor(shape), static_cast<double>(rows)));
      // Away from a whole number, where rounding differences would show.
      result = nn::CastOp::create(b, type, nn::AddOp::create(b, scaled, splat(tensor(shape), 0.000123)));
    }
    return below(2) == 0 ? result : nn::CastOp::create(b, type.clone(b.getI32Type()), result).getResult();
  }

  void gather() {
    Value x = pick();
    if (typeOf(x).getRank() == 0) {
      return;
    }
    ArrayRef<int64_t> shape = typeOf(x).getShape();
    const int64_t batchDims = below(shape.size());
    SmallVector<int64_t> places(shape.take_front(batchDims));
    for (int64_t rank = below(3); rank > 0; --rank) {
      places.push_back(kSizes[below(std::size(kSizes))]);
    }
    Value rows = numbers(places, shape[batchDims]);
    if (llvm::product_of(shape.drop_front(batchDims + 1)) * typeOf(rows).getNumElements() <= kMaxElements) {
      add(nn::GatherOp::create(b, x, rows, batchDims));
    }
  }

  void scatter() {
    Value x = pick();
    ArrayRef<int64_t> shape = typeOf(x).getShape();
    int64_t places = below(shape.size() + 1), rows = kSizes[below(std::size(kSizes))], batchDims = below(places + 1);
    SmallVector<int64_t> result(shape.take_front(batchDims));
    result.push_back(rows);
    llvm::append_range(result, shape.drop_front(places));
    addBounded(nn::ScatterAddOp::create(b, tensor(result), numbers(shape.take_front(places), rows), x, batchDims));
  }

  // The first rows of a value into another one.
  void insert() {
    Value x = pick(), base = partner(x);
    const int64_t rank = typeOf(x).getRank();
    if (rank == 0) {
      return;
    }
    const int64_t dim = below(rank), size = typeOf(x).getDimSize(dim);
    SmallVector<int64_t> starts(rank, 0), limits(typeOf(x).getShape()), steps(rank, 1);
    limits[dim] = below(size + 1);
    Value rows = nn::SliceOp::create(b, x, starts, limits, steps);
    add(nn::InsertOp::create(b, base.getType(), rows, base, numbers({}, size), dim));
  }

  // x by its moments along some dims: sums beside each other, then values of the kept dims.
  void normaliseByMoments(Value x) {
    SmallVector<int64_t> along, kept, shape;
    for (int64_t d = 0; d < typeOf(x).getRank(); ++d) {
      (below(2) == 0 ? along : kept).push_back(d);
    }
    llvm::transform(kept, std::back_inserter(shape), [&](int64_t d) { return typeOf(x).getDimSize(d); });
    Value moments = nn::MomentsOp::create(b, x, along);
    Value parameter = splat(tensor(shape), 0.5);
    addBounded(nn::NormalizeOp::create(b, x.getType(), x, parameter, parameter, nn::partOf(b, moments, 0), nn::partOf(b, moments, 1), kept,
                                       llvm::APFloat(0.1), /*momentum=*/FloatAttr(), /*unbiased=*/false));
  }

  // (x - mean) / sqrt(var + eps) along the last dim: reductions that depend on each other.
  void normalise() {
    Value x = pick();
    RankedTensorType type = typeOf(x);
    if (type.getRank() == 0) {
      return;
    }
    if (below(2) == 0) {
      return normaliseByMoments(x);
    }
    int64_t last = type.getRank() - 1;
    auto rows = llvm::to_vector(llvm::seq<int64_t>(0, last));
    auto mean = [&](Value value) -> Value {
      Value sum = nn::ReduceOp::create(b, Reduction::Sum, value, ArrayRef<int64_t>{last});
      return nn::MulOp::create(b, sum, splat(typeOf(sum), 1.0 / static_cast<double>(type.getDimSize(last))));
    };
    Value centred = nn::SubOp::create(b, x, nn::BroadcastOp::create(b, type, mean(x), rows));
    Value variance = mean(nn::MulOp::create(b, centred, centred));
    Value deviation = nn::SqrtOp::create(b, nn::AddOp::create(b, variance, splat(typeOf(variance), 0.1)));
    add(nn::DivOp::create(b, centred, nn::BroadcastOp::create(b, type, deviation, rows)));
  }
};

} // namespace

func::FuncOp addRandomFunction(ModuleOp module, StringRef name, int numOps, std::mt19937_64 &random) {
  module.getContext()->loadDialect<func::FuncDialect, nn::NnDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> arguments;
  std::uniform_int_distribution<size_t> size(0, std::size(kSizes) - 1);
  int64_t rows = kSizes[size(random)], columns = kSizes[size(random)], depth = kSizes[size(random)];
  const SmallVector<int64_t> shapes[] = {{rows, columns}, {rows, columns}, {columns}, {rows}, {rows, columns, depth}, {}};
  for (ArrayRef<int64_t> shape : shapes) {
    arguments.push_back(RankedTensorType::get(shape, builder.getF64Type()));
  }
  auto function = func::FuncOp::create(builder, module.getLoc(), name, builder.getFunctionType(arguments, {}));
  Generator generator(function, random);
  for (int i = 0; i < numOps; ++i) {
    generator.step();
  }
  generator.finish(function);
  return function;
}

} // namespace ashlar::test
