// SPDX-License-Identifier: Apache-2.0
//
// DLRM: tables of categories, and products of each pair of their rows.

#include "tools/ashlar_zoo/models.h"

#include "tools/ashlar_zoo/image_layers.h"

namespace ashlar::zoo {

namespace {

// The products of all pairs of the `count` rows of a sample, (batch, pairs), below the diagonal, row by row.
std::string pairProducts(ModelBuilder &b, const std::string &rows, int64_t count) {
  std::string turned = b.addNode("Transpose", "interaction.turned", {rows});
  b.setInts("perm", {0, 2, 1});
  std::string products = b.addNode("MatMul", "interaction.products", {rows, turned});
  std::string shape = b.addConstant("interaction.shape", {2}, std::vector<int64_t>{0, count * count});
  std::vector<int64_t> pairs;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      pairs.push_back(i * count + j);
    }
  }
  std::string places = b.addConstant("interaction.places", {static_cast<int64_t>(pairs.size())}, pairs);
  std::string below = b.addNode("Gather", "interaction.pairs", {b.addNode("Reshape", "interaction.flat", {products, shape}), places});
  b.setInt("axis", 1);
  return below;
}

} // namespace

onnx::ModelProto makeDlrm(const ParameterOptions &options, const DlrmSizes &sizes) {
  ModelBuilder b("dlrm", options);
  ImageLayers layers(b);
  // Numbers in names are those of the modules in torch's Sequential.
  Features numbers = {b.addInput("dense", {-1, sizes.dense}), sizes.dense};
  std::string categories = b.addInput("sparse", {-1, sizes.tables}, onnx::TensorProto::INT64);
  Features bottom = layers.relu("bot_l.1", layers.denseLayer("bot_l.0", numbers, sizes.hidden));
  bottom = layers.relu("bot_l.3", layers.denseLayer("bot_l.2", bottom, sizes.width));
  ModelBuilder::Names rows = {bottom.name};
  for (int64_t i = 0; i < sizes.tables; ++i) {
    std::string name = "emb_l." + std::to_string(i);
    std::string category =
        b.addNode("Gather", name + ".category", {categories, b.addConstant(name + ".column", {}, std::vector<int64_t>{i})});
    b.setInt("axis", 1);
    rows.push_back(b.addNode("Gather", name, {b.addParameter(name + ".weight", {sizes.rows, sizes.width}, sizes.width), category}));
  }
  const int64_t count = sizes.tables + 1;
  std::string all = b.addNode("Concat", "interaction.rows", rows);
  b.setInt("axis", 1);
  std::string shape = b.addConstant("interaction.rows_shape", {3}, std::vector<int64_t>{0, count, sizes.width});
  std::string pairs = pairProducts(b, b.addNode("Reshape", "interaction.matrix", {all, shape}), count);
  Features features = {b.addNode("Concat", "interaction", {bottom.name, pairs}), sizes.width + count * (count - 1) / 2};
  b.setInt("axis", 1);
  Features top = layers.relu("top_l.1", layers.denseLayer("top_l.0", features, sizes.hidden));
  // The softmax of 0 and z is the sigmoid of z: its cross entropy is the logistic loss.
  b.addNode("Mul", "click", {layers.dense("top_l.2", top, 1), b.addConstant("click.classes", {2}, std::vector<float>{0, 1})});
  return b.finish("logits", {-1, 2});
}

} // namespace ashlar::zoo
