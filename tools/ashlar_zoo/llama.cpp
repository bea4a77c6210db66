// SPDX-License-Identifier: Apache-2.0
//
// The decoder of Llama 3, layer by layer.

#include "tools/ashlar_zoo/models.h"

#include <cmath>
#include <stdexcept>

namespace ashlar::zoo {

namespace {

constexpr int64_t kOpsetOfAttention = 23; // the first one with Attention, RMSNormalization and RotaryEmbedding
constexpr double kRotaryBase = 500000;    // of Llama 3

// Every value is (batch, sequence, width).
class Llama {
public:
  Llama(const ParameterOptions &options, const LlamaSizes &sizes)
      : sizes(sizes), headWidth(sizes.width / sizes.heads), b("llama", options, kOpsetOfAttention) {
    if (sizes.width % (2 * sizes.heads) != 0) {
      throw std::runtime_error("width " + std::to_string(sizes.width) + " is no even number for each of " + std::to_string(sizes.heads) +
                               " heads");
    }
    if (sizes.heads % sizes.keyHeads != 0) {
      throw std::runtime_error(std::to_string(sizes.heads) + " heads are not divisible by " + std::to_string(sizes.keyHeads) +
                               " heads of keys");
    }
  }

  onnx::ModelProto build() {
    std::string tokens = b.addInput("tokens", {-1, sizes.sequence}, onnx::TensorProto::INT64);
    addRotations();
    std::string x =
        b.addNode("Gather", "embedding", {b.addParameter("embedding.weight", {sizes.vocabulary, sizes.width}, sizes.width), tokens});
    for (int64_t i = 0; i < sizes.layers; ++i) {
      x = layer("layer" + std::to_string(i), x);
    }
    linear("head", norm("norm", x), sizes.width, sizes.vocabulary);
    return b.finish("logits", {-1, sizes.sequence, sizes.vocabulary});
  }

private:
  // Cosine and sine of position / base^(2 i / size) for the pairs i of a head, the same for all samples.
  void addRotations() {
    const int64_t pairs = headWidth / 2;
    std::vector<float> cosines, sines;
    for (int64_t i = 0; i < sizes.sequence * pairs; ++i) {
      const double angle =
          static_cast<double>(i / pairs) / std::pow(kRotaryBase, static_cast<double>(i % pairs) / static_cast<double>(pairs));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
    cosine = b.addConstant("cosine", {1, sizes.sequence, pairs}, cosines);
    sine = b.addConstant("sine", {1, sizes.sequence, pairs}, sines);
  }

  std::string norm(const std::string &name, const std::string &x) {
    std::string y = b.addNode("RMSNormalization", name, {x, b.addFilledParameter(name + ".weight", {sizes.width}, 1)});
    b.setInt("axis", -1);
    return y;
  }

  std::string linear(const std::string &name, const std::string &x, int64_t in, int64_t out) {
    return b.addNode("MatMul", name, {x, b.addParameter(name + ".weight", {in, out}, in)});
  }

  std::string rotate(const std::string &name, const std::string &x, int64_t heads) {
    std::string y = b.addNode("RotaryEmbedding", name, {x, cosine, sine});
    b.setInt("num_heads", heads);
    return y;
  }

  std::string attention(const std::string &name, const std::string &x) {
    const int64_t keyWidth = sizes.keyHeads * headWidth;
    std::string query = rotate(name + ".query.rotated", linear(name + ".query", x, sizes.width, sizes.width), sizes.heads);
    std::string key = rotate(name + ".key.rotated", linear(name + ".key", x, sizes.width, keyWidth), sizes.keyHeads);
    std::string mixed = b.addNode("Attention", name + ".mixed", {query, key, linear(name + ".value", x, sizes.width, keyWidth)});
    b.setInt("q_num_heads", sizes.heads);
    b.setInt("kv_num_heads", sizes.keyHeads);
    b.setInt("is_causal", 1);
    return linear(name + ".projection", mixed, sizes.width, sizes.width);
  }

  std::string layer(const std::string &name, const std::string &x) {
    std::string attended = b.addNode("Add", name + ".residual1", {x, attention(name + ".attention", norm(name + ".norm1", x))});
    std::string y = norm(name + ".norm2", attended);
    std::string gate = linear(name + ".mlp.gate", y, sizes.width, sizes.hidden);
    std::string swish = b.addNode("Mul", name + ".mlp.swish", {gate, b.addNode("Sigmoid", name + ".mlp.sigmoid", {gate})});
    std::string gated = b.addNode("Mul", name + ".mlp.gated", {swish, linear(name + ".mlp.up", y, sizes.width, sizes.hidden)});
    return b.addNode("Add", name + ".residual2", {attended, linear(name + ".mlp.down", gated, sizes.hidden, sizes.width)});
  }

  LlamaSizes sizes;
  int64_t headWidth;
  ModelBuilder b;
  std::string cosine, sine;
};

} // namespace

onnx::ModelProto makeLlama(const ParameterOptions &options, const LlamaSizes &sizes) {
  return Llama(options, sizes).build();
}

} // namespace ashlar::zoo
