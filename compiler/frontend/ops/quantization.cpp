// SPDX-License-Identifier: Apache-2.0
//
// Numbers as integers: y = (q - zero point) * scale. QuantizeLinear and DequantizeLinear are element-wise; the ops that compute with such
// integers are compositions of these and of ops of integers.

#include "compiler/frontend/body.h"
#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include "dialects/nn/straight_through.h"
#include "dialects/support/element_type.h"
#include "dialects/support/integer_type.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

// How far a scale, and the zero point beside it, is that of a tensor: all of it, one index of an axis, or a block of them.
struct Granularity {
  int64_t axis, blockSize; // 0: no blocks
};

Granularity readGranularity(Node &node) {
  Granularity read{node.getInt("axis", 1), node.getInt("block_size", 0)};
  if (read.blockSize < 0) {
    node.fail("attribute \"block_size\" is " + Twine(read.blockSize) + ", not at least 0");
  }
  return read;
}

// Returns a scale or a zero point for every element of a tensor of `shape`.
Value repeat(Node &node, Value value, Granularity granularity, ArrayRef<int64_t> shape) {
  RankedTensorType type = typeOf(value);
  if (type.getRank() <= 1 && type.getNumElements() == 1) {
    return broadcastTo(node, reshape(node, value, {}), shape);
  }
  int64_t axis = node.normalizeAxis(granularity.axis, static_cast<int64_t>(shape.size())), block = granularity.blockSize;
  Shape expected = block == 0 ? Shape{shape[axis]} : Shape(shape);
  if (block > 0) {
    expected[axis] = static_cast<int64_t>(llvm::divideCeil(shape[axis], block));
  }
  if (type.getShape() != ArrayRef(expected)) {
    node.fail("scale or zero point of " + describeTensor(type) + " but " + describeTensor(type.clone(shape)) + " needs " +
              describeTensor(type.clone(expected)) + " along axis " + Twine(axis) +
              (block > 0 ? " in blocks of " + Twine(block) : Twine()));
  }
  if (block == 0) {
    Shape alongAxis(shape.size(), 1);
    alongAxis[axis] = shape[axis];
    return broadcastTo(node, reshape(node, value, alongAxis), shape);
  }
  Shape split(expected), repeated(expected), joined(expected);
  split.insert(split.begin() + axis + 1, 1);
  repeated.insert(repeated.begin() + axis + 1, block);
  joined[axis] *= block; // the last block may go beyond
  node.checkSize(joined, type.getElementType());
  Value whole = reshape(node, broadcastTo(node, reshape(node, value, split), repeated), joined);
  return joined == shape ? whole
                         : node.create<nn::SliceOp>(whole, Shape(shape.size(), 0), Shape(shape), Shape(shape.size(), 1)).getResult();
}

// Returns the zero point, input 2, in f32 for every element of a tensor of `shape`; null where there is none. Fails unless it is of `type`
// and of the shape of the scale.
Value zeroPoint(Node &node, Type type, Granularity granularity, ArrayRef<int64_t> shape) {
  if (!node.hasInput(2)) {
    return {};
  }
  RankedTensorType found = node.inputType(2), scale = node.inputType(1);
  if (found != scale.clone(type)) {
    node.fail("the zero point is " + describeTensor(found) + " but the scale " + describeTensor(scale) + " and the integers are " +
              elementName(type));
  }
  return repeat(node, convertTo(node, node.input(2), node.builder().getF32Type()), granularity, shape);
}

// 0 is left out.
Type readType(Node &node, StringRef name, Type byDefault) {
  return node.getInt(name, 0) == 0 ? byDefault : node.getElementType(name, byDefault);
}

bool isSmallFloat(Type type) {
  return type.isF32() || isNarrowFloat(type);
}

