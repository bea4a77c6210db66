// SPDX-License-Identifier: Apache-2.0
//
// Layers on images as ONNX nodes.

#include "tools/ashlar_zoo/image_layers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ashlar::zoo {

namespace {

std::string parameterName(std::string path, const std::string &name) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path + "." + name;
}

} // namespace

Image ImageLayers::input(int64_t channels, int64_t size) {
  return {b.addInput("input", {-1, channels, size, size}), channels, size};
}

Image ImageLayers::conv(const std::string &path, const Image &x, const ConvSizes &sizes) {
  int64_t channels = x.channels / sizes.groups, fanIn = channels * sizes.kernel * sizes.kernel;
  ModelBuilder::Names inputs = {
      x.name, b.addParameter(parameterName(path, "weight"), {sizes.channels, channels, sizes.kernel, sizes.kernel}, fanIn, kReluGain)};
  if (sizes.bias) {
    inputs.push_back(b.addParameter(parameterName(path, "bias"), {sizes.channels}, fanIn));
  }
  std::string y = b.addNode("Conv", path, inputs);
  int64_t pad = sizes.padded ? sizes.kernel / 2 : 0;
  b.setInts("kernel_shape", {sizes.kernel, sizes.kernel});
  b.setInts("strides", {sizes.stride, sizes.stride});
  b.setInts("pads", {pad, pad, pad, pad});
  b.setInt("group", sizes.groups);
  return {y, sizes.channels, (x.size + 2 * pad - sizes.kernel) / sizes.stride + 1};
}

Image ImageLayers::batchNorm(const std::string &path, const Image &x) {
  auto filled = [&](const std::string &name, float value) { return b.addFilledParameter(parameterName(path, name), {x.channels}, value); };
  ModelBuilder::Names inputs = {x.name, filled("weight", 1), filled("bias", 0), filled("running_mean", 0), filled("running_var", 1)};
  return {b.addNode("BatchNormalization", path, inputs), x.channels, x.size};
}

Image ImageLayers::relu6(const std::string &path, const Image &x) {
  std::string low = b.addConstant(path + ".low", {}, std::vector<float>{0}),
              high = b.addConstant(path + ".high", {}, std::vector<float>{6});
  return {b.addNode("Clip", path, {x.name, low, high}), x.channels, x.size};
}

Image ImageLayers::maxPool(const std::string &path, const Image &x, int64_t kernel, int64_t stride) {
  std::string y = b.addNode("MaxPool", path, {x.name});
  int64_t pad = kernel % 2 == 1 ? kernel / 2 : 0;
  b.setInts("kernel_shape", {kernel, kernel});
  b.setInts("strides", {stride, stride});
  b.setInts("pads", {pad, pad, pad, pad});
  return {y, x.channels, (x.size + 2 * pad - kernel) / stride + 1};
}

Image ImageLayers::globalAveragePool(const std::string &path, const Image &x) {
  return {b.addNode("GlobalAveragePool", path, {x.name}), x.channels, 1};
}

Features ImageLayers::flat(const std::string &path, const Image &x) {
  return {b.addNode("Flatten", path, {x.name}), x.channels * x.size * x.size};
}

Features ImageLayers::denseLayer(const std::string &path, const Features &x, int64_t count) {
  std::string weight = b.addParameter(parameterName(path, "weight"), {count, x.count}, x.count);
  std::string y = b.addNode("Gemm", path, {x.name, weight, b.addParameter(parameterName(path, "bias"), {count}, x.count)});
  b.setInt("transB", 1);
  return {y, count};
}

Features ImageLayers::dropout(const std::string &path, const Features &x, float ratio) {
  std::string share = b.addConstant(path + ".ratio", {}, std::vector<float>{ratio});
  return {b.addNode("Dropout", path, {x.name, share}), x.count};
}

void addExpandedLoss(ModelBuilder &b, const std::string &logits, int64_t classes) {
  constexpr float kSmallest = 1e-24f; // so that a probability of 0 has a logarithm
  std::string labels = b.addInput("labels", {-1}, onnx::TensorProto::INT64);
  std::vector<int64_t> numbers(classes);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::string column = b.addConstant("loss/column", {1}, std::vector<int64_t>{1}),
              last = b.addConstant("loss/last", {1}, std::vector<int64_t>{-1});
  std::string ranges = b.addConstant("loss/classes", {classes}, numbers);
  auto overClasses = [&](const std::string &type, const std::string &name, const std::string &x, bool keep) {
    std::string y = b.addNode(type, name, type == "ReduceSum" ? ModelBuilder::Names{x, last} : ModelBuilder::Names{x});
    if (type != "ReduceSum") { // whose axes are an input already
      b.setInts("axes", {-1});
    }
    b.setInt("keepdims", keep);
    return y;
  };
  std::string largest = overClasses("ReduceMax", "loss/max", logits, /*keep=*/true);
  std::string exponential = b.addNode("Exp", "loss/exp", {b.addNode("Sub", "loss/sub", {logits, largest})});
  std::string sum = overClasses("ReduceSum", "loss/exp_sum", exponential, /*keep=*/true);
  std::string probability = b.addNode("Div", "loss/div", {exponential, sum});
  std::string shifted = b.addNode("Add", "loss/add", {probability, b.addConstant("loss/smallest", {}, std::vector<float>{kSmallest})});
  std::string logarithm = b.addNode("Log", "loss/log", {shifted});
  std::string isLabel = b.addNode("Equal", "loss/equal", {b.addNode("Unsqueeze", "loss/labels", {labels, column}), ranges});
  std::string oneHot = b.addNode("Cast", "loss/one_hot", {isLabel});
  b.setInt("to", onnx::TensorProto::FLOAT);
  std::string picked = overClasses("ReduceSum", "loss/sum", b.addNode("Mul", "loss/mul", {logarithm, oneHot}), /*keep=*/false);
  std::string losses = b.addNode("Mul", "loss/negative", {picked, b.addConstant("loss/minus_one", {}, std::vector<float>{-1})});
  b.addNode("ReduceMean", "loss/mean", {losses});
  b.setInts("axes", {0});
  b.setInt("keepdims", 0);
}

} // namespace ashlar::zoo
