// SPDX-License-Identifier: Apache-2.0
//
// Layers on tokens as ONNX nodes.

#include "tools/ashlar_zoo/token_layers.h"

#include <stdexcept>

namespace ashlar::zoo {

TokenLayers::TokenLayers(ModelBuilder &b, int64_t width, int64_t heads, float epsilon)
    : b(b), width(width), heads(heads), epsilon(epsilon) {
  if (width % heads != 0) {
    throw std::runtime_error("width " + std::to_string(width) + " is not divisible by " + std::to_string(heads) + " heads");
  }
}

std::string TokenLayers::norm(const std::string &path, const std::string &x) {
  std::string weight = b.addFilledParameter(path + ".weight", {width}, 1);
  std::string y = b.addNode("LayerNormalization", path, {x, weight, b.addFilledParameter(path + ".bias", {width}, 0)});
  b.setFloat("epsilon", epsilon);
  return y;
}

std::string TokenLayers::linear(const std::string &name, const std::string &x, const std::string &weight, const std::string &bias) {
  std::string turned = b.addNode("Transpose", name + ".turned", {weight});
  b.setInts("perm", {1, 0});
  return b.addNode("Add", name, {b.addNode("MatMul", name + ".product", {x, turned}), bias});
}

std::string TokenLayers::linear(const std::string &path, const std::string &x, int64_t in, int64_t out) {
  std::string weight = b.addParameter(path + ".weight", {out, in}, in);
  return linear(path, x, weight, b.addParameter(path + ".bias", {out}, in));
}

std::string TokenLayers::gelu(const std::string &path, const std::string &x) {
  return b.addNode("Gelu", path, {x});
}

std::string TokenLayers::attention(const std::string &path, const ModelBuilder::Names &queryKeyValue, const std::string &mask) {
  ModelBuilder::Names inputs = queryKeyValue;
  if (!mask.empty()) {
    inputs.push_back(mask);
  }
  std::string mixed = b.addNode("Attention", path, inputs);
  b.setInt("q_num_heads", heads);
  b.setInt("kv_num_heads", heads);
  return mixed;
}

std::string TokenLayers::firstToken(const std::string &path, const std::string &x) {
  std::string y = b.addNode("Gather", path, {x, b.addConstant(path + ".place", {}, std::vector<int64_t>{0})});
  b.setInt("axis", 1);
  return y;
}

} // namespace ashlar::zoo