// y = saturate(round(x / scale) + zero point): the conversion to an integer saturates. The quotient is one of the scale's type or of that
// of `precision`, for a scale of i32 one of f64; the sum is exact in f32, or far from what the integer holds.
void importQuantizeLinear(Node &node) {
  Granularity granularity = readGranularity(node);
  RankedTensorType type = node.inputType(0), scale = node.inputType(1);
  Type byteType = IntegerType::get(node.builder().getContext(), 8, IntegerType::Unsigned), wide = node.builder().getF32Type();
  Type result = readType(node, "output_dtype", node.hasInput(2) ? node.inputType(2).getElementType() : byteType);
  const bool isWhole = scale.getElementType().isSignlessInteger(32);
  Type precision = readType(node, "precision", isWhole ? node.builder().getF64Type() : scale.getElementType());
  node.getInt("saturate", 1); // of float8 only
  if (!isSmallFloat(type.getElementType()) && !type.getElementType().isSignlessInteger(32)) {
    node.fail("quantizes " + describeTensor(type) + ", which ONNX does not; cast it to float");
  }
  if (!(isSmallFloat(precision) || (isWhole && precision.isF64())) || !(isSmallFloat(scale.getElementType()) || isWhole)) {
    node.fail("divides by a scale of " + elementName(scale.getElementType()) + " in " + elementName(precision) +
              ", which is not supported; use float, float16, bfloat16 or a scale of int32");
  }
  if (!isa<IntegerType>(result) || result.isInteger(1) || result.getIntOrFloatBitWidth() > 16) {
    node.fail("quantizes to " + elementName(result) + ", which is not supported; use int8, uint8, int16 or uint16");
  }
  Value divisor = repeat(node, convertTo(node, node.input(1), precision), granularity, type.getShape());
  Value quotient = node.create<nn::DivOp>(convertTo(node, node.input(0), precision), divisor);
  auto rounded = node.create<nn::RoundOp>(quotient);
  if (node.getInfo().options.straightThrough) {
    rounded->setAttr(nn::kStraightThroughAttr, node.builder().getUnitAttr());
  }
  Value sum = convertTo(node, rounded, wide);
  if (Value zero = zeroPoint(node, result, granularity, type.getShape())) {
    sum = node.create<nn::AddOp>(sum, zero);
  }
  node.setResult(0, convertTo(node, sum, result));
}

// Returns the whole number of which `value`, an integer, is the nearest, where QuantizeLinear made it and its gradient goes straight
// through; null elsewhere.
Value roundedStraightThrough(Value value) {
  auto toInteger = value.getDefiningOp<nn::CastOp>();
  Value sum = toInteger ? toInteger.getInput() : Value();
  for (Value source = sum; source;) {
    Operation *op = source.getDefiningOp();
    if (auto round = dyn_cast_or_null<nn::RoundOp>(op)) {
      return round->hasAttr(nn::kStraightThroughAttr) ? sum : Value();
    }
    source = isa_and_nonnull<nn::AddOp, nn::CastOp>(op) ? op->getOperand(0) : Value();
  }
  return {};
}

// y = (x - zero point) * scale, in f32 and rounded once.
void importDequantizeLinear(Node &node) {
  Granularity granularity = readGranularity(node);
  RankedTensorType type = node.inputType(0), scale = node.inputType(1);
  Type element = type.getElementType(), wide = node.builder().getF32Type();
  Type result = readType(node, "output_dtype", scale.getElementType());
  const bool isInteger =
      isa<IntegerType>(element) && !element.isInteger(1) && element.getIntOrFloatBitWidth() <= 32 && !element.isUnsignedInteger(32);
  if (!isInteger && !node.isStoredInput(0)) {
    node.fail("dequantizes " + describeTensor(type) + ", which ONNX does not; use int8, uint8, int16, uint16 or int32");
  }
  if (!isSmallFloat(result) || !isSmallFloat(scale.getElementType())) {
    node.fail("multiplies by a scale of " + elementName(scale.getElementType()) + " to " + elementName(result) +
              ", which is not supported; use float, float16 or bfloat16");
  }
  Value number = convertTo(node, node.input(0), wide);
  if (Value sum = roundedStraightThrough(node.input(0))) { // the same numbers
    Value least = splatConstant(node, typeOf(sum), static_cast<double>(integerValue(element, lowestInteger(element))));
    Value most = splatConstant(node, typeOf(sum), static_cast<double>(integerValue(element, highestInteger(element))));
    number = node.create<nn::MinOp>(node.create<nn::MaxOp>(sum, least), most);
  }
  if (Value zero = zeroPoint(node, element, granularity, type.getShape())) {
    number = node.create<nn::SubOp>(number, zero);
  }
  Value factor = repeat(node, convertTo(node, node.input(1), wide), granularity, type.getShape());
  node.setResult(0, convertTo(node, node.create<nn::MulOp>(number, factor), result));
}

