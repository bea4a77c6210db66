// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and their gradients against numbers that PyTorch 2 computed in f64: F.conv2d and its backward, of integers, so all results
// are exact. And what one convolution has in common with another.

#include "test/unit/reference/parsed_module.h"

#include "dialects/nn/nn.h"
#include "dialects/support/tensor_values.h"

#include <catch2/catch.hpp>

namespace ashlar::test::convolution_test {

using namespace mlir;
using ashlar::reference::Tensor;

namespace {

// Element i is (i * factor) mod modulus - shift.
Tensor sequence(const std::string &type, int64_t factor, int64_t modulus, int64_t shift) {
  Tensor tensor = test::tensor("dense<0.0> : " + type);
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    tensor.setFloat(i, static_cast<double>((i * factor) % modulus - shift));
  }
  return tensor;
}

Tensor convolve(const std::string &op, const Tensor &a, const Tensor &b, const std::string &result) {
  std::string types;
  llvm::raw_string_ostream(types) << a.getType() << ", " << b.getType() << " -> " << result;
  std::string text;
  llvm::raw_string_ostream(text) << "func.func @f(%a: " << a.getType() << ", %b: " << b.getType() << ") -> " << result << " { %r = nn."
                                 << op << " : " << types << "\n return %r : " << result << " }";
  OwningOpRef<ModuleOp> module = parse(text);
  return run(*module, "f", {a, b}).front();
}

bool areElements(const Tensor &tensor, const std::vector<double> &expected) {
  bool equal = tensor.getNumElements() == static_cast<int64_t>(expected.size());
  for (int64_t i = 0; equal && i < tensor.getNumElements(); ++i) {
    equal = tensor.getFloat(i) == expected[i];
  }
  return equal;
}

constexpr const char *kWindows = "windows = [#nn.window<2, stride = 2, low = 1>, #nn.window<2, stride = 2, high = 1>]";

} // namespace

TEST_CASE("a convolution with groups, and its gradients, as PyTorch computes them", "[reference][convolution]") {
  Tensor x = sequence("tensor<1x4x4x5xf64>", 7, 11, 5), w = sequence("tensor<6x2x2x2xf64>", 5, 7, 3);
  Tensor g = sequence("tensor<1x6x2x3xf64>", 3, 5, 2);
  Tensor y = convolve(std::string("conv %a, %b ") + kWindows, x, w, "tensor<1x6x2x3xf64>");
  CHECK(areElements(y, {-4, -11, 2,  38, 7,   -11, 5,  38,  4,  3,   -24, -10, -7,  -11, -1, -32, 1,  19,
                        -4, 12,  -5, -7, -24, -10, 30, -12, -1, -13, 7,   10,  -13, -15, 24, 2,   38, -12}));
  Tensor dx = convolve(std::string("conv_data %a, %b ") + kWindows, g, w, "tensor<1x4x4x5xf64>");
  CHECK(areElements(dx, {-5, 6,  8,  -3, -4, -6, 8,  -4, -2, 8,  -6, -6, 7,  -5, -5, 0,  0, 0,  0,  0, -3, 8,  6,  -5, -5, 8,  8,
                         -3, -1, -4, -6, -6, 8,  -4, -3, 0,  0,  0,  0,  0,  8,  -6, -1, 8, 0,  -3, 0, 8,  -1, -6, -4, 6,  -3, -5,
                         8,  0,  0,  0,  0,  0,  -6, -6, 7,  -5, -5, -5, -2, 7,  -2, -6, 8, -3, -4, 8, -6, 0,  0,  0,  0,  0}));
  Tensor dw = convolve(std::string("conv_weights %a, %b ") + kWindows, x, g, "tensor<6x2x2x2xf64>");
  CHECK(areElements(dw, {-12, 8,  -5, -9,  10, 2,  -21, 10, 3, 8, 0,   1, 6, -8, 8,  7,  3,  -12, 0,  16, -13, 2,   -8, -6,
                         -9,  -3, 16, -11, 7,  -3, -23, 5,  8, 4, -23, 8, 5, 1,  10, 11, 10, -4,  18, 7,  -12, -10, 13, -18}));
}

