// SPDX-License-Identifier: Apache-2.0
//
// The layers of ViT and of BERT.

#include "tools/ashlar_zoo/encoders.h"

#include "tools/ashlar_zoo/token_layers.h"

#include <stdexcept>

namespace ashlar::zoo {

namespace {

constexpr float kVitEpsilon = 1e-6f, kBertEpsilon = 1e-12f;

class Vit {
public:
  Vit(const ParameterOptions &options, const VitSizes &sizes)
      : sizes(sizes), grid(sizes.image / sizes.patch), b("vit", options, TokenLayers::kOpset),
        layers(b, sizes.width, sizes.heads, kVitEpsilon) {
    if (sizes.image % sizes.patch != 0) {
      throw std::runtime_error("an image of " + std::to_string(sizes.image) + " is not divisible into patches of " +
                               std::to_string(sizes.patch));
    }
  }

  onnx::ModelProto build() {
    std::string x = tokens(patches(b.addInput("input", {-1, sizes.channels, sizes.image, sizes.image})));
    for (int64_t i = 0; i < sizes.layers; ++i) {
      x = layer("encoder.layers.encoder_layer_" + std::to_string(i), x);
    }
    layers.linear("heads.head", layers.firstToken("class", layers.norm("encoder.ln", x)), sizes.width, sizes.classes);
    return b.finish("logits", {-1, sizes.classes});
  }

private:
  // (batch, grid * grid, width)
  std::string patches(const std::string &image) {
    const int64_t fanIn = sizes.channels * sizes.patch * sizes.patch;
    std::string weight = b.addParameter("conv_proj.weight", {sizes.width, sizes.channels, sizes.patch, sizes.patch}, fanIn);
    std::string y = b.addNode("Conv", "conv_proj", {image, weight, b.addParameter("conv_proj.bias", {sizes.width}, fanIn)});
    b.setInts("kernel_shape", {sizes.patch, sizes.patch});
    b.setInts("strides", {sizes.patch, sizes.patch});
    std::string shape = b.addConstant("patches.shape", {3}, std::vector<int64_t>{0, sizes.width, grid * grid});
    std::string turned = b.addNode("Transpose", "patches", {b.addNode("Reshape", "patches.flat", {y, shape})});
    b.setInts("perm", {0, 2, 1});
    return turned;
  }

  // Puts the class token before the patches of each sample, and adds the positions.
  std::string tokens(const std::string &patches) {
    std::string batch = b.addNode("Shape", "batch", {patches});
    b.setInt("start", 0);
    b.setInt("end", 1);
    std::string shape =
        b.addNode("Concat", "class_token.shape", {batch, b.addConstant("class_token.sizes", {2}, std::vector<int64_t>{1, sizes.width})});
    b.setInt("axis", 0);
    std::string token = b.addNode("Expand", "class_tokens", {b.addParameter("class_token", {1, 1, sizes.width}, sizes.width), shape});
    std::string all = b.addNode("Concat", "tokens", {token, patches});
    b.setInt("axis", 1);
    return b.addNode("Add", "positions", {all, b.addParameter("encoder.pos_embedding", {1, grid * grid + 1, sizes.width}, sizes.width)});
  }

  // Query, key and value of torch's MultiheadAttention: a third each of one product.
  std::string attention(const std::string &path, const std::string &x) {
    const int64_t width = sizes.width;
    std::string weight = b.addParameter(path + ".in_proj_weight", {3 * width, width}, width);
    std::string all = layers.linear(path + ".in_proj", x, weight, b.addParameter(path + ".in_proj_bias", {3 * width}, width));
    auto third = [&](const std::string &name, int64_t number) {
      auto place = [&](const std::string &end, int64_t at) { return b.addConstant(path + name + end, {1}, std::vector<int64_t>{at}); };
      return b.addNode("Slice", path + name,
                       {all, place(".begin", number * width), place(".end", (number + 1) * width), place(".axis", 2)});
    };
    std::string query = third(".query", 0), key = third(".key", 1), value = third(".value", 2);
    return layers.linear(path + ".out_proj", layers.attention(path, {query, key, value}, /*mask=*/""), width, width);
  }

  std::string layer(const std::string &path, const std::string &x) {
    std::string attended = b.addNode("Add", path + ".residual1", {x, attention(path + ".self_attention", layers.norm(path + ".ln_1", x))});
    std::string up = layers.linear(path + ".mlp.0", layers.norm(path + ".ln_2", attended), sizes.width, sizes.hidden);
    std::string down = layers.linear(path + ".mlp.3", layers.gelu(path + ".mlp.1", up), sizes.hidden, sizes.width);
    return b.addNode("Add", path + ".residual2", {attended, down});
  }