// The nodes that a node stands for; what they compute is named after its first output.
class Composition {
public:
  explicit Composition(Node &node) : node(node) {}

  // Adds a node and returns the name of its result, or gives it one.
  std::string add(StringRef opType, std::vector<std::string> inputs, std::string output = "") {
    output = output.empty() ? newName() : output;
    nodes.push_back(makeNode(opType, std::move(inputs), {output}, node.getPath()));
    return output;
  }

  std::string cast(const std::string &input, onnx::TensorProto::DataType type, const std::string &output = "") {
    std::string result = add("Cast", {input}, output);
    setInt(nodes.back(), "to", type);
    return result;
  }

  std::string reshape(const std::string &input, const std::vector<int64_t> &shape) {
    nodes.push_back(makeInts(newName(), shape, node.getPath()));
    return add("Reshape", {input, nodes.back().output(0)});
  }

  std::string number(float value) {
    std::string result = add("Constant", {});
    onnx::AttributeProto *attribute = nodes.back().add_attribute();
    attribute->set_name("value_float");
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
    return result;
  }

  // Input `index` minus its zero point, input `zeroIndex`, which is one number, or one for each index of `axis`: integers of 32 bits.
  std::string fromZero(size_t index, size_t zeroIndex, int64_t axis) {
    std::string value = cast(node.inputName(index).str(), onnx::TensorProto::INT32);
    return node.hasInput(zeroIndex) ? add("Sub", {value, zeroPoint(index, zeroIndex, axis)}) : value;
  }

  // The zero point of input `index` as integers of 32 bits, with dims behind it.
  std::string zeroPoint(size_t index, size_t zeroIndex, int64_t axis) {
    if (node.inputType(zeroIndex).getElementType() != node.inputType(index).getElementType()) {
      node.fail("its zero point is " + describeTensor(node.inputType(zeroIndex)) + " but input " + Twine(index) + " is " +
                describeTensor(node.inputType(index)));
    }
    return cast(along(zeroIndex, node.inputType(index), axis), onnx::TensorProto::INT32);
  }

  // The sums of input `index`, integers, along a dim, which stays.
  std::string sumAlong(size_t index, int64_t dim) {
    std::string value = cast(node.inputName(index).str(), onnx::TensorProto::INT32), axes = newName();
    nodes.push_back(makeInts(axes, {dim}, node.getPath()));
    std::string sums = add("ReduceSum", {value});
    setList(nodes.back(), node.getOpset(), "axes", {dim}, axes);
    return sums;
  }

  std::string integer(int64_t value) {
    nodes.push_back(makeInts(newName(), {value}, node.getPath()));
    return cast(nodes.back().output(0), onnx::TensorProto::INT32);
  }

  // The name of input `index`, a scale or a zero point, with dims behind it, so that its elements are those of `axis` of a tensor.
  std::string along(size_t index, RankedTensorType of, int64_t axis) {
    RankedTensorType type = node.inputType(index);
    std::string name = node.inputName(index).str();
    Shape shape(of.getShape());
    if (type.getNumElements() == 1) {
      return reshape(name, {});
    }
    Shape whole(shape.size(), 1);
    if (type.getRank() == of.getRank()) { // one for each matrix, too
      whole.assign(shape.begin(), shape.end());
      whole[axis == of.getRank() - 1 ? axis - 1 : axis + 1] = 1;
    } else {
      whole[axis] = shape[axis];
    }
    if (type.getNumElements() != llvm::product_of(whole) || (type.getRank() != 1 && type.getShape() != ArrayRef(whole))) {
      node.fail("scale or zero point of " + describeTensor(type) + " is neither one number nor one for each index of axis " + Twine(axis) +
                " of " + describeTensor(of));
    }
    return reshape(name, {whole.begin(), whole.end()});
  }