// The same numbers, with the channels behind the spatial dims.
TEST_CASE("channels last are another order of the same numbers", "[reference][convolution]") {
  Tensor x = sequence("tensor<2x4x4x5xf64>", 7, 11, 5), w = sequence("tensor<6x2x2x2xf64>", 5, 7, 3);
  Tensor y = convolve(std::string("conv %a, %b ") + kWindows, x, w, "tensor<2x6x2x3xf64>");
  auto toLast = [](const Tensor &tensor) {
    ArrayRef<int64_t> s = tensor.getShape();
    Tensor last(tensor.getType().clone({s[0], s[2], s[3], s[1]}));
    reference::forEachIndex(
        s, [&](ArrayRef<int64_t> i, int64_t from) { last.copyElement(last.linearize({i[0], i[2], i[3], i[1]}), tensor, from); });
    return last;
  };
  std::string last = std::string(" channels_last ") + kWindows;
  CHECK(reference::maxDifference(convolve("conv %a, %b" + last, toLast(x), w, "tensor<2x2x3x6xf64>"), toLast(y)) == 0);
  Tensor dx = convolve(std::string("conv_data %a, %b ") + kWindows, y, w, "tensor<2x4x4x5xf64>");
  CHECK(reference::maxDifference(convolve("conv_data %a, %b" + last, toLast(y), w, "tensor<2x4x5x4xf64>"), toLast(dx)) == 0);
  Tensor dw = convolve(std::string("conv_weights %a, %b ") + kWindows, x, y, "tensor<6x2x2x2xf64>");
  CHECK(reference::maxDifference(convolve("conv_weights %a, %b" + last, toLast(x), toLast(y), "tensor<6x2x2x2xf64>"), dw) == 0);
  std::string both = std::string(" channels_last weights_last ") + kWindows;
  CHECK(reference::maxDifference(convolve("conv %a, %b" + both, toLast(x), toLast(w), "tensor<2x2x3x6xf64>"), toLast(y)) == 0);
  CHECK(reference::maxDifference(convolve("conv_data %a, %b" + both, toLast(y), toLast(w), "tensor<2x4x5x4xf64>"), toLast(dx)) == 0);
  CHECK(reference::maxDifference(convolve("conv_weights %a, %b" + both, toLast(x), toLast(y), "tensor<6x2x2x2xf64>"), toLast(dw)) == 0);
}

// A NaN or an infinity goes to the windows that hold it, and to no others.
TEST_CASE("special values stay in their windows", "[reference][convolution]") {
  Tensor x = tensor("dense<[[[1.0, 0x7FC00000, 1.0, 1.0, 0x7F800000]]]> : tensor<1x1x5xf32>");
  Tensor w = tensor("dense<1.0> : tensor<1x1x2xf32>");
  Tensor y = convolve("conv %a, %b windows = [#nn.window<2>]", x, w, "tensor<1x1x4xf32>");
  CHECK((std::isnan(y.getFloat(0)) && std::isnan(y.getFloat(1)) && y.getFloat(2) == 2 && std::isinf(y.getFloat(3))));
}

// What an op adds up, whatever its groups; the estimate of an op on pieces asks with the types of pieces.
TEST_CASE("products of a convolution are counted", "[reference][convolution]") {
  OwningOpRef<ModuleOp> module = parse(R"(func.func @f(%x: tensor<8x4x32xf32>, %w: tensor<6x2x3xf32>, %y: tensor<8x6x16xf32>) {
    %0 = nn.conv %x, %w windows = [#nn.window<3, stride = 2, low = 1>] : tensor<8x4x32xf32>, tensor<6x2x3xf32> -> tensor<8x6x16xf32>
    %1 = nn.conv_data %y, %w windows = [#nn.window<3, stride = 2, low = 1>] : tensor<8x6x16xf32>, tensor<6x2x3xf32> -> tensor<8x4x32xf32>
    %2 = nn.conv_weights %x, %y windows = [#nn.window<3, stride = 2, low = 1>] : tensor<8x4x32xf32>, tensor<8x6x16xf32> -> tensor<6x2x3xf32>
    return })");
  int ops = 0;
  module->walk([&](ContractionOpInterface op) {
    auto types = [](ValueRange values, int64_t batch) {
      return llvm::map_to_vector(values, [&](Value value) {
        SmallVector<int64_t> shape(shapeOf(value));
        shape[0] = shape[0] == 8 ? batch : shape[0];
        return typeOf(value).clone(shape);
      });
    };
    CHECK(op.countProducts(types(op->getOperands(), 8), types(op->getResults(), 8)) == 8 * 6 * 16 * 2 * 3);
    CHECK(op.countProducts(types(op->getOperands(), 2), types(op->getResults(), 2)) == 2 * 6 * 16 * 2 * 3);
    ++ops;
  });
  CHECK(ops == 3);
}

} // namespace ashlar::test::convolution_test
