// SPDX-License-Identifier: Apache-2.0
//
// Conv and ConvTranspose against numbers that PyTorch 2 computed in f64 (F.pad, F.conv2d, F.conv_transpose2d, ...; cut or padded where ONNX
// has attributes that PyTorch lacks), of integers, so all of them are exact; and what is refused.

#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

namespace ashlar::test::convolution_test {

using onnx::TensorProto;

namespace {

using Ints = std::vector<int64_t>;

// Element i is (i * factor) mod modulus - shift.
std::vector<double> sequence(const Ints &shape, int64_t factor, int64_t modulus, int64_t shift) {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>((i * factor) % modulus - shift));
  }
  return values;
}

OnnxModel makeModel(const std::string &op, const Ints &x, const Ints &w, const Ints &bias, std::vector<Attribute> attributes,
                    int64_t opset = 17) {
  OnnxModel model(opset);
  model.input("x", std::vector<Dim>(x.begin(), x.end())).initializer("w", TensorProto::FLOAT, w, sequence(w, 5, 7, 3));
  std::vector<std::string> inputs = {"x", "w"};
  if (!bias.empty()) {
    model.initializer("b", TensorProto::FLOAT, bias, sequence(bias, 3, 5, 2));
    inputs.push_back("b");
  }
  return model.node(op, inputs, {"y"}, std::move(attributes), "layer").output("y");
}

ashlar::reference::Tensor convolve(const std::string &op, const Ints &x, const Ints &w, bool hasBias, std::vector<Attribute> attributes,
                                   int64_t opset = 17) {
  int64_t groups = 1;
  for (const Attribute &attribute : attributes) {
    groups = attribute.name == "group" ? std::get<int64_t>(attribute.value) : groups;
  }
  Ints bias = hasBias ? Ints{op == "Conv" ? w[0] : w[1] * groups} : Ints{};
  return evaluate(makeModel(op, x, w, bias, std::move(attributes), opset), {f32(x, sequence(x, 7, 11, 5))})[0];
}

std::string errorOf(const std::string &op, const Ints &x, const Ints &w, std::vector<Attribute> attributes, const Ints &bias = {}) {
  return importError(makeModel(op, x, w, bias, std::move(attributes)));
}

} // namespace

TEST_CASE("onnx Conv", "[frontend][convolution]") {
  // Groups, strides, padding of another size at each side.
  CHECK(holds(
      convolve("Conv", {1, 4, 4, 5}, {6, 2, 2, 2}, true, {{"group", int64_t(2)}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 1}}}, 7),
      {1, 6, 2, 3}, {-6, -13, 0,  36, 5,   -13, 6,  39,  5,  4,   -23, -9, -8,  -12, -2, -33, 0,  18,
                     -2, 14,  -3, -5, -22, -8,  30, -12, -1, -13, 7,   10, -15, -17, 22, 0,   36, -14}));
  // Dilations; kernel_shape repeats what the weights say.
  CHECK(holds(convolve("Conv", {2, 2, 5, 5}, {3, 2, 3, 2}, false,
                       {{"kernel_shape", Ints{3, 2}}, {"dilations", Ints{2, 3}}, {"strides", Ints{1, 2}}, {"pads", Ints{0, 2, 1, 0}}}, 11),
              {2, 3, 2, 2}, {4, 18, 5, 20, -24, 19, 5, -16, 18, -1, 5, 4, -20, -15, 11, 8, 4, 32, -26, 19, 7, -19, 14, 9}));
  // Depthwise: a group for each channel.
  CHECK(holds(
      convolve("Conv", {1, 3, 3, 4}, {6, 1, 2, 3}, false, {{"group", int64_t(3)}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}}, 22),
      {1, 6, 2, 4}, {-13, 14,  -5, 19,  -7, 7,   3, -25, 16, -10, 19,  -10, 8, 7, -22, 6,  4,   -6,  -6, 10, -7, 9,   10, -6,
                     4,   -10, 16, -13, -1, -16, 9, 15,  16, -11, -14, 8,   5, 8, -14, 21, -13, -10, 13, 4,  8,  -14, 16, -2}));
  // 1 and 3 spatial dims.
  CHECK(holds(convolve("Conv", {2, 3, 6}, {2, 3, 3}, true, {{"strides", Ints{2}}, {"pads", Ints{1, 2}}}), {2, 2, 4},
              {-10, -32, -13, 13, 17, 9, 3, 4, 15, -4, 4, -6, -30, 21, 4, -3}));
  CHECK(holds(convolve("Conv", {1, 2, 3, 3, 3}, {2, 2, 2, 1, 2}, false, {{"strides", Ints{1, 2, 1}}, {"pads", Ints{1, 0, 0, 1, 0, 0}}}),
              {1, 2, 4, 2, 2}, {-13, 0,   -1, 12,  8,   20,  -19, 4,  17,  -26, 1,  2, -4, 17,  12, -22,
                                33,  -22, 11, -22, -39, -14, -21, 15, -12, 35,  17, 9, 4,  -15, 0,  3}));
}

