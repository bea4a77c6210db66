// SPDX-License-Identifier: Apache-2.0
//
// Quantization against numbers of ONNX's reference evaluator, which are those of its own examples, and rules of the text.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <cmath>

namespace ashlar::test::quantization_test {

using onnx::TensorProto;

namespace {

using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

struct Operand {
  int32_t type;
  Ints shape;
  Doubles values;
};

constexpr int32_t kFloat = TensorProto::FLOAT, kByte = TensorProto::UINT8, kSigned = TensorProto::INT8;

// A model of one node whose operands are inputs, so that the node is not computed at import.
OnnxModel model(const std::string &op, const std::vector<Operand> &operands, std::vector<Attribute> attributes = {}, int64_t opset = 21,
                size_t results = 1) {
  OnnxModel built(opset);
  std::vector<std::string> inputs, outputs;
  for (const Operand &operand : operands) {
    inputs.push_back(operand.type == 0 ? "" : "x" + std::to_string(inputs.size()));
    if (operand.type != 0) {
      built.input(inputs.back(), {operand.shape.begin(), operand.shape.end()}, operand.type);
    }
  }
  for (size_t i = 0; i < results; ++i) {
    outputs.push_back("y" + std::to_string(i));
  }
  built.node(op, inputs, outputs, std::move(attributes));
  for (const std::string &output : outputs) {
    built.output(output);
  }
  return built;
}

mlir::Type typeOf(int32_t type) {
  auto integer = [](unsigned width, bool isUnsigned) {
    return mlir::IntegerType::get(&context(), width, isUnsigned ? mlir::IntegerType::Unsigned : mlir::IntegerType::Signless);
  };
  switch (type) {
  case TensorProto::FLOAT16:
    return mlir::Float16Type::get(&context());
  case TensorProto::INT8:
    return integer(8, false);
  case TensorProto::UINT8:
    return integer(8, true);
  case TensorProto::INT16:
    return integer(16, false);
  case TensorProto::UINT16:
    return integer(16, true);
  case TensorProto::INT32:
    return integer(32, false);
  default:
    return mlir::Float32Type::get(&context());
  }
}

std::vector<ashlar::reference::Tensor> run(const std::string &op, const std::vector<Operand> &operands,
                                           std::vector<Attribute> attributes = {}, int64_t opset = 21, size_t results = 1) {
  std::vector<ashlar::reference::Tensor> inputs;
  for (const Operand &operand : operands) {
    if (operand.type != 0) {
      inputs.push_back(makeTensor(typeOf(operand.type), operand.shape, operand.values));
    }
  }
  return evaluate(model(op, operands, std::move(attributes), opset, results), std::move(inputs));
}

// The result of QuantizeLinear of numbers in one row.
bool quantizes(Doubles x, double scale, Operand zero, const Doubles &expected) {
  const int64_t size = static_cast<int64_t>(x.size());
  return holds(run("QuantizeLinear", {{kFloat, {size}, std::move(x)}, {kFloat, {}, {scale}}, std::move(zero)})[0], {size}, expected);
}

const Operand kNone{0, {}, {}};

} // namespace

TEST_CASE("onnx QuantizeLinear of a tensor", "[frontend][quantization]") {
  CHECK(quantizes({0, 2, 3, 1000, -254, -1000}, 2, {kByte, {}, {128}}, {128, 129, 130, 255, 1, 0}));
  CHECK(quantizes({0, 2, 3, 1000, -254}, 2, kNone, {0, 1, 2, 255, 0}));
  CHECK(quantizes({0.5, 1.5, 2.5, -0.5, -1.5, -2.5}, 1, {kSigned, {}, {1}}, {1, 3, 3, 1, -1, -1})); // ties to even, then the zero point
  CHECK(quantizes({0, -514, 3, -3, 2.9, -2.9, 3.1, -3.1, 65022, -66046, 65023, -66047}, 2, {TensorProto::INT16, {}, {256}},
                  {256, -1, 258, 254, 257, 255, 258, 254, 32767, -32767, 32767, -32768}));
  CHECK(quantizes({0, -128, 3, -3, 2.9, -2.9, 65536, -65534, 70000, -70000}, 2, {TensorProto::UINT16, {}, {32767}},
                  {32767, 32703, 32769, 32765, 32768, 32766, 65535, 0, 65535, 0}));
}

TEST_CASE("onnx QuantizeLinear of special numbers", "[frontend][quantization]") {
  CHECK(quantizes({INFINITY, -INFINITY, 1e30, -1e30, NAN, -0.0}, 0.5, {kSigned, {}, {3}}, {127, -128, 127, -128, 0, 3}));
  CHECK(holds(run("QuantizeLinear", {{kFloat, {0}, {}}, {kFloat, {}, {1}}})[0], {0}, {}));
  CHECK(holds(run("QuantizeLinear", {{kFloat, {}, {7}}, {kFloat, {}, {2}}})[0], {}, {4}));
}

TEST_CASE("onnx QuantizeLinear along an axis and in blocks", "[frontend][quantization]") {
  const Operand x{kFloat, {1, 3, 3, 2}, {-162, 10, -100, 232, -20, -50, -76, 0, 0, 252, 32, -44, 245, -485, -960, -270, -375, -470}};
  const Operand scale{kFloat, {3}, {2, 4, 5}}, zero{kByte, {3}, {84, 24, 196}};
  const Doubles expected = {3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 245, 99, 4, 142, 121, 102};
  CHECK(holds(run("QuantizeLinear", {x, scale, zero}, {}, 13)[0], x.shape, expected));
  CHECK(holds(run("QuantizeLinear", {x, scale, zero}, {{"axis", int64_t(-3)}})[0], x.shape, expected));
  const Operand rows{kFloat, {3, 4}, {6, 12, 50, 5, 50, 1, 4, -6, 1, 2, -90, 4}}, blocks{kFloat, {3, 2}, {1.5, 2.5, 3, 4.9, 5.1, 6.9}};
  CHECK(holds(
      run("QuantizeLinear", {rows, blocks, {kByte, {3, 2}, {0, 1, 1, 0, 2, 3}}}, {{"axis", int64_t(1)}, {"block_size", int64_t(2)}})[0],
      {3, 4}, {4, 8, 21, 3, 18, 1, 1, 0, 2, 2, 0, 4}));
  // The last block of a row has one element.
  CHECK(holds(run("QuantizeLinear", {rows, blocks},
                  {{"axis", int64_t(1)}, {"block_size", int64_t(3)}, {"output_dtype", int64_t(TensorProto::INT16)}})[0],
              {3, 4}, {4, 8, 33, 2, 17, 0, 1, -1, 0, 0, -18, 1}));
}

// f16 holds no 2049.
TEST_CASE("onnx QuantizeLinear divides in the type of the scale or in that of precision", "[frontend][quantization]") {
  const Operand x{kFloat, {2}, {2049, 3}}, scale{TensorProto::FLOAT16, {}, {1}}, zero{TensorProto::INT16, {}, {0}};
  CHECK(holds(run("QuantizeLinear", {x, scale, zero}, {}, 23)[0], {2}, {2048, 3}));
  CHECK(holds(run("QuantizeLinear", {x, scale, zero}, {{"precision", int64_t(TensorProto::FLOAT)}}, 23)[0], {2}, {2049, 3}));
  const Operand half{TensorProto::FLOAT16, {3}, {1.5, -2.5, 65504}};
  CHECK(holds(run("QuantizeLinear", {half, {TensorProto::FLOAT16, {}, {0.5}}, {kSigned, {}, {1}}})[0], {3}, {4, -4, 127}));
  const Operand ints{TensorProto::INT32, {3}, {-7, 100, 2000000}};
  const Operand wholes{TensorProto::INT32, {5}, {-7, 9, 100, 2147483647, -2147483647}}, by{TensorProto::INT32, {}, {6}};
  CHECK(holds(run("QuantizeLinear", {wholes, by, {kSigned, {}, {3}}}, {}, 19)[0], {5}, {2, 5, 20, 127, -128})); // ONNX's reference
  const Operand large{TensorProto::INT32, {1}, {2147483647}}, share{TensorProto::INT32, {}, {858993458}};       // f32 holds neither
  CHECK(holds(run("QuantizeLinear", {large, share, {kSigned, {}, {0}}}, {}, 21)[0], {1}, {3}));
  CHECK(holds(run("QuantizeLinear", {{kFloat, {3}, {7.5, 3, -1e9}}, by, {kByte, {}, {1}}}, {}, 23)[0], {3}, {2, 1, 0}));
  CHECK(holds(run("QuantizeLinear", {ints, {kFloat, {}, {2}}, {kByte, {}, {10}}}, {}, 10)[0], {3}, {6, 60, 255}));
}

TEST_CASE("onnx DequantizeLinear", "[frontend][quantization]") {
  CHECK(holds(run("DequantizeLinear", {{kByte, {4}, {0, 3, 128, 255}}, {kFloat, {}, {2}}, {kByte, {}, {128}}}, {}, 10)[0], {4},
              {-256, -250, 0, 254}));
  const Operand x{kByte, {1, 3, 3, 2}, {3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 245, 99, 4, 142, 121, 102}};
  CHECK(holds(run("DequantizeLinear", {x, {kFloat, {3}, {2, 4, 5}}, {kByte, {3}, {84, 24, 196}}}, {}, 13)[0], x.shape,
              {-162, 10, -100, 232, -20, -50, -76, 0, 0, 252, 32, -44, 245, -485, -960, -270, -375, -470}));
  const Operand rows{TensorProto::INT16, {2, 3}, {3, 89, 34, 200, 74, 59}};
  CHECK(holds(run("DequantizeLinear", {rows, {kFloat, {2, 2}, {2, 0.5, 4, 5}}, {TensorProto::INT16, {2, 2}, {8, 2, -4, 9}}},
                  {{"axis", int64_t(1)}, {"block_size", int64_t(2)}})[0],
              {2, 3}, {-10, 162, 16, 816, 312, 250}));
  CHECK(holds(run("DequantizeLinear", {{TensorProto::INT32, {2}, {-3, 100000}}, {kFloat, {}, {0.5}}})[0], {2}, {-1.5, 50000}));
  auto half =
      run("DequantizeLinear", {{kSigned, {2}, {-128, 127}}, {kFloat, {}, {0.1}}}, {{"output_dtype", int64_t(TensorProto::FLOAT16)}}, 23)[0];
  CHECK(half.getType().getElementType().isF16());
  CHECK(holds(half, {2}, {-12.796875, 12.703125})); // the nearest of f16
}

TEST_CASE("onnx quantization of what does not fit", "[frontend][quantization]") {
  const Operand x{kFloat, {2, 3}, {}}, scale{kFloat, {}, {}};
  CHECK_THAT(importError(model("QuantizeLinear", {x, {kFloat, {2}, {}}})),
             contains("scale or zero point of [2] of f32 but [2, 3] of f32 needs [3] of f32 along axis 1"));
  CHECK_THAT(importError(model("QuantizeLinear", {x, {kFloat, {2, 3}, {}}}, {{"block_size", int64_t(2)}})),
             contains("scale or zero point of [2, 3] of f32 but [2, 3] of f32 needs [2, 2] of f32 along axis 1 in blocks of 2"));
  CHECK_THAT(importError(model("QuantizeLinear", {x, scale, {kByte, {1}, {}}})),
             contains("the zero point is [1] of u8 but the scale [] of f32 and the integers are u8"));
  CHECK_THAT(importError(model("QuantizeLinear", {x, scale}, {{"output_dtype", int64_t(17)}})), contains("FLOAT8E4M3FN is not supported"));
  CHECK_THAT(importError(model("QuantizeLinear", {x, scale}, {{"output_dtype", int64_t(TensorProto::INT32)}})),
             contains("quantizes to i32, which is not supported; use int8, uint8, int16 or uint16"));
  CHECK_THAT(importError(model("QuantizeLinear", {{TensorProto::INT32, {2}, {}}, {TensorProto::INT64, {}, {}}})),
             contains("divides by a scale of i64 in i64, which is not supported; use float, float16, bfloat16 or a scale of int32"));
  CHECK_THAT(importError(model("DequantizeLinear", {{kByte, {2}, {}}, scale, {kSigned, {}, {}}})),
             contains("the zero point is [] of i8 but the scale [] of f32 and the integers are u8"));
  CHECK_THAT(importError(model("MatMulInteger", {{TensorProto::INT32, {2, 2}, {}}, {kByte, {2, 2}, {}}})),
             contains("input 0 is [2, 2] of i32, not int8 or uint8"));
  CHECK_THAT(importError(model("MatMulInteger", {{kByte, {2, 2}, {}}, {kByte, {2, 2}, {}}, {kByte, {3}, {}}})),
             contains("scale or zero point of [3] of u8 is neither one number nor one for each index of axis 0 of [2, 2] of u8"));
}

TEST_CASE("onnx DynamicQuantizeLinear", "[frontend][quantization]") {
  auto check = [](Ints shape, Doubles x, const Doubles &y, double scale, double zero) {
    auto results = run("DynamicQuantizeLinear", {{kFloat, shape, std::move(x)}}, {}, 11, 3);
    CHECK(holds(results[0], shape, y));
    CHECK(holds(results[1], {}, {scale}));
    CHECK(holds(results[2], {}, {zero}));
  };
  check({6}, {0, 2, -3, -2.5, 1.34, 0.5}, {153, 255, 0, 26, 221, 179}, 0.019607843831181526, 153);
  check({6}, {-1, -2.1, -1.3, -2.5, -3.34, -4}, {191, 121, 172, 96, 42, 0}, 0.01568627543747425, 255);
  check({3, 4}, {1, 2.1, 1.3, 2.5, 3.34, 4, 1.5, 2.6, 3.9, 4, 3, 2.345}, {64, 134, 83, 159, 213, 255, 96, 166, 249, 255, 191, 149},
        0.01568627543747425, 0);
  check({2}, {0, 0}, {0, 0}, 0.003921568859368563, 0);
}

// The same as an LSTM of the weights that the bytes stand for; scales of all numbers, of directions, of columns.
TEST_CASE("com.microsoft DynamicQuantizeLSTM is an LSTM of floats", "[frontend][quantization]") {
  const std::vector<double> bytes = {12, 3, 250, 7, 100, 128, 60, 33}, zeros = {100, 90, 1, 20, 100, 120, 50, 30};
  const std::vector<double> scales = {0.01, 0.02, 0.0625, 0.03, 0.005, 0.01, 0.04, 0.02}, x = {0.5, -1, 2, 0.25, 1, -0.75};
  auto compare = [&](int64_t directions, std::vector<int64_t> shape, bool hasZeros, int32_t type = kByte) { // of scales
    auto numberOf = [&](double byte) { return type == kSigned && byte > 127 ? byte - 256 : byte; };
    const int64_t columns = 4, count = llvm::product_of(shape);
    OnnxModel quantized = OnnxModel(17).input("x", {3, 2, 1}), plain = OnnxModel(17).input("x", {3, 2, 1});
    std::vector<double> weights; // (directions, columns, 1)
    for (int64_t i = 0; i < directions * columns; ++i) {
      const int64_t at = count == 1 ? 0 : count == directions ? i / columns : i;
      weights.push_back((numberOf(bytes[i]) - (hasZeros ? zeros[at] : 0)) * scales[at]);
    }
    auto list = [&](std::vector<double> from, int64_t size, bool isByte = false) {
      from.resize(static_cast<size_t>(size));
      llvm::transform(from, from.begin(), [&](double number) { return isByte ? numberOf(number) : number; });
      return from;
    };
    for (const std::string name : {"w", "r"}) {
      quantized.initializer(name, type, {directions, 1, columns}, list(bytes, directions * columns, /*isByte=*/true));
      quantized.initializer(name + "s", kFloat, shape, list(scales, count)).initializer(name + "z", type, shape, list(zeros, count));
      plain.initializer(name, kFloat, {directions, columns, 1}, weights);
    }
    const std::vector<Attribute> attributes = {{"direction", std::string(directions == 2 ? "bidirectional" : "forward")}};
    std::vector<std::string> inputs = {"x", "w", "r", "", "", "", "", "", "ws", hasZeros ? "wz" : "", "rs", hasZeros ? "rz" : ""};
    quantized.node("com.microsoft.DynamicQuantizeLSTM", inputs, {"y", "h", "c"}, attributes).output("y").output("c");
    plain.node("LSTM", {"x", "w", "r"}, {"y", "h", "c"}, attributes).output("y").output("c");
    for (size_t result : {0, 1}) {
      auto expected = evaluate(plain, {f32({3, 2, 1}, x)})[result];
      std::vector<double> numbers;
      for (int64_t i = 0; i < expected.getNumElements(); ++i) {
        numbers.push_back(expected.getNumber(i));
      }
      CHECK(holds(evaluate(quantized, {f32({3, 2, 1}, x)})[result], expected.getShape().vec(), numbers));
    }
    return print(*import(quantized));
  };
  CHECK_THAT(compare(1, {1}, true), !contains("nn.variable")); // the scales are set
  compare(1, {1}, false);
  compare(2, {2}, true);
  compare(1, {1, 4}, true);
  compare(2, {2, 4}, false);
  compare(1, {1}, false, kSigned);
  compare(2, {2, 4}, true, kSigned);
}

TEST_CASE("com.microsoft DynamicQuantizeLSTM refuses what does not fit", "[frontend][quantization]") {
  auto errorOf = [](int32_t type, std::vector<int64_t> shape, std::vector<int64_t> scales, std::optional<int32_t> zero = {}) {
    auto ones = [](const std::vector<int64_t> &of) { return std::vector<double>(static_cast<size_t>(llvm::product_of(of)), 1); };
    OnnxModel model = OnnxModel(17).input("x", {3, 2, 1}).initializer("w", type, shape, ones(shape));
    model.initializer("s", kFloat, scales, ones(scales)).initializer("z", zero.value_or(kByte), scales, ones(scales));
    std::vector<std::string> inputs = {"x", "w", "w", "", "", "", "", "", "s", zero ? "z" : "", "s"};
    return importError(model.node("com.microsoft.DynamicQuantizeLSTM", inputs, {"y"}).output("y"));
  };
  CHECK_THAT(errorOf(kByte, {1, 1, 4}, {3}),
             contains("scale of [3] of f32 is neither one number nor one for each of 1 directions or of 4 columns"));
  CHECK_THAT(errorOf(kFloat, {1, 1, 4}, {1}), contains("input 1 is [1, 1, 4] of f32, not int8 or uint8"));
  CHECK_THAT(errorOf(kByte, {1, 4}, {1}), contains("input 1 is [1, 4] of u8, not (directions, size, 4 * hidden size)"));
  CHECK_THAT(errorOf(kByte, {1, 1, 4}, {1}, kSigned), contains("the zero point is [1] of i8 but the scale [1] of f32"));
  CHECK_THAT(errorOf(kByte, {1, 2, 8}, {1}), contains("input W is [1, 8, 2] of f32 but X is [3, 2, 1] of f32"));
}

TEST_CASE("onnx MatMulInteger", "[frontend][quantization]") {
  const Operand a{kByte, {4, 3}, {11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0}}, b{kByte, {3, 2}, {1, 4, 2, 5, 3, 6}};
  CHECK(holds(run("MatMulInteger", {a, b, {kByte, {1}, {12}}, {kByte, {1}, {0}}}, {}, 10)[0], {4, 2},
              {-38, -83, -44, -98, -50, -113, -56, -128}));
  // A zero point for each row, and for each column of integers of the other sign.
  const Operand mixed{kSigned, {3, 2}, b.values};
  CHECK(holds(run("MatMulInteger", {a, mixed, {kByte, {4}, {1, 2, 3, 4}}, {kSigned, {2}, {-1, 2}}}, {}, 10)[0], {4, 2},
              {46, 46, 28, 28, 10, 10, -8, -8}));
  CHECK(holds(run("MatMulInteger", {{kByte, {3}, {255, 255, 255}}, {kSigned, {3}, {-128, -128, 127}}}, {}, 10)[0], {}, {-32895}));
}

TEST_CASE("onnx ConvInteger", "[frontend][quantization]") {
  const Operand x{kByte, {1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}}, ones{kByte, {1, 1, 2, 2}, {1, 1, 1, 1}}, zero{kByte, {}, {1}};
  CHECK(holds(run("ConvInteger", {x, ones, zero}, {}, 10)[0], {1, 1, 2, 2}, {12, 16, 24, 28}));
  CHECK(holds(run("ConvInteger", {x, ones, zero}, {{"pads", Ints{1, 1, 1, 1}}}, 10)[0], {1, 1, 4, 4},
              {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9}));
  const Operand weights{kSigned, {2, 1, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  CHECK(holds(run("ConvInteger", {x, weights, zero, {kSigned, {2}, {1, -2}}}, {}, 10)[0], {1, 2, 2, 2},
              {25, 31, 43, 49, 109, 143, 211, 245}));
  CHECK_THAT(importError(model("ConvInteger", {x, ones, {kByte, {2}, {}}})), contains("the zero point of X is [2] of u8, not one number"));
}

TEST_CASE("onnx QLinearMatMul", "[frontend][quantization]") {
  const Operand y{kFloat, {}, {0.0107}}, scaleA{kFloat, {}, {0.0066}}, scaleB{kFloat, {}, {0.00705}};
  CHECK(holds(run("QLinearMatMul",
                  {{kByte, {2, 4}, {208, 236, 0, 238, 3, 214, 255, 29}},
                   scaleA,
                   {kByte, {}, {113}},
                   {kByte, {4, 3}, {152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247}},
                   scaleB,
                   {kByte, {}, {114}},
                   y,
                   {kByte, {}, {118}}},
                  {}, 10)[0],
              {2, 3}, {168, 115, 255, 1, 66, 151}));
  CHECK(holds(run("QLinearMatMul",
                  {{kSigned, {2, 4}, {81, 109, -127, 111, -124, 87, -128, -98}},
                   scaleA,
                   {kSigned, {}, {-14}},
                   {kSigned, {4, 3}, {25, -76, 117, -67, -101, -128, -127, 0, 119, 0, 127, 120}},
                   scaleB,
                   {kSigned, {}, {-13}},
                   y,
                   {kSigned, {}, {-9}}},
                  {}, 21)[0],
              {2, 3}, {41, -12, -9, 1, -75, -128}));
}

TEST_CASE("onnx QLinearConv", "[frontend][quantization]") {
  const Operand x{kByte, {1, 1, 3, 3}, {255, 174, 162, 15, 59, 237, 56, 242, 153}};
  // Two channels, each with a scale, a zero point and a bias of its own. The first sum is -312, of which -19.5 is left: it becomes -20
  // before the zero point is added, as in QuantizeLinear and in ONNX Runtime; ONNX's reference evaluator rounds behind it, to -12.
  CHECK(holds(run("QLinearConv",
                  {x,
                   {kFloat, {}, {0.5}},
                   {kByte, {}, {100}},
                   {kSigned, {2, 1, 2, 2}, {1, -2, 3, 4, -5, 6, 7, 8}},
                   {kFloat, {2}, {0.25, 0.125}},
                   {kSigned, {2}, {0, 1}},
                   {kFloat, {}, {2}},
                   {kSigned, {}, {7}},
                   {TensorProto::INT32, {2}, {100, -50}}},
                  {}, 10)[0],
              {1, 2, 2, 2}, {-13, 37, 40, 33, -37, 24, 38, 73}));
  CHECK(holds(run("QLinearConv",
                  {x,
                   {kFloat, {}, {0.00369204697}},
                   {kByte, {}, {132}},
                   {kByte, {1, 1, 1, 1}, {0}},
                   {kFloat, {1}, {0.00172794575}},
                   {kByte, {1}, {255}},
                   {kFloat, {}, {0.00162681262}},
                   {kByte, {}, {123}}},
                  {}, 10)[0],
              {1, 1, 3, 3}, {0, 81, 93, 240, 196, 18, 199, 13, 102}));
}

} // namespace ashlar::test::quantization_test
