// SPDX-License-Identifier: Apache-2.0
//
// Random programs; see random_program.h.

#include "test/unit/layout/random_program.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"
#include "test/unit/reference/random_convolution.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

namespace ashlar::test {

dist::MeshAttr meshOf(MLIRContext &context, ArrayRef<std::pair<StringRef, int64_t>> axes) {
  context.loadAllAvailableDialects();
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (auto [name, size] : axes) {
    names.push_back(StringAttr::get(&context, name));
    sizes.push_back(size);
  }
  return dist::MeshAttr::get(&context, names, sizes);
}

dist::Layout randomLayout(Dice &dice, dist::MeshAttr mesh, ArrayRef<int64_t> shape) {
  dist::Layout layout = dist::Layout::replicated(shape.size());
  SmallVector<StringAttr> axes(mesh.getAxes());
  for (size_t i = axes.size(); i > 1; --i) {
    std::swap(axes[i - 1], axes[dice.roll(i)]);
  }
  for (StringAttr axis : axes) {
    if (shape.empty() || dice.roll(3) == 0) {
      continue;
    }
    size_t d = dice.roll(shape.size());
    layout.dims[d].push_back(axis);
    if (!dist::isEven(mesh, shape[d], layout.dims[d]) && dice.roll(2) == 0) {
      layout.dims[d].pop_back();
    }
  }
  return layout;
}

namespace {

constexpr int64_t kMaxElements = 1000;
constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 12};

class Generator {
public:
  Generator(MLIRContext &context, uint64_t seed, dist::MeshAttr mesh, int64_t numOps)
      : dice(seed), mesh(mesh), numOps(numOps), b(UnknownLoc::get(&context), &context) {}