  // Input `zeroIndex` is the zero point of the result, which is `sums` times the product of both scales by that of the result.
  void quantize(const std::string &sums, std::string scaleA, std::string scaleB, size_t scaleIndex, size_t zeroIndex) {
    if (node.inputType(scaleIndex).getNumElements() != 1 || node.inputType(zeroIndex).getNumElements() != 1) {
      node.fail("the scale and the zero point of its result are " + describeTensor(node.inputType(scaleIndex)) + " and " +
                describeTensor(node.inputType(zeroIndex)) + ", not one number each");
    }
    constexpr auto kFloat = onnx::TensorProto::FLOAT;
    std::string scale = cast(reshape(node.inputName(scaleIndex).str(), {}), kFloat);
    std::string factor = add("Div", {add("Mul", {cast(scaleA, kFloat), cast(scaleB, kFloat)}), scale});
    std::string scaled = add("Mul", {cast(sums, kFloat), factor});
    add("QuantizeLinear", {scaled, number(1), reshape(node.inputName(zeroIndex).str(), {})}, node.resultName(0).str());
  }

  // Adds a node of several results.
  void addNode(onnx::NodeProto made) { nodes.push_back(std::move(made)); }

  std::vector<onnx::NodeProto> take() { return std::move(nodes); }
  onnx::NodeProto &last() { return nodes.back(); }

private:
  std::string newName() { return (node.uniqueName() + "/" + Twine(nodes.size())).str(); }

  Node &node;
  std::vector<onnx::NodeProto> nodes;
};

// Fails unless inputs are integers of 8 bits.
void checkBytes(const Node &node, std::initializer_list<size_t> inputs) {
  for (size_t index : inputs) {
    Type element = node.inputType(index).getElementType();
    if (!element.isSignlessInteger(8) && !element.isUnsignedInteger(8)) {
      node.fail("input " + Twine(index) + " is " + describeTensor(node.inputType(index)) + ", not int8 or uint8");
    }
  }
}

// Whether a zero point is there and not known to be zeros.
bool hasZeroPoint(const Node &node, size_t index) {
  DenseElementsAttr known = node.hasInput(index) ? node.peekConstant(index) : DenseElementsAttr();
  return node.hasInput(index) && !(known && llvm::all_of(known.getValues<APInt>(), [](const APInt &zero) { return zero.isZero(); }));
}

// Rows of the left matrix may have zero points of their own, and columns of the right one. Bytes are multiplied as they are, and what the
// zero points add is subtracted from the sums, so that weights stay bytes:
//   (A - a) (B - b) = A B - a colsum(B) - b rowsum(A) + k a b
std::string multiply(Node &node, Composition &made, size_t a, size_t aZero, size_t b, size_t bZero, const std::string &output) {
  checkBytes(node, {a, b});
  RankedTensorType lhs = node.inputType(a), rhs = node.inputType(b);
  int64_t rows = std::max<int64_t>(0, lhs.getRank() - 2), columns = rhs.getRank() - 1;
  if (lhs.getRank() < 2 || rhs.getRank() < 2) { // sums of a vector have no dim that its zero point could be along
    return made.add("MatMul", {made.fromZero(a, aZero, rows), made.fromZero(b, bZero, columns)}, output);
  }
  std::string zeroA = hasZeroPoint(node, aZero) ? made.zeroPoint(a, aZero, rows) : "";
  std::string zeroB = hasZeroPoint(node, bZero) ? made.zeroPoint(b, bZero, columns) : "";
  std::vector<std::string> added;
  if (!zeroA.empty()) {
    added.push_back(made.add("Mul", {zeroA, made.sumAlong(b, rhs.getRank() - 2)}));
  }
  if (!zeroB.empty()) {
    std::string sums = made.sumAlong(a, lhs.getRank() - 1);
    if (!zeroA.empty()) { // of A - a
      sums = made.add("Sub", {sums, made.add("Mul", {zeroA, made.integer(lhs.getShape().back())})});
    }
    added.push_back(made.add("Mul", {zeroB, sums}));
  }
  std::string sums = made.add("MatMul", {node.inputName(a).str(), node.inputName(b).str()}, added.empty() ? output : "");
  for (size_t i = 0; i < added.size(); ++i) {
    sums = made.add("Sub", {sums, added[i]}, i + 1 == added.size() ? output : "");
  }
  return sums;
}

std::vector<onnx::NodeProto> expandMatMulInteger(Node &node) {
  Composition made(node);
  multiply(node, made, 0, 2, 1, 3, node.resultName(0).str());
  return made.take();
}

