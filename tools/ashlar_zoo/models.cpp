// SPDX-License-Identifier: Apache-2.0
//
// The example models, layer by layer.

#include "tools/ashlar_zoo/models.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace ashlar::zoo {

namespace {

// y = x W^T + b by a Gemm node called `name`; parameters `name`.weight (out, in) and `name`.bias.
std::string dense(ModelBuilder &b, const std::string &name, const std::string &x, int64_t in, int64_t out) {
  std::string weight = b.addParameter(name + ".weight", {out, in}, in);
  std::string y = b.addNode("Gemm", name, {x, weight, b.addParameter(name + ".bias", {out}, in)});
  b.setInt("transB", 1);
  return y;
}

// The layers of a transformer; every value is (batch, sequence, width).
class Transformer {
public:
  Transformer(const ParameterOptions &options, const TransformerSizes &sizes)
      : sizes(sizes), headWidth(sizes.width / sizes.heads), b("transformer", options) {
    if (sizes.width % sizes.heads != 0) {
      throw std::runtime_error("width " + std::to_string(sizes.width) + " is not divisible by " + std::to_string(sizes.heads) + " heads");
    }
  }

  onnx::ModelProto build() {
    std::string tokens = b.addInput("tokens", {-1, sizes.sequence}, onnx::TensorProto::INT64);
    addConstants();
    std::string table = b.addParameter("embedding.weight", {sizes.vocabulary, sizes.width}, sizes.width);
    std::string x = b.addNode("Gather", "embedding", {table, tokens});
    x = b.addNode("Add", "position", {x, b.addParameter("position.weight", {sizes.sequence, sizes.width}, sizes.width)});
    for (int64_t i = 0; i < sizes.layers; ++i) {
      x = layer("layer" + std::to_string(i), x);
    }
    x = norm("norm", x);
    b.addNode("MatMul", "head", {x, headWeight(table)});
    return b.finish("logits", {-1, sizes.sequence, sizes.vocabulary});
  }

private:
  // What all layers share: the shapes of heads, 1 / sqrt(width of a head), and the mask that hides what comes later.
  void addConstants() {
    headsShape = b.addConstant("heads_shape", {4}, std::vector<int64_t>{0, sizes.sequence, sizes.heads, headWidth});
    flatShape = b.addConstant("flat_shape", {3}, std::vector<int64_t>{0, sizes.sequence, sizes.width});
    scale = b.addConstant("scale", {}, std::vector<float>{1 / std::sqrt(static_cast<float>(headWidth))});
    std::vector<float> hidden;
    for (int64_t i = 0; i < sizes.sequence * sizes.sequence; ++i) {
      hidden.push_back(i % sizes.sequence > i / sizes.sequence ? -std::numeric_limits<float>::infinity() : 0);
    }
    mask = b.addConstant("mask", {sizes.sequence, sizes.sequence}, hidden);
  }

  // (width, vocabulary)
  std::string headWeight(const std::string &table) {
    if (!sizes.tied) {
      return b.addParameter("head.weight", {sizes.width, sizes.vocabulary}, sizes.width);
    }
    std::string weight = b.addNode("Transpose", "head.table", {table});
    b.setInts("perm", {1, 0});
    return weight;
  }

  std::string norm(const std::string &name, const std::string &x) {
    std::string weight = b.addFilledParameter(name + ".weight", {sizes.width}, 1);
    return b.addNode("LayerNormalization", name, {x, weight, b.addFilledParameter(name + ".bias", {sizes.width}, 0)});
  }

  std::string linear(const std::string &name, const std::string &x, int64_t in, int64_t out) {
    std::string y = b.addNode("MatMul", name, {x, b.addParameter(name + ".weight", {in, out}, in)});
    return b.addNode("Add", name + ".add_bias", {y, b.addParameter(name + ".bias", {out}, in)});
  }