TEST_CASE("onnx Conv with auto_pad", "[frontend][convolution]") {
  // 5 / 2 positions, rounded up: 3 elements of padding, one more behind or in front.
  CHECK(holds(convolve("Conv", {1, 1, 5}, {1, 1, 4}, false, {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}}), {1, 1, 3},
              {-6, -12, -13}));
  CHECK(holds(convolve("Conv", {1, 1, 5}, {1, 1, 4}, false, {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_LOWER")}}), {1, 1, 3},
              {-4, 9, 16}));
  CHECK(holds(convolve("Conv", {1, 1, 5}, {1, 1, 4}, false, {{"strides", Ints{2}}, {"auto_pad", std::string("VALID")}}), {1, 1, 1}, {9}));
  // Padding that is not needed is not negative.
  CHECK(holds(convolve("Conv", {1, 1, 5}, {1, 1, 1}, false, {{"strides", Ints{3}}, {"auto_pad", std::string("SAME_UPPER")}}), {1, 1, 2},
              {15, -15}));
}

TEST_CASE("onnx ConvTranspose", "[frontend][convolution]") {
  CHECK(holds(convolve("ConvTranspose", {1, 4, 2, 3}, {4, 2, 3, 2}, true,
                       {{"group", int64_t(2)},
                        {"strides", Ints{2, 3}},
                        {"pads", Ints{1, 0, 1, 0}},
                        {"output_padding", Ints{1, 2}},
                        {"dilations", Ints{1, 2}}},
                       7),
              {1, 4, 4, 11},
              {-14, -2,  16, -2, -2, -6,  10, -2, -6, -2,  -2, -29, -2,  -8,  0,  -2,  3,  -4, -2,  3,  -2,  -2,  -11, -2,  -6, 1,
               -2,  -6,  13, -2, -6, -2,  -2, 13, -2, -3,  1,  -2,  1,   -11, -2, 5,   -2, -2, -13, 1,  -11, 5,   1,   1,   1,  1,
               13,  1,   1,  23, 1,  -26, -7, 1,  3,  -15, 1,  -1,  1,   1,   8,  1,   -8, 4,  1,   4,  0,   1,   16,  1,   1,  -3,
               1,   16,  -3, 1,  4,  -3,  1,  -8, 1,  1,   1,  -1,  -3,  5,   -1, -11, -2, -1, 3,   -1, -1,  -11, -1,  6,   -3, -1,
               -10, -17, -1, 18, -1, -1,  2,  -1, -5, 6,   -1, -13, -1,  -1,  1,  -1,  -1, -5, -1,  2,  3,   -1,  -2,  -11, -1, 5,
               -1,  -1,  8,  2,  4,  -4,  2,  8,  17, 2,   1,  2,   2,   3,   2,  -8,  7,  2,  0,   0,  2,   -14, 2,   2,   5,  2,
               5,   -7,  2,  9,  14, 2,   2,  2,  2,  -2,  2,  -2,  -10, 2,   6,  4,   2,  -8, 2,   2}));
  // 1 and 3 spatial dims.
  CHECK(holds(convolve("ConvTranspose", {2, 2, 3}, {2, 3, 3}, false, {{"strides", Ints{2}}, {"kernel_shape", Ints{3}}}, 22), {2, 3, 7},
              {15,  -20, 9, 2, 9, 2, -9,  15, -20, -23, 5, 0, -3, 7,  15, 15,  -20, -6, -2, 6,  2,
               -12, 2,   9, 2, 9, 2, -15, -5, 9,   -6,  1, 6, -7, 11, 2,  -12, 0,   0,  -4, 12, 2}));
  CHECK(holds(convolve("ConvTranspose", {1, 2, 2, 1, 2}, {2, 1, 2, 2, 1}, true, {{"strides", Ints{1, 2, 2}}}), {1, 1, 3, 2, 3},
              {16, -2, -17, -11, -2, -1, 15, -2, -14, 5, -2, 13, -6, -2, -2, -10, -2, -12}));
  // Padding of another size at each side.
  CHECK(holds(convolve("ConvTranspose", {1, 2, 4}, {2, 1, 4}, false, {{"strides", Ints{2}}, {"pads", Ints{1, 2}}}, 11), {1, 1, 7},
              {-9, -16, 8, 21, 5, -19, 2}));
}

TEST_CASE("onnx ConvTranspose with auto_pad or output_shape", "[frontend][convolution]") {
  // 2 * 4 elements: 3 of the 11 go, one more behind or in front.
  CHECK(holds(convolve("ConvTranspose", {1, 1, 4}, {1, 1, 5}, false, {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}}),
              {1, 1, 8}, {-10, -6, 14, -9, -8, -9, 14, -6}));
  CHECK(holds(convolve("ConvTranspose", {1, 1, 4}, {1, 1, 5}, false, {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_LOWER")}}),
              {1, 1, 8}, {-6, 14, -9, -8, -9, 14, -6, -10}));
  CHECK(holds(convolve("ConvTranspose", {1, 1, 4}, {1, 1, 5}, false, {{"strides", Ints{2}}, {"auto_pad", std::string("VALID")}}),
              {1, 1, 11}, {15, -10, -6, 14, -9, -8, -9, 14, -6, -10, 15}));
  // pads do not count where there is an output_shape.
  CHECK(
      holds(convolve("ConvTranspose", {1, 1, 4}, {1, 1, 5}, false, {{"strides", Ints{2}}, {"output_shape", Ints{8}}, {"pads", Ints{9, 9}}}),
            {1, 1, 8}, {-6, 14, -9, -8, -9, 14, -6, -10}));
  // More than there is: the rest is 0.
  CHECK(holds(convolve("ConvTranspose", {1, 1, 4}, {1, 1, 3}, false, {{"strides", Ints{2}}, {"output_shape", Ints{10}}}), {1, 1, 10},
              {15, -10, -6, 4, 6, -4, -15, 10, 0, 0}));
}

TEST_CASE("onnx Conv of other floats", "[frontend][convolution]") {
  OnnxModel model(17);
  model.input("x", {1, 1, 3}, TensorProto::DOUBLE).initializer("w", TensorProto::DOUBLE, {1, 1, 2}, {1, 10});
  model.node("Conv", {"x", "w"}, {"y"}).output("y");
  mlir::Type f64 = mlir::Float64Type::get(&context());
  CHECK(holds(evaluate(model, {makeTensor(f64, {1, 1, 3}, {1, 2, 3})})[0], {1, 1, 2}, {21, 32}));
}

TEST_CASE("onnx Conv: tensors that do not fit are refused", "[frontend][convolution]") {
  CHECK_THAT(errorOf("Conv", {1, 4}, {1, 4}, {}),
             contains("node \"layer\" (Conv, opset 17): input X is [1, 4] of f32, with 0 spatial dims; 1 to 3 are supported"));
  CHECK_THAT(errorOf("Conv", {1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1}, {}), contains("with 4 spatial dims; 1 to 3 are supported"));
  CHECK_THAT(errorOf("Conv", {1, 4, 8, 8}, {1, 4, 3}, {}),
             contains("input W is [1, 4, 3] of f32, but X is [1, 4, 8, 8] of f32; they need equal ranks and types"));
  CHECK_THAT(errorOf("Conv", {1, 4, 8, 8}, {6, 2, 3, 3}, {{"group", int64_t(3)}}),
             contains("attribute \"group\" is 3, which does not divide the 4 channels of X, [1, 4, 8, 8] of f32"));
  CHECK_THAT(errorOf("Conv", {1, 4, 8, 8}, {6, 2, 3, 3}, {{"group", int64_t(0)}}),
             contains("attribute \"group\" is 0, which does not divide"));
  CHECK_THAT(
      errorOf("Conv", {1, 4, 8, 8}, {6, 4, 3, 3}, {{"group", int64_t(2)}}),
      contains("input W is [6, 4, 3, 3] of f32; with 2 groups and X of [1, 4, 8, 8] of f32 it needs dim 1 of size 2, and a dim 0 that 2 "
               "divides"));
  CHECK_THAT(errorOf("Conv", {1, 4, 8, 8}, {5, 2, 3, 3}, {{"group", int64_t(2)}}), contains("and a dim 0 that 2 divides"));
  CHECK_THAT(errorOf("Conv", {1, 4, 8, 8}, {6, 4, 3, 3}, {}, {4}), contains("input B is [4] of f32, but the result has 6 channels of f32"));
  CHECK_THAT(errorOf("ConvTranspose", {1, 4, 8, 8}, {6, 4, 3, 3}, {}),
             contains("input W is [6, 4, 3, 3] of f32, but X of [1, 4, 8, 8] of f32 needs dim 0 of size 4"));
  CHECK_THAT(errorOf("ConvTranspose", {1, 4, 8, 8}, {4, 3, 3, 3}, {{"group", int64_t(2)}}, {3}),
             contains("input B is [3] of f32, but the result has 6 channels of f32"));
}

TEST_CASE("onnx Conv: windows that do not fit are refused", "[frontend][convolution]") {
  CHECK_THAT(
      errorOf("Conv", {1, 1, 8, 4}, {1, 1, 3, 3}, {{"dilations", Ints{1, 3}}, {"pads", Ints{0, 1, 0, 1}}}),
      contains("node \"layer\" (Conv, opset 17): the kernel spans 7 elements in spatial dim 1, but the input has 4 there and padding of 1 "
               "and 1; pad more, or use a smaller kernel"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"pads", Ints{1, 1}}}),
             contains("attribute \"pads\" has 2 numbers, [1, 1], but 2 spatial dims need 4"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"pads", Ints{1, 1, -1, 1}}}),
             contains("attribute \"pads\" is [1, 1, -1, 1]; every number has to be from 0 to 2147483647"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"strides", Ints{1}}}),
             contains("attribute \"strides\" has 1 numbers, [1], but 2 spatial dims need 2"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"strides", Ints{1, 0}}}),
             contains("attribute \"strides\" is [1, 0]; every number has to be from 1 to 2147483647"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"dilations", Ints{1, int64_t(1) << 31}}}),
             contains("attribute \"dilations\" is [1, 2147483648]; every number has to be from 1 to 2147483647"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"kernel_shape", Ints{3, 2}}}),
             contains("attribute \"kernel_shape\" is [3, 2] but W has a kernel of [3, 3]"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8}, {1, 1, 0}, {}), contains("attribute \"kernel_shape\" is [0]; every number has to be from 1"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"auto_pad", std::string("SAME")}}),
             contains("attribute \"auto_pad\" is \"SAME\"; use NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  CHECK_THAT(errorOf("Conv", {1, 1, 8}, {1, 1, 3}, {{"auto_pad", std::string("VALID")}, {"pads", Ints{1, 0}}}),
             contains("has pads [1, 0] and auto_pad \"VALID\"; leave one of them out"));
  // Nothing overflows on the way, and the result is refused for its size.
  CHECK_THAT(errorOf("Conv", {1, 1, 8, 8}, {1, 1, 3, 3}, {{"pads", Ints{2147483647, 2147483647, 2147483647, 2147483647}}}),
             contains("has more than 70368744177664 bytes"));
}