  VitSizes sizes;
  int64_t grid; // patches in a row
  ModelBuilder b;
  TokenLayers layers;
};

class Bert {
public:
  Bert(const ParameterOptions &options, const BertSizes &sizes)
      : sizes(sizes), b("bert", options, TokenLayers::kOpset), layers(b, sizes.width, sizes.heads, kBertEpsilon) {
    if (sizes.sequence > sizes.positions) {
      throw std::runtime_error("a text of " + std::to_string(sizes.sequence) + " tokens has more than the " +
                               std::to_string(sizes.positions) + " positions");
    }
  }

  onnx::ModelProto build() {
    std::string ids = addTokens("input_ids"), real = addTokens("attention_mask"), types = addTokens("token_type_ids");
    std::string isReal = b.addNode("Cast", "mask.bools", {real});
    b.setInt("to", onnx::TensorProto::BOOL);
    mask = b.addNode("Unsqueeze", "mask", {isReal, b.addConstant("mask.dims", {2}, std::vector<int64_t>{1, 2})});
    std::string x = embeddings("bert.embeddings", ids, types);
    for (int64_t i = 0; i < sizes.layers; ++i) {
      x = layer("bert.encoder.layer." + std::to_string(i), x);
    }
    std::string first = layers.linear("bert.pooler.dense", layers.firstToken("bert.pooler.first", x), sizes.width, sizes.width);
    layers.linear("classifier", b.addNode("Tanh", "bert.pooler.activation", {first}), sizes.width, sizes.classes);
    return b.finish("logits", {-1, sizes.classes});
  }

private:
  std::string addTokens(const std::string &name) { return b.addInput(name, {-1, sizes.sequence}, onnx::TensorProto::INT64); }

  std::string table(const std::string &path, int64_t rows) { return b.addParameter(path + ".weight", {rows, sizes.width}, sizes.width); }

  std::string embeddings(const std::string &path, const std::string &ids, const std::string &types) {
    std::string words = b.addNode("Gather", path + ".word_embeddings", {table(path + ".word_embeddings", sizes.vocabulary), ids});
    std::string kinds = b.addNode("Gather", path + ".token_type_embeddings", {table(path + ".token_type_embeddings", 2), types});
    auto place = [&](const std::string &end, int64_t at) { return b.addConstant(path + end, {1}, std::vector<int64_t>{at}); };
    std::string positions =
        b.addNode("Slice", path + ".position_embeddings",
                  {table(path + ".position_embeddings", sizes.positions), place(".begin", 0), place(".end", sizes.sequence)});
    std::string sum = b.addNode("Add", path + ".sum", {b.addNode("Add", path + ".words_and_types", {words, kinds}), positions});
    return layers.norm(path + ".LayerNorm", sum);
  }

  std::string layer(const std::string &path, const std::string &x) {
    auto project = [&](const std::string &part) { return layers.linear(path + ".attention.self" + part, x, sizes.width, sizes.width); };
    std::string query = project(".query"), key = project(".key"), value = project(".value");
    std::string mixed = layers.attention(path + ".attention.self", {query, key, value}, mask);
    std::string attended = added(path + ".attention.output", mixed, sizes.width, x);
    std::string up = layers.gelu(path + ".intermediate", layers.linear(path + ".intermediate.dense", attended, sizes.width, sizes.hidden));
    return added(path + ".output", up, sizes.hidden, attended);
  }

  // The norm of the residual and a dense layer of x.
  std::string added(const std::string &path, const std::string &x, int64_t in, const std::string &residual) {
    std::string y = layers.linear(path + ".dense", x, in, sizes.width);
    return layers.norm(path + ".LayerNorm", b.addNode("Add", path + ".residual", {y, residual}));
  }

  BertSizes sizes;
  ModelBuilder b;
  TokenLayers layers;
  std::string mask;
};

} // namespace

onnx::ModelProto makeVit(const ParameterOptions &options, const VitSizes &sizes) {
  return Vit(options, sizes).build();
}

onnx::ModelProto makeBert(const ParameterOptions &options, const BertSizes &sizes) {
  return Bert(options, sizes).build();
}

} // namespace ashlar::zoo