std::vector<onnx::NodeProto> expandQLinearMatMul(Node &node) {
  Composition made(node);
  std::string sums = multiply(node, made, 0, 2, 3, 5, "");
  RankedTensorType a = node.inputType(0), b = node.inputType(3);
  made.quantize(sums, made.along(1, a, std::max<int64_t>(0, a.getRank() - 2)), made.along(4, b, b.getRank() - 1), 6, 7);
  return made.take();
}

// A convolution of f64, which holds every sum of less than 2^37 products of bytes; a sum that 32 bits do not hold wraps around.
std::string convolve(Node &node, Composition &made, size_t x, size_t xZero, size_t w, size_t wZero, const std::string &output) {
  checkBytes(node, {x, w});
  if (node.hasInput(xZero) && node.inputType(xZero).getNumElements() != 1) {
    node.fail("the zero point of X is " + describeTensor(node.inputType(xZero)) + ", not one number");
  }
  constexpr auto kDouble = onnx::TensorProto::DOUBLE;
  std::string data = made.cast(made.fromZero(x, xZero, 1), kDouble), weights = made.cast(made.fromZero(w, wZero, 0), kDouble);
  std::string sums = made.add("Conv", {data, weights});
  node.copyAttributes(made.last());
  return made.cast(made.cast(sums, onnx::TensorProto::INT64), onnx::TensorProto::INT32, output);
}

std::vector<onnx::NodeProto> expandConvInteger(Node &node) {
  Composition made(node);
  convolve(node, made, 0, 2, 1, 3, node.resultName(0).str());
  return made.take();
}

std::vector<onnx::NodeProto> expandQLinearConv(Node &node) {
  Composition made(node);
  std::string sums = convolve(node, made, 0, 2, 3, 5, "");
  RankedTensorType x = node.inputType(0), weights = node.inputType(3);
  std::vector<int64_t> channels(static_cast<size_t>(weights.getRank()), 1);
  channels[1] = weights.getDimSize(0);
  if (node.hasInput(8)) {
    RankedTensorType bias = node.inputType(8);
    if (bias != RankedTensorType::get({channels[1]}, node.builder().getI32Type())) {
      node.fail("input B is " + describeTensor(bias) + ", but the result has " + Twine(channels[1]) + " channels of i32");
    }
    sums = made.add("Add", {sums, made.reshape(node.inputName(8).str(), channels)});
  }
  RankedTensorType scale = node.inputType(4);
  if (scale.getNumElements() != 1 && scale.getShape() != ArrayRef<int64_t>{channels[1]}) {
    node.fail("the scale of W is " + describeTensor(scale) + ", neither one number nor one for each of " + Twine(channels[1]) +
              " channels");
  }
  std::string ofChannels = scale.getNumElements() == 1 ? made.along(4, weights, 0) : made.reshape(node.inputName(4).str(), channels);
  made.quantize(sums, made.along(1, x, 1), ofChannels, 6, 7);
  return made.take();
}

// The range of the elements and of 0 becomes 0 to 255. A range of one number, which is 0, becomes one of 1.
std::vector<onnx::NodeProto> expandDynamicQuantizeLinear(Node &node) {
  const std::string x = node.inputName(0).str();
  if (!node.inputType(0).getElementType().isF32()) {
    node.fail("quantizes " + describeTensor(node.inputType(0)) + ", which ONNX does not; cast it to float");
  }
  Composition made(node);
  auto resultOr = [&](size_t index) { return node.hasResult(index) ? node.resultName(index).str() : std::string(); };
  auto reduced = [&](StringRef opType) {
    std::string result = made.add(opType, {x});
    setInt(made.last(), "keepdims", 0);
    return result;
  };
  std::string zero = made.number(0);
  std::string least = made.add("Min", {reduced("ReduceMin"), zero});
  std::string range = made.add("Sub", {made.add("Max", {reduced("ReduceMax"), zero}), least});
  std::string positive = made.add("Where", {made.add("Equal", {range, zero}), made.number(1), range});
  std::string scale = made.add("Div", {positive, made.number(255)}, resultOr(1));
  std::string start = made.add("Round", {made.add("Div", {made.add("Sub", {zero, least}), scale})});
  std::string zeroPoint = made.cast(start, onnx::TensorProto::UINT8, resultOr(2));
  made.add("QuantizeLinear", {x, scale, zeroPoint}, resultOr(0));
  return made.take();
}