  OwningOpRef<ModuleOp> generate() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
    b.setInsertionPointToEnd(module->getBody());
    dist::MeshOp::create(b, "mesh", mesh);
    for (StringRef name : {"v0", "v1"}) {
      auto variable =
          nn::VariableOp::create(b, name, randomType(), /*init=*/Attribute(), /*trainable=*/true, /*state_of=*/FlatSymbolRefAttr());
      maybeLayout(variable.getTensorType(), [&](Attribute layout) { variable->setAttr(dist::kLayoutAttr, layout); });
      variables.push_back(variable);
    }
    SmallVector<Type> inputs;
    for (int64_t i = 0; i < 3; ++i) {
      inputs.push_back(randomType());
    }
    auto function = func::FuncOp::create(b, "f", b.getFunctionType(inputs, {}));
    b.setInsertionPointToStart(function.addEntryBlock());
    for (BlockArgument argument : function.getArguments()) {
      maybeLayout(argument.getType(), [&](Attribute layout) { function.setArgAttr(argument.getArgNumber(), dist::kLayoutAttr, layout); });
      values.push_back(argument);
    }
    for (nn::VariableOp variable : variables) {
      values.push_back(nn::ReadOp::create(b, variable.getTensorType(), variable.getSymName()));
    }
    for (int64_t i = 0; i < numOps; ++i) {
      addOp();
    }
    writeVariables();
    addReturn(function);
    return module;
  }

private:
  RankedTensorType f64(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, b.getF64Type()); }
  RankedTensorType i64(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, b.getI64Type()); }
  static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

  RankedTensorType randomType() {
    SmallVector<int64_t> shape;
    for (int64_t rank = 1 + dice.roll(3); rank > 0; --rank) {
      shape.push_back(kSizes[dice.roll(std::size(kSizes))]);
    }
    return f64(shape);
  }

  void maybeLayout(Type type, function_ref<void(Attribute)> set) {
    if (dice.roll(3) != 0) {
      set(dist::LayoutAttr::get(b.getContext(), randomLayout(dice, mesh, cast<RankedTensorType>(type).getShape())));
    }
  }

  // Picks a value, rather a late one.
  Value pick() {
    size_t window = std::min<size_t>(values.size(), 6);
    return dice.roll(2) == 0 ? values[dice.roll(values.size())] : values[values.size() - 1 - dice.roll(window)];
  }

  // Returns a value of the shape: one that is there, or a constant, or numbers made from indices.
  Value another(ArrayRef<int64_t> shape) {
    SmallVector<Value> fitting = llvm::to_vector(llvm::make_filter_range(values, [&](Value value) { return shapeOf(value) == shape; }));
    int64_t kind = dice.roll(4);
    if (kind == 0) {
      return randomNumbers(shape);
    }
    return kind == 1 || fitting.empty() ? constant(shape) : fitting[dice.roll(fitting.size())];
  }

  Value constant(ArrayRef<int64_t> shape) {
    SmallVector<double> elements;
    for (int64_t i = 0; i < f64(shape).getNumElements(); ++i) {
      elements.push_back(dice.roll(1000) * 0.002 - 1);
    }
    auto data = dice.roll(2) == 0 ? DenseElementsAttr::get(f64(shape), ArrayRef(elements).take_front(1))
                                  : DenseElementsAttr::get(f64(shape), ArrayRef(elements));
    return nn::ConstantOp::create(b, data);
  }

  Value index(ArrayRef<int64_t> shape) { return nn::IndexOp::create(b, i64(shape), rowMajorStrides(shape)); }

  Value randomNumbers(ArrayRef<int64_t> shape) {
    auto scalar = [&] { return nn::ConstantOp::create(b, DenseElementsAttr::get(i64({}), dice.roll(100))).getResult(); };
    Value stream = nn::ConstantOp::create(b, nn::splat(RankedTensorType::get({}, b.getI32Type()), dice.roll(1000)));
    return nn::RandomOp::create(b, f64(shape), nn::Distribution::Uniform, index(shape), scalar(), scalar(), stream);
  }

  void addOp() {
    Value x = pick(), result;
    switch (dice.roll(15)) {
    case 0:
      result = nn::TanhOp::create(b, x);
      break;
    case 1:
      result = nn::ReluOp::create(b, x);
      break;
    case 2:
      result = nn::MulOp::create(b, x, another(shapeOf(x)));
      break;
    case 3:
      result = nn::TanhOp::create(b, nn::AddOp::create(b, x, another(shapeOf(x))));
      break;
    case 4:
      result = select(x);
      break;
    case 5:
      result = broadcast(x);
      break;
    case 6:
      result = reshape(x);
      break;
    case 7:
      result = transpose(x);
      break;
    case 8:
      result = concat(x);
      break;
    case 9:
      result = dice.roll(2) == 0 ? slice(x) : pad(x);
      break;
    case 10:
      result = reduce(x);
      break;
    case 11:
    case 12:
      result = matmul(x);
      break;
    case 13:
      switch (dice.roll(3)) {
      case 0:
        result = gather(x);
        break;
      case 1:
        result = scatterAdd(x);
        break;
      default:
        result = insert(x);
        break;
      }
      break;
    default:
      result = rows(x);
      break;
    }
    if (result && cast<RankedTensorType>(result.getType()).getNumElements() <= kMaxElements) {
      values.push_back(result);
    }
  }

  // The condition only compares indices, which are exact.
  Value select(Value x) {
    Value numbers = index(shapeOf(x));
    int64_t limit = 1 + dice.roll(cast<RankedTensorType>(x.getType()).getNumElements());
    Value bound = nn::ConstantOp::create(b, DenseElementsAttr::get(i64(shapeOf(x)), limit));
    Value condition = nn::CompareOp::create(b, RankedTensorType::get(shapeOf(x), b.getI1Type()), nn::Predicate::Lt, numbers, bound);
    return nn::SelectOp::create(b, x.getType(), condition, x, another(shapeOf(x)));
  }

  Value broadcast(Value x) {
    SmallVector<int64_t> shape(shapeOf(x)), dims;
    int64_t place = dice.roll(shape.size() + 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      dims.push_back(static_cast<int64_t>(d) < place ? d : d + 1);
    }
    shape.insert(shape.begin() + place, kSizes[dice.roll(std::size(kSizes))]);
    return nn::BroadcastOp::create(b, f64(shape), x, dims);
  }

  // Joins two neighbours or cuts one dim in two.
  Value reshape(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    if (shape.empty()) {
      shape.push_back(1);
    } else if (int64_t d = dice.roll(shape.size()); dice.roll(2) == 0 && d > 0) {
      shape[d - 1] *= shape[d];
      shape.erase(shape.begin() + d);
    } else {
      for (int64_t factor : {2, 3}) {
        if (shape[d] % factor == 0) {
          shape[d] /= factor;
          shape.insert(shape.begin() + d + dice.roll(2), factor);
          break;
        }
      }
    }
    return nn::ReshapeOp::create(b, f64(shape), x);
  }

  Value transpose(Value x) {
    SmallVector<int64_t> permutation;
    for (size_t d = 0; d < shapeOf(x).size(); ++d) {
      permutation.insert(permutation.begin() + dice.roll(d + 1), d);
    }
    return nn::TransposeOp::create(b, x, permutation);
  }

  Value concat(Value x) {
    return shapeOf(x).empty() ? Value() : nn::ConcatOp::create(b, ValueRange{x, another(shapeOf(x))}, dice.roll(shapeOf(x).size()));
  }

  Value slice(Value x) {
    SmallVector<int64_t> starts, limits, steps;
    for (int64_t size : shapeOf(x)) {
      bool touch = dice.roll(2) == 0;
      starts.push_back(touch ? dice.roll(size) : 0);
      limits.push_back(touch ? starts.back() + 1 + dice.roll(size - starts.back()) : size);
      steps.push_back(touch ? 1 + dice.roll(2) : 1);
    }
    return nn::SliceOp::create(b, x, starts, limits, steps);
  }

  Value pad(Value x) {
    SmallVector<int64_t> low, interior, shape;
    for (int64_t size : shapeOf(x)) {
      bool touch = dice.roll(2) == 0;
      low.push_back(touch ? dice.roll(3) : 0);
      interior.push_back(touch ? dice.roll(2) : 0);
      shape.push_back(low.back() + size + interior.back() * (size - 1) + (touch ? dice.roll(2) : 0));
    }
    return nn::PadOp::create(b, f64(shape), x, low, interior);
  }

  Value reduce(Value x) {
    SmallVector<int64_t> dims;
    for (size_t d = 0; d < shapeOf(x).size(); ++d) {
      if (dice.roll(2) == 0) {
        dims.push_back(d);
      }
    }
    auto kind = static_cast<Reduction>(dice.roll(3));
    return nn::TanhOp::create(b, nn::ReduceOp::create(b, kind, x, dims));
  }

  // Numbers of rows, some of them outside of `rows`.
  Value numbers(ArrayRef<int64_t> shape, int64_t rows) {
    SmallVector<int64_t> elements;
    for (int64_t i = 0; i < i64(shape).getNumElements(); ++i) {
      elements.push_back(dice.roll(rows + 4) - 2);
    }
    return nn::ConstantOp::create(b, DenseElementsAttr::get(i64(shape), ArrayRef(elements)));
  }

  Value gather(Value x) {
    if (shapeOf(x).empty()) {
      return {};
    }
    ArrayRef<int64_t> shape = shapeOf(x);
    const int64_t batchDims = dice.roll(shape.size());
    SmallVector<int64_t> places(shape.take_front(batchDims));
    for (int64_t rank = dice.roll(3); rank > 0; --rank) {
      places.push_back(kSizes[dice.roll(std::size(kSizes))]);
    }
    return nn::GatherOp::create(b, x, numbers(places, shape[batchDims]), batchDims);
  }

  Value scatterAdd(Value x) {
    ArrayRef<int64_t> shape = shapeOf(x);
    int64_t places = dice.roll(shape.size() + 1), rows = kSizes[dice.roll(std::size(kSizes))], batchDims = dice.roll(places + 1);
    SmallVector<int64_t> result(shape.take_front(batchDims));
    result.push_back(rows);
    llvm::append_range(result, shape.drop_front(places));
    return nn::TanhOp::create(b, nn::ScatterAddOp::create(b, f64(result), numbers(shape.take_front(places), rows), x, batchDims));
  }

  // The first rows of a value of x's shape into x, some of them in places outside.
  Value insert(Value x) {
    if (shapeOf(x).empty()) {
      return {};
    }
    const int64_t rank = shapeOf(x).size(), dim = dice.roll(rank), size = shapeOf(x)[dim];
    SmallVector<int64_t> starts(rank, 0), limits(shapeOf(x)), steps(rank, 1);
    limits[dim] = 1 + dice.roll(size);
    Value rows = nn::SliceOp::create(b, another(shapeOf(x)), starts, limits, steps);
    return nn::InsertOp::create(b, x.getType(), rows, x, numbers({}, size), dim);
  }

  // A convolution, or a gradient of one; null where x cannot have any.
  Value convolution(Value x) {
    auto form = drawConvolution(b.getContext(), shapeOf(x), [&](int64_t limit) { return dice.roll(limit); });
    if (!form || std::max(f64(form->second).getNumElements(), f64(form->result).getNumElements()) > kMaxElements) {
      return {};
    }
    return nn::TanhOp::create(b, createConvolution(b, b.getLoc(), *form, x, another(form->second)));
  }

  // x times a tensor that fits, in one of the four transposed forms; or a convolution.
  Value matmul(Value x) {
    ArrayRef<int64_t> shape = shapeOf(x);
    if (Value result = dice.roll(2) == 0 ? convolution(x) : Value()) {
      return result;
    }
    if (shape.size() < 2) {
      return {};
    }
    bool transposeA = dice.roll(2) == 0, transposeB = dice.roll(2) == 0;
    SmallVector<int64_t> other(shape);
    int64_t k = shape[shape.size() - (transposeA ? 2 : 1)], n = kSizes[dice.roll(std::size(kSizes))];
    other[shape.size() - 2] = transposeB ? n : k;
    other[shape.size() - 1] = transposeB ? k : n;
    return nn::TanhOp::create(b, nn::MatMulOp::create(b, x, another(other), transposeA, transposeB));
  }

  // Ops along the last dim.
  Value rows(Value x) {
    ArrayRef<int64_t> shape = shapeOf(x);
    if (shape.empty()) {
      return {};
    }
    if (dice.roll(2) == 0) {
      return nn::SoftmaxOp::create(b, x);
    }
    SmallVector<int64_t> labels;
    for (int64_t i = 0; i < i64(shape.drop_back()).getNumElements(); ++i) {
      labels.push_back(dice.roll(shape.back() + 1) - 1);
    }
    Value constant = nn::ConstantOp::create(b, DenseElementsAttr::get(i64(shape.drop_back()), ArrayRef(labels)));
    return nn::TanhOp::create(b, nn::SoftmaxCrossEntropyOp::create(b, x, constant));
  }

  void writeVariables() {
    for (nn::VariableOp variable : variables) {
      auto fits = [&](Value value) { return value.getType() == variable.getTensorType(); };
      if (auto value = llvm::find_if(llvm::reverse(values), fits); value != values.rend()) {
        nn::WriteOp::create(b, variable.getSymName(), *value);
      }
    }
  }

  void addReturn(func::FuncOp function) {
    SmallVector<Value> results(ArrayRef(values).take_back(4));
    func::ReturnOp::create(b, results);
    function.setType(b.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
    for (size_t i = 0; i < results.size(); ++i) {
      maybeLayout(results[i].getType(), [&](Attribute layout) { function.setResultAttr(i, dist::kLayoutAttr, layout); });
    }
  }

  Dice dice;
  dist::MeshAttr mesh;
  int64_t numOps;
  ImplicitLocOpBuilder b;
  SmallVector<nn::VariableOp> variables;
  SmallVector<Value> values;
};

} // namespace

OwningOpRef<ModuleOp> randomProgram(MLIRContext &context, uint64_t seed, dist::MeshAttr mesh, int64_t numOps) {
  return Generator(context, seed, mesh, numOps).generate();
}

} // namespace ashlar::test