TEST_CASE("onnx ConvTranspose: sizes that are none are refused", "[frontend][convolution]") {
  CHECK_THAT(
      errorOf("ConvTranspose", {1, 1, 2}, {1, 1, 3}, {{"pads", Ints{2, 3}}}),
      contains("spatial dim 0 of the result has no size from 1 to 2147483647: X has 2 positions, with stride 1, a kernel that spans 3, "
               "output_padding 0, pads 2 and 3"));
  CHECK_THAT(errorOf("ConvTranspose", {1, 1, 3}, {1, 1, 3}, {{"strides", Ints{2147483647}}}),
             contains("has no size from 1 to 2147483647: X has 3 positions, with stride 2147483647"));
  CHECK_THAT(errorOf("ConvTranspose", {1, 1, 3}, {1, 1, 3}, {{"output_padding", Ints{-1}}}),
             contains("attribute \"output_padding\" is [-1]; every number has to be from 0 to 2147483647"));
  CHECK_THAT(errorOf("ConvTranspose", {1, 1, 3}, {1, 1, 3}, {{"output_shape", Ints{0}}}),
             contains("attribute \"output_shape\" is [0]; every number has to be from 1 to 2147483647"));
  CHECK_THAT(errorOf("ConvTranspose", {1, 1, 3}, {1, 1, 3}, {{"output_shape", Ints{1, 1, 4}}}),
             contains("attribute \"output_shape\" has 3 numbers, [1, 1, 4], but 1 spatial dims need 1"));
}

} // namespace ashlar::test::convolution_test