// The weights of an LSTM, input `index` of (directions, size, 4 * hidden), as floats of (directions, 4 * hidden, size). Scale and zero
// point, the inputs `scaleIndex` and behind it, are one number or one for each direction, or one for each column of each direction.
std::string dequantize(Node &node, Composition &made, size_t index, size_t scaleIndex) {
  checkBytes(node, {index});
  RankedTensorType weights = node.inputType(index), scale = node.inputType(scaleIndex);
  if (weights.getRank() != 3) {
    node.fail("input " + Twine(index) + " is " + describeTensor(weights) + ", not (directions, size, 4 * hidden size)");
  }
  const int64_t directions = weights.getDimSize(0), columns = weights.getDimSize(2), count = scale.getNumElements();
  const bool isOfColumns = scale.getRank() == 2 && count == directions * columns;
  if (count != 1 && !isOfColumns && scale.getShape() != ArrayRef(directions)) {
    node.fail("scale of " + describeTensor(scale) + " is neither one number nor one for each of " + Twine(directions) +
              " directions or of " + Twine(columns) + " columns of " + describeTensor(weights));
  }
  const std::vector<int64_t> shape = {count == 1 ? 1 : directions, 1, isOfColumns ? columns : 1};
  constexpr auto kFloat = onnx::TensorProto::FLOAT;
  std::string number = made.cast(node.inputName(index).str(), kFloat);
  if (node.hasInput(scaleIndex + 1)) {
    RankedTensorType zero = node.inputType(scaleIndex + 1);
    if (zero != scale.clone(weights.getElementType())) {
      node.fail("the zero point is " + describeTensor(zero) + " but the scale " + describeTensor(scale) + " and the weights " +
                describeTensor(weights));
    }
    number = made.add("Sub", {number, made.reshape(made.cast(node.inputName(scaleIndex + 1).str(), kFloat), shape)});
  }
  std::string product = made.add("Mul", {number, made.reshape(node.inputName(scaleIndex).str(), shape)});
  std::string transposed = made.add("Transpose", {product});
  setInts(made.last(), "perm", {0, 2, 1});
  return transposed;
}

// com.microsoft's, whose weights are bytes. The runtime that has it quantizes the input and the state of each step, too; here they stay
// floats.
std::vector<onnx::NodeProto> expandDynamicQuantizeLstm(Node &node) {
  constexpr size_t kWScale = 8, kRScale = 10, kOfLstm = 8; // inputs of an LSTM come first
  Composition made(node);
  node.inputType(0); // a tensor
  std::vector<std::string> inputs = {node.inputName(0).str(), dequantize(node, made, 1, kWScale), dequantize(node, made, 2, kRScale)};
  for (size_t i = inputs.size(); i < kOfLstm; ++i) {
    inputs.push_back(node.hasInput(i) ? node.inputName(i).str() : "");
  }
  std::vector<std::string> results;
  for (size_t i = 0; i < node.numResults(); ++i) {
    results.push_back(node.resultName(i).str());
  }
  made.addNode(makeNode("LSTM", inputs, results, node.getPath()));
  node.copyAttributes(made.last());
  return made.take();
}

constexpr RegistryRow row(llvm::StringLiteral opType, Expander expand, unsigned knownFloats = 0) {
  return {opType, nullptr, Accepts::Any, knownFloats, /*draws=*/false, expand};
}

constexpr RegistryRow kQuantizationRows[] = {
    row("ConvInteger", expandConvInteger),
    {"DequantizeLinear", importDequantizeLinear, Accepts::Numbers},
    row("DynamicQuantizeLinear", expandDynamicQuantizeLinear),
    row("MatMulInteger", expandMatMulInteger),
    row("QLinearConv", expandQLinearConv),
    row("QLinearMatMul", expandQLinearMatMul),
    {"QuantizeLinear", importQuantizeLinear, Accepts::Numbers},
    row("com.microsoft.DynamicQuantizeLSTM", expandDynamicQuantizeLstm, /*knownFloats=*/1 << 8 | 1 << 10),
};

} // namespace

ArrayRef<RegistryRow> quantizationRows() {
  return kQuantizationRows;
}

} // namespace ashlar::frontend
