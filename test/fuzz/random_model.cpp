// SPDX-License-Identifier: Apache-2.0
//
// Random models; see random_model.h. Each maker adds one family of ops.

#include "test/fuzz/random_model.h"

#include "dialects/nn/window_views.h"
#include "dialects/support/tensor_values.h"
#include "test/unit/reference/random_convolution.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>

using namespace mlir;

namespace ashlar::fuzz {

namespace {

constexpr double kMaxBound = 4; // of such a value

class Generator {
public:
  Generator(Dice &dice, ModuleOp module, const ModelOptions &options)
      : dice(dice), laterDice(dice), options(options), module(module), b(UnknownLoc::get(module.getContext()), module.getContext()) {}

  void generate() {
    b.setInsertionPointToEnd(module.getBody());
    for (int64_t i = 0, count = 1 + dice.roll(4); i < count; ++i) {
      addVariable("w" + std::to_string(i), randomInit());
    }
    nn::VariableOp::create(b, nn::kSeedVariable, i64({}), Attribute(), /*trainable=*/false, /*state_of=*/FlatSymbolRefAttr(),
                           /*internal=*/true);
    nn::VariableOp::create(b, nn::kStepVariable, i64({}), nn::splat(i64({}), 0), /*trainable=*/false, /*state_of=*/FlatSymbolRefAttr(),
                           /*internal=*/true);
    addFunction();
    for (auto variable : module.getOps<nn::VariableOp>()) {
      Value read = nn::ReadOp::create(b, variable.getTensorType(), variable.getSymName());
      if (variable.getTrainable()) {
        add(read, /*bound=*/2);
      } else {
        (variable.getSymName() == nn::kSeedVariable ? seed : step) = read;
      }
    }
    static constexpr void (Generator::*kMakers[])() = {
        &Generator::unary,     &Generator::unary,     &Generator::binary, &Generator::binary, &Generator::select,
        &Generator::integers,  &Generator::broadcast, &Generator::reduce, &Generator::reduce, &Generator::reshape,
        &Generator::reshape,   &Generator::transpose, &Generator::concat, &Generator::slice,  &Generator::pad,
        &Generator::matmul,    &Generator::matmul,    &Generator::matmul, &Generator::rows,   &Generator::rows,
        &Generator::normalise, &Generator::dropout,   &Generator::bias,   &Generator::gather, &Generator::scatter};
    for (int64_t i = 0; i < options.numOps; ++i) {
      (this->*dice.pick(kMakers))();
      if (laterDice.oneIn(8)) {
        convolution();
      }
    }
    options.batch != 0 ? addPrediction() : addResults();
  }

private:
  RankedTensorType floats(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, options.floatType); }
  RankedTensorType i64(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, b.getI64Type()); }
  RankedTensorType i1(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, b.getI1Type()); }

  // Returns a shape of minRank to minRank + 2 dims; the first one is `front` unless that is 0.
  SmallVector<int64_t> randomShape(int64_t minRank, int64_t front = 0) {
    SmallVector<int64_t> shape;
    for (int64_t rank = minRank + dice.roll(3); rank > 0; --rank) {
      int64_t size = dice.pick(options.sizes);
      size = floats(shape).getNumElements() * size > options.maxElements ? 1 : size;
      shape.push_back(shape.empty() && front != 0 ? front : size);
    }
    return shape;
  }

  Attribute randomInit() {
    switch (dice.roll(3)) {
    case 0:
      return nn::NormalAttr::get(b.getContext(), 0.1, 0.5);
    case 1:
      return nn::FillAttr::get(b.getContext(), dice.real());
    default:
      return nn::UniformAttr::get(b.getContext(), -1.0, 1.0);
    }
  }

  void addVariable(const std::string &name, Attribute init) {
    nn::VariableOp::create(b, name, floats(randomShape(/*minRank=*/1)), init, /*trainable=*/true, /*state_of=*/FlatSymbolRefAttr());
  }

  void addFunction() {
    SmallVector<Type> inputs;
    for (int64_t i = 0, count = 1 + dice.roll(3); i < count; ++i) {
      inputs.push_back(floats(randomShape(/*minRank=*/i == 0 ? 2 : 1, options.batch)));
    }
    function = func::FuncOp::create(b, "forward", b.getFunctionType(inputs, {}));
    b.setInsertionPointToStart(function.addEntryBlock());
    for (BlockArgument argument : function.getArguments()) {
      function.setArgAttr(argument.getArgNumber(), nn::kNameAttr, b.getStringAttr("x" + std::to_string(argument.getArgNumber())));
      add(argument, /*bound=*/1);
    }
  }

  // Takes a value into the pool: scaled when it may be large, not at all when it has too many elements.
  void add(Value value, double bound) {
    if (typeOf(value).getNumElements() > options.maxElements) {
      return;
    }
    if (bound > kMaxBound) {
      value = nn::MulOp::create(b, value, splat(typeOf(value), kMaxBound / bound));
      bound = kMaxBound;
    }
    pool.push_back(value);
    bounds[value] = bound;
  }

  // Picks a value, rather a late one.
  Value pick() {
    size_t window = std::min<size_t>(pool.size(), 5);
    return dice.oneIn(2) ? pool[dice.roll(pool.size())] : pool[pool.size() - 1 - dice.roll(window)];
  }

  Value splat(RankedTensorType type, double value) { return nn::ConstantOp::create(b, nn::splat(type, value)); }

  Value constant(ArrayRef<int64_t> shape) {
    RankedTensorType type = floats(shape);
    if (dice.oneIn(3)) {
      return splat(type, dice.real());
    }
    return numbers(type, /*bound=*/1);
  }

  // Returns a constant of different numbers, up to `bound`.
  Value numbers(RankedTensorType type, double bound) {
    SmallVector<APFloat> elements;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      bool losesInfo = false;
      elements.emplace_back(dice.real() * bound);
      elements.back().convert(cast<FloatType>(options.floatType).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    }
    return nn::ConstantOp::create(b, DenseElementsAttr::get(type, elements));
  }

  // Returns x moved away from wherever it may jump.
  Value generic(Value x) { return nn::AddOp::create(b, x, numbers(typeOf(x), /*bound=*/0.125)); }

  // Returns a value of the shape: one that is there, a constant, or random numbers. Bounded by 4.
  Value another(ArrayRef<int64_t> shape) {
    SmallVector<Value> fitting = llvm::to_vector(llvm::make_filter_range(pool, [&](Value value) { return shapeOf(value) == shape; }));
    int64_t kind = dice.roll(6);
    if (kind == 0) {
      return randomNumbers(shape, nn::Distribution::Uniform);
    }
    return kind == 1 || fitting.empty() ? constant(shape) : dice.pick(fitting);
  }

  double boundOf(Value value) {
    auto found = bounds.find(value);
    return found == bounds.end() ? 1 : found->second;
  }

  // Returns |x| + offset.
  Value positive(Value x, double offset) { return nn::AddOp::create(b, nn::AbsOp::create(b, generic(x)), splat(typeOf(x), offset)); }

  Value rowMajorIndex(ArrayRef<int64_t> shape) { return nn::IndexOp::create(b, i64(shape), rowMajorStrides(shape)); }

  Value randomNumbers(ArrayRef<int64_t> shape, nn::Distribution distribution) {
    Value stream = nn::ConstantOp::create(b, nn::splat(RankedTensorType::get({}, b.getI32Type()), dice.roll(1000)));
    return nn::RandomOp::create(b, floats(shape), distribution, rowMajorIndex(shape), seed, step, stream);
  }

  // Returns integers below 16 that depend on the position, or on a value.
  Value integersLike(Value x) {
    if (options.jumps && dice.oneIn(3)) { // away from the steps, and from 0, where both sides truncate toward it
      Value scaled = nn::MulOp::create(b, generic(x), splat(typeOf(x), 3));
      return nn::CastOp::create(b, i64(shapeOf(x)), scaled);
    }
    SmallVector<int64_t> strides;
    for (size_t d = 0; d < shapeOf(x).size(); ++d) {
      strides.push_back(dice.roll(3));
    }
    return nn::IndexOp::create(b, i64(shapeOf(x)), strides);
  }

  // Returns a bool of the shape: computed from positions, or from values away from the threshold.
  Value condition(Value x) {
    constexpr nn::Predicate kPredicates[] = {nn::Predicate::Eq, nn::Predicate::Ne, nn::Predicate::Lt,
                                             nn::Predicate::Le, nn::Predicate::Gt, nn::Predicate::Ge};
    Value result;
    if (!options.jumps || dice.oneIn(2)) {
      Value bound = splat(i64(shapeOf(x)), dice.roll(8));
      result = nn::CompareOp::create(b, i1(shapeOf(x)), dice.pick(kPredicates), integersLike(x), bound);
    } else {
      result = nn::CompareOp::create(b, i1(shapeOf(x)), dice.pick(kPredicates), generic(x), another(shapeOf(x)));
    }
    switch (dice.roll(5)) {
    case 0:
      return nn::NotOp::create(b, result);
    case 1:
      return nn::AndOp::create(b, result, condition(x));
    case 2:
      return nn::OrOp::create(b, result, condition(x));
    default:
      return result;
    }
  }

  //===-- Makers --------------------------------------------------------------------------------------------------------------------===//

  // An op whose result is bounded by 1, or jumps.
  void bounded(Value x) {
    auto away = [&] { return nn::AddOp::create(b, x, splat(typeOf(x), 0.0371)); }; // sums of nice numbers are no ties
    switch (laterDice.roll(options.jumps ? 8 : 5)) {
    case 0:
      return add(nn::SinOp::create(b, x), 1);
    case 1:
      return add(nn::CosOp::create(b, x), 1);
    case 5:
      return add(nn::FloorOp::create(b, away()), boundOf(x) + 1);
    case 6:
      return add(nn::CeilOp::create(b, away()), boundOf(x) + 2);
    case 7:
      return add(nn::RoundOp::create(b, away()), boundOf(x) + 1);
    default:
      return add(nn::TanhOp::create(b, x), 1);
    }
  }

  void unary() {
    Value x = pick();
    double bound = boundOf(x);
    switch (dice.roll(14)) {
    case 0:
      return add(nn::NegOp::create(b, x), bound);
    case 1:
      return add(nn::AbsOp::create(b, generic(x)), bound + 1);
    case 2:
      return options.jumps ? add(nn::MulOp::create(b, nn::SignOp::create(b, generic(x)), another(shapeOf(x))), kMaxBound)
                           : add(nn::TanhOp::create(b, x), 1);
    case 3:
      return add(nn::ExpOp::create(b, nn::MulOp::create(b, x, splat(typeOf(x), 1 / kMaxBound))), std::exp(1));
    case 4:
      return add(nn::LogOp::create(b, positive(x, 0.2)), 2);
    case 5:
      return add(nn::SqrtOp::create(b, positive(x, 0.1)), std::sqrt(bound + 1));
    case 6:
      return add(nn::ErfOp::create(b, x), 1);
    case 7:
      return bounded(x);
    case 8:
      return add(nn::SigmoidOp::create(b, x), 1);
    case 9:
      return add(nn::ReluOp::create(b, generic(x)), bound + 1);
    case 10:
      return add(nn::LeakyReluOp::create(b, x.getType(), generic(x), llvm::APFloat(dice.oneIn(2) ? 0.1 : -0.3)), bound + 1);
    case 11:
      return add(nn::GeluOp::create(b, x.getType(), x, /*tanh_approximation=*/dice.oneIn(2)), bound);
    case 12:
      return add(nn::CastOp::create(b, typeOf(x), condition(x)), 1);
    default:
      return add(nn::CastOp::create(b, typeOf(x), integersLike(x)), 64);
    }
  }

  void binary() {
    Value x = pick(), y = another(shapeOf(x));
    double bound = boundOf(x);
    switch (dice.roll(8)) {
    case 0:
      return add(nn::SubOp::create(b, x, y), bound + boundOf(y));
    case 1:
    case 2:
      return add(nn::MulOp::create(b, x, y), bound * boundOf(y));
    case 3:
      return add(nn::DivOp::create(b, x, positive(y, 0.5)), 2 * bound);
    case 4:
      return add(nn::PowOp::create(b, positive(x, 0.2), nn::TanhOp::create(b, y)), kMaxBound + 2);
    case 5:
      return add(nn::MaxOp::create(b, generic(x), y), kMaxBound + 1);
    case 6:
      return add(nn::MinOp::create(b, generic(x), y), kMaxBound + 1);
    default:
      return add(nn::AddOp::create(b, x, y), bound + boundOf(y));
    }
  }

  void select() {
    Value x = pick(), y = another(shapeOf(x));
    add(nn::SelectOp::create(b, x.getType(), condition(x), x, y), kMaxBound);
  }

  // Integer arithmetic is exact, whatever the order.
  void integers() {
    Value x = pick(), i = integersLike(x), j = integersLike(x), result;
    switch (dice.roll(9)) {
    case 0:
      result = nn::MulOp::create(b, i, j);
      break;
    case 1:
      result = nn::DivOp::create(b, i, nn::AddOp::create(b, nn::AbsOp::create(b, j), splat(typeOf(j), 1)));
      break;
    case 2:
      result = nn::SubOp::create(b, nn::NegOp::create(b, i), j);
      break;
    case 3:
      result = nn::MaxOp::create(b, i, nn::SignOp::create(b, j));
      break;
    case 4:
      result = nn::MinOp::create(b, i, j);
      break;
    case 5:
      if (shapeOf(x).size() < 2) {
        return;
      }
      result = nn::MatMulOp::create(b, i, j, /*transpose_a=*/false, /*transpose_b=*/true);
      break;
    default:
      result = nn::ReduceOp::create(b, static_cast<Reduction>(dice.roll(3)), i, randomDims(x));
      break;
    }
    add(nn::TanhOp::create(
            b, nn::MulOp::create(b, nn::CastOp::create(b, floats(shapeOf(result)), result), splat(floats(shapeOf(result)), 0.05))),
        1);
  }

  SmallVector<int64_t> randomDims(Value x) {
    SmallVector<int64_t> dims;
    for (size_t d = 0; d < shapeOf(x).size(); ++d) {
      if (dice.oneIn(2)) {
        dims.push_back(d);
      }
    }
    return dims;
  }

  void broadcast() {
    Value x = pick();
    SmallVector<int64_t> shape, dims;
    for (int64_t size : shapeOf(x)) {
      if (dice.oneIn(4)) {
        shape.push_back(dice.pick(options.sizes));
      }
      dims.push_back(shape.size());
      shape.push_back(size);
    }
    if (shape.size() == dims.size()) {
      shape.push_back(dice.pick(options.sizes));
    }
    if (shape.size() <= 4) {
      add(nn::BroadcastOp::create(b, floats(shape), x, dims), boundOf(x));
    }
  }

  // A vector along a random dim of x, added.
  void bias() {
    Value x = pick();
    if (shapeOf(x).empty()) {
      return;
    }
    int64_t dim = dice.roll(shapeOf(x).size());
    Value vector = another(shapeOf(x)[dim]);
    double bound = boundOf(x) + boundOf(vector);
    add(nn::AddOp::create(b, x, nn::BroadcastOp::create(b, x.getType(), vector, dim)), bound);
  }

  void reduce() {
    Value x = pick();
    SmallVector<int64_t> dims = randomDims(x);
    auto kind = static_cast<Reduction>(dice.roll(3));
    double count = 1;
    for (int64_t dim : dims) {
      count *= shapeOf(x)[dim];
    }
    if (kind == Reduction::Sum) {
      return add(nn::ReduceOp::create(b, kind, x, dims), boundOf(x) * count);
    }
    add(nn::ReduceOp::create(b, kind, generic(x), dims), boundOf(x) + 1);
  }

  // Joins neighbours, cuts a dim in two, or all of it at once.
  void reshape() {
    Value x = pick();
    SmallVector<int64_t> shape(shapeOf(x));
    for (int64_t change = dice.roll(3); change >= 0; --change) {
      if (shape.empty() || dice.oneIn(6)) {
        shape.insert(shape.begin() + dice.roll(shape.size() + 1), 1);
        continue;
      }
      int64_t d = dice.roll(shape.size());
      if (d > 0 && dice.oneIn(2)) {
        shape[d - 1] *= shape[d];
        shape.erase(shape.begin() + d);
        continue;
      }
      for (int64_t factor : {2 + dice.roll(3), 2 + dice.roll(4)}) {
        if (shape[d] % factor == 0) {
          shape[d] /= factor;
          shape.insert(shape.begin() + d + dice.roll(2), factor);
          break;
        }
      }
    }
    if (shape.size() <= 4) {
      add(nn::ReshapeOp::create(b, floats(shape), x), boundOf(x));
    }
  }

  void transpose() {
    Value x = pick();
    SmallVector<int64_t> permutation;
    for (size_t d = 0; d < shapeOf(x).size(); ++d) {
      permutation.insert(permutation.begin() + dice.roll(d + 1), d);
    }
    add(nn::TransposeOp::create(b, x, permutation), boundOf(x));
  }

  void concat() {
    Value x = pick();
    if (shapeOf(x).empty()) {
      return;
    }
    int64_t dim = dice.roll(shapeOf(x).size());
    SmallVector<Value> parts = {x, another(shapeOf(x))};
    if (dice.oneIn(2)) {
      SmallVector<int64_t> shape(shapeOf(x));
      shape[dim] = dice.pick(options.sizes);
      parts.insert(parts.begin() + dice.roll(3), another(shape));
    }
    add(nn::ConcatOp::create(b, parts, dim), kMaxBound);
  }

  void slice() {
    Value x = pick();
    SmallVector<int64_t> starts, limits, steps;
    for (int64_t size : shapeOf(x)) {
      bool touch = dice.oneIn(2);
      starts.push_back(touch ? dice.roll(size) : 0);
      limits.push_back(touch ? starts.back() + 1 + dice.roll(size - starts.back()) : size);
      steps.push_back(touch ? 1 + dice.roll(2) : 1);
    }
    add(nn::SliceOp::create(b, x, starts, limits, steps), boundOf(x));
  }

  void pad() {
    Value x = pick();
    SmallVector<int64_t> low, interior, shape;
    for (int64_t size : shapeOf(x)) {
      bool touch = dice.oneIn(2);
      low.push_back(touch ? dice.roll(3) : 0);
      interior.push_back(touch ? dice.roll(2) : 0);
      shape.push_back(low.back() + size + interior.back() * (size - 1) + (touch ? dice.roll(2) : 0));
    }
    if (laterDice.oneIn(2) && !shapeOf(x).empty()) {
      return windows(x);
    }
    add(nn::PadOp::create(b, floats(shape), x, low, interior), boundOf(x));
  }

  // Windows along a dim of `size`, each with an element that is no padding.
  nn::WindowAttr window(int64_t size) {
    while (true) {
      int64_t extent = 1 + laterDice.roll(3), dilation = 1 + laterDice.roll(2);
      int64_t most = dilation == 1 ? extent : 1; // of padding, so that a window cannot lie in it
      auto window = nn::WindowAttr::get(b.getContext(), extent, 1 + laterDice.roll(3), dilation,
                                        laterDice.roll(most + 1) - laterDice.oneIn(4), laterDice.roll(most));
      if (window.getLow() < extent && window.countPositions(size)) {
        return window;
      }
    }
  }

  // Sums and maxima over windows along one dim or two, and sums of elements at places.
  void windows(Value x) {
    int64_t rank = shapeOf(x).size();
    SmallVector<int64_t> dims{laterDice.roll(rank)};
    if (dims.front() + 1 < rank && laterDice.oneIn(2)) {
      dims.push_back(dims.front() + 1 + laterDice.roll(rank - 1 - dims.front()));
    }
    SmallVector<Attribute> each;
    double elements = 1;
    for (int64_t dim : dims) {
      nn::WindowAttr window = this->window(shapeOf(x)[dim]);
      each.push_back(window);
      elements *= static_cast<double>(window.getSize());
    }
    ArrayAttr windows = b.getArrayAttr(each);
    double bound = boundOf(x);
    switch (laterDice.roll(options.jumps ? 5 : 4)) {
    case 0: {
      Value views = nn::WindowsOp::create(b, x, dims, windows);
      return add(nn::ReduceOp::create(b, Reduction::Sum, views, nn::windowDims(dims)), bound * elements);
    }
    case 1: {
      RankedTensorType type = floats(nn::withWindows(shapeOf(x), dims, windows));
      Value elementsOf = nn::UnwindowsOp::create(b, type, nn::WindowsOp::create(b, x, dims, windows), dims, windows);
      return add(nn::ReduceOp::create(b, Reduction::Sum, elementsOf, nn::windowDims(dims)), bound * elements);
    }
    case 2:
      return add(nn::MaxPoolOp::create(b, generic(x), dims, windows), bound + 1);
    case 3:
      return resample(x, dims.front());
    default: {
      Value y = generic(x), largest = nn::MaxPoolOp::create(b, y, dims, windows);
      Value place = nn::MaxPoolPlaceOp::create(b, y, largest, dims, windows);
      return add(nn::TanhOp::create(b, nn::CastOp::create(b, typeOf(largest), place)), 1);
    }
    }
  }

  void resample(Value x, int64_t dim) {
    int64_t terms = 1 + laterDice.roll(10), size = shapeOf(x)[dim];
    SmallVector<int64_t> places;
    SmallVector<double> weights;
    bool isWeighted = laterDice.oneIn(2);
    for (int64_t i = terms * (1 + laterDice.roll(2 * size)); i > 0; --i) {
      places.push_back(laterDice.roll(size + 2) - 1);
      if (isWeighted) {
        weights.push_back(0.25 * static_cast<double>(laterDice.roll(8)));
      }
    }
    add(nn::ResampleOp::create(b, x, dim, terms, places, weights), boundOf(x) * 2 * static_cast<double>(terms));
  }

  // x times a tensor that fits, in one of the four transposed forms, on one of the two sides.
  void matmul() {
    Value x = pick();
    if (shapeOf(x).size() < 2) {
      return;
    }
    bool transposeX = dice.oneIn(2), transposeY = dice.oneIn(2);
    SmallVector<int64_t> shape(shapeOf(x));
    size_t rows = shape.size() - 2, columns = shape.size() - 1;
    bool first = dice.oneIn(2);
    int64_t k = shape[transposeX == first ? rows : columns], n = dice.pick(options.sizes);
    shape[transposeY == first ? columns : rows] = k;
    shape[transposeY == first ? rows : columns] = n;
    Value y = another(shape);
    double bound = k * boundOf(x) * boundOf(y);
    add(first ? nn::MatMulOp::create(b, x, y, transposeX, transposeY) : nn::MatMulOp::create(b, y, x, transposeY, transposeX), bound);
  }

  // A convolution, or a gradient of one.
  void convolution() {
    Value x = pick();
    auto form = test::drawConvolution(b.getContext(), shapeOf(x), [&](int64_t limit) { return laterDice.roll(limit); });
    if (form && std::max(floats(form->second).getNumElements(), floats(form->result).getNumElements()) <= options.maxElements) {
      Value y = another(form->second);
      add(test::createConvolution(b, b.getLoc(), *form, x, y), form->terms * boundOf(x) * boundOf(y));
    }
  }

  // Ops along the last dim.
  void rows() {
    Value x = pick();
    if (shapeOf(x).empty()) {
      return;
    }
    switch (dice.roll(3)) {
    case 0:
      return add(nn::SoftmaxOp::create(b, x), 1);
    case 1:
      return add(nn::LogSoftmaxOp::create(b, x), 2 * boundOf(x) + std::log(shapeOf(x).back()));
    default:
      return add(nn::SoftmaxCrossEntropyOp::create(b, x, numbers(shapeOf(x).drop_back(), shapeOf(x).back())),
                 2 * boundOf(x) + std::log(shapeOf(x).back()));
    }
  }

  // Returns numbers of rows or classes below a limit, some of them none, as constants or computed.
  Value numbers(ArrayRef<int64_t> shape, int64_t limit) {
    if (dice.oneIn(3)) {
      return integersLike(another(shape));
    }
    Type type = dice.oneIn(2) ? b.getI64Type() : b.getI32Type();
    SmallVector<Attribute> elements;
    for (int64_t i = 0; i < i64(shape).getNumElements(); ++i) {
      elements.push_back(b.getIntegerAttr(type, dice.roll(limit + 2) - 1));
    }
    return nn::ConstantOp::create(b, DenseElementsAttr::get(RankedTensorType::get(shape, type), elements));
  }

  // Rows of x by number.
  void gather() {
    Value x = pick();
    SmallVector<int64_t> places = randomShape(/*minRank=*/0);
    if (!shapeOf(x).empty() && places.size() + shapeOf(x).size() <= 5) {
      add(nn::GatherOp::create(b, x, numbers(places, shapeOf(x).front())), boundOf(x));
    }
  }

  // The leading dims of x are places, the others a row.
  void scatter() {
    Value x = pick();
    int64_t rank = dice.roll(shapeOf(x).size() + 1);
    ArrayRef<int64_t> places = shapeOf(x).take_front(rank);
    SmallVector<int64_t> shape = {dice.pick(options.sizes)};
    llvm::append_range(shape, shapeOf(x).drop_front(rank));
    double bound = boundOf(x) * i64(places).getNumElements(); // all in one row
    add(nn::ScatterAddOp::create(b, floats(shape), numbers(places, shape.front()), x), bound);
  }

  // (x - mean) / sqrt(variance + 0.1) along one dim.
  void normalise() {
    Value x = pick();
    if (shapeOf(x).empty()) {
      return;
    }
    int64_t dim = dice.roll(shapeOf(x).size()), count = shapeOf(x)[dim];
    SmallVector<int64_t> others;
    for (int64_t d = 0; d < typeOf(x).getRank(); ++d) {
      if (d != dim) {
        others.push_back(d);
      }
    }
    auto mean = [&](Value value) -> Value {
      Value sum = nn::ReduceOp::create(b, Reduction::Sum, value, dim);
      return nn::MulOp::create(b, sum, splat(typeOf(sum), 1.0 / count));
    };
    auto along = [&](Value value) -> Value { return nn::BroadcastOp::create(b, x.getType(), value, others); };
    Value centred = nn::SubOp::create(b, x, along(mean(x)));
    Value variance = mean(nn::MulOp::create(b, centred, centred));
    Value deviation = nn::SqrtOp::create(b, nn::AddOp::create(b, variance, splat(typeOf(variance), 0.1)));
    add(nn::DivOp::create(b, centred, along(deviation)), std::sqrt(count) + 1);
  }

  void dropout() {
    Value x = pick();
    if (dice.oneIn(3)) {
      return add(nn::AddOp::create(b, x, randomNumbers(shapeOf(x), nn::Distribution::Normal)), boundOf(x) + 6);
    }
    Value numbers = randomNumbers(shapeOf(x), nn::Distribution::Uniform);
    Value keep = nn::CompareOp::create(b, i1(shapeOf(x)), nn::Predicate::Ge, numbers, splat(typeOf(x), 0.25));
    auto result = nn::SelectOp::create(b, x.getType(), keep, x, splat(typeOf(x), 0));
    add(result, boundOf(x));
  }

  //===-- Results -------------------------------------------------------------------------------------------------------------------===//

  void addResults() {
    SmallVector<Value> results = llvm::to_vector(llvm::make_filter_range(pool, [](Value value) { return value.use_empty(); }));
    if (results.empty()) {
      results.push_back(pool.back());
    }
    setResults(results, "y");
  }

  // The prediction is a value whose rows are the batch, and a little of all that is not used otherwise, and of each variable: what else is
  // made of it may be constant.
  void addPrediction() {
    Value prediction = pool.front();
    for (Value value : pool) {
      bool fits = shapeOf(value).size() >= 2 && shapeOf(value).front() == options.batch;
      prediction = fits && !dice.oneIn(3) ? value : prediction;
    }
    double bound = boundOf(prediction);
    for (Value value : pool) {
      if (value != prediction && (value.use_empty() || value.getDefiningOp<nn::ReadOp>())) {
        Value sum = nn::ReduceOp::create(b, Reduction::Sum, value, llvm::to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank())));
        Value mean = nn::MulOp::create(b, sum, splat(typeOf(sum), 1.0 / typeOf(value).getNumElements()));
        prediction = nn::AddOp::create(b, prediction, nn::BroadcastOp::create(b, prediction.getType(), mean, ArrayRef<int64_t>{}));
        bound += boundOf(value);
      }
    }
    if (bound > kMaxBound) {
      prediction = nn::MulOp::create(b, prediction, splat(typeOf(prediction), kMaxBound / bound));
    }
    setResults(prediction, "out");
  }

  void setResults(ArrayRef<Value> results, const std::string &name) {
    func::ReturnOp::create(b, results);
    function.setType(b.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
    for (size_t i = 0; i < results.size(); ++i) {
      function.setResultAttr(i, nn::kNameAttr, b.getStringAttr(options.batch != 0 ? name : name + std::to_string(i)));
    }
  }

  Dice &dice;
  Dice laterDice; // for what came into the generator later: the rest of a seed's program stays the same
  const ModelOptions &options;
  ModuleOp module;
  ImplicitLocOpBuilder b;
  func::FuncOp function;
  Value seed, step;
  SmallVector<Value> pool;
  DenseMap<Value, double> bounds;
};

} // namespace

void addRandomModel(Dice &dice, ModuleOp module, const ModelOptions &options) {
  Generator(dice, module, options).generate();
}

} // namespace ashlar::fuzz