  // (batch, sequence, width) -> (batch, heads, sequence, head width), or its last two dims swapped.
  std::string splitHeads(const std::string &name, const std::string &x, bool transposed) {
    std::string split = b.addNode("Reshape", name + ".split", {x, headsShape});
    std::string heads = b.addNode("Transpose", name + ".heads", {split});
    b.setInts("perm", transposed ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
    return heads;
  }

  std::string attention(const std::string &name, const std::string &x) {
    auto project = [&](const std::string &part, bool transposed) {
      return splitHeads(name + part, linear(name + part, x, sizes.width, sizes.width), transposed);
    };
    std::string query = project(".query", false), key = project(".key", true), value = project(".value", false);
    std::string scores = b.addNode("Mul", name + ".scaled", {b.addNode("MatMul", name + ".scores", {query, key}), scale});
    std::string weights = b.addNode("Softmax", name + ".softmax", {b.addNode("Add", name + ".masked", {scores, mask})});
    b.setInt("axis", -1);
    std::string mixed = b.addNode("Transpose", name + ".joined", {b.addNode("MatMul", name + ".mixed", {weights, value})});
    b.setInts("perm", {0, 2, 1, 3});
    return linear(name + ".projection", b.addNode("Reshape", name + ".flat", {mixed, flatShape}), sizes.width, sizes.width);
  }

  std::string mlp(const std::string &name, const std::string &x) {
    std::string up = linear(name + ".up", x, sizes.width, 4 * sizes.width);
    return linear(name + ".down", b.addNode("Relu", name + ".relu", {up}), 4 * sizes.width, sizes.width);
  }

  std::string layer(const std::string &name, const std::string &x) {
    std::string attended = b.addNode("Add", name + ".residual1", {x, attention(name + ".attention", norm(name + ".norm1", x))});
    std::string normalized = norm(name + ".norm2", attended);
    std::string changed = sizes.experts.experts > 0
                              ? addExperts(b, name + ".moe", normalized, sizes.sequence, sizes.width, 4 * sizes.width, sizes.experts)
                              : mlp(name + ".mlp", normalized);
    return b.addNode("Add", name + ".residual2", {attended, changed});
  }

  TransformerSizes sizes;
  int64_t headWidth;
  ModelBuilder b;
  std::string headsShape, flatShape, scale, mask;
};

} // namespace

onnx::ModelProto makeLinear(const ParameterOptions &options) {
  ParameterOptions filled = options;
  filled.fill = 0.02f;
  ModelBuilder b("linear", filled);
  dense(b, "dense", b.addInput("input", {-1, 2}), 2, 1);
  return b.finish("output", {-1, 1});
}

onnx::ModelProto makeMlp(const ParameterOptions &options, int64_t layers, int64_t width) {
  ModelBuilder b("mlp", options);
  int64_t features = 28 * 28;
  std::string x = b.addInput("input", {-1, features});
  for (int64_t i = 1; i < layers; ++i) {
    x = b.addNode("Relu", "relu" + std::to_string(i), {dense(b, "fc" + std::to_string(i), x, features, width)});
    features = width;
  }
  dense(b, "fc" + std::to_string(layers), x, features, 10);
  return b.finish("logits", {-1, 10});
}

onnx::ModelProto makeHybridMlp(int64_t width, int64_t devices) {
  if (width % devices != 0) {
    throw std::runtime_error("width " + std::to_string(width) + " is not divisible by " + std::to_string(devices) + " devices");
  }
  ParameterOptions options;
  options.withData = false;
  ModelBuilder b("mlp_hybrid", options);
  int64_t features = 28 * 28, local = width / devices;
  std::string x = b.addInput("input", {-1, features});
  x = b.addNode("Relu", "relu1", {dense(b, "fc1", x, features, local)});
  x = b.addNode("Gemm", "fc2", {x, b.addParameter("fc2.weight", {width, local}, width)});
  b.setInt("transB", 1);
  x = b.addNode("AllReduce", "fc2.sum", {x});
  b.setDomain("ai.ashlar.dist", 1);
  b.setStrings("axes", {"tp"});
  x = b.addNode("Add", "fc2.add_bias", {x, b.addParameter("fc2.bias", {width}, width)});
  dense(b, "fc3", b.addNode("Relu", "relu2", {x}), width, 10);
  return b.finish("logits", {-1, 10});
}

onnx::ModelProto makeDenseLayers(const ParameterOptions &options) {
  ModelBuilder b("dense_layers", options);
  std::string x = b.addInput("input", {-1, 10});
  for (const char *layer : {"layer1", "layer2", "layer3"}) {
    x = dense(b, std::string(layer) + ".input_mapping", x, 10, 10);
    x = dense(b, std::string(layer) + ".output_mapping", x, 10, 10);
  }
  return b.finish("output", {-1, 10});
}

onnx::ModelProto makeTransformer(const ParameterOptions &options, const TransformerSizes &sizes) {
  return Transformer(options, sizes).build();
}

} // namespace ashlar::zoo
