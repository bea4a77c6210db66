// SPDX-License-Identifier: Apache-2.0
//
// The zoo's networks: as many parameters as published, and on images the names that torchvision gives them.

#include "test/unit/frontend/onnx_model.h"
#include "tools/ashlar_zoo/encoders.h"
#include "tools/ashlar_zoo/expert_layers.h"
#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/vision_models.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

namespace ashlar::test::zoo_test {

using namespace ashlar::zoo;

namespace {

// Returns the trained parameters of a model made without data: inputs of a fixed shape, and initializers but running statistics.
std::set<std::string> parametersOf(const onnx::ModelProto &model, int64_t &count) {
  std::set<std::string> names;
  count = 0;
  for (const onnx::ValueInfoProto &input : model.graph().input()) {
    const onnx::TensorShapeProto &shape = input.type().tensor_type().shape();
    if (shape.dim(0).has_dim_value()) {
      int64_t elements = 1;
      for (const auto &dim : shape.dim()) {
        elements *= dim.dim_value();
      }
      count += elements;
      names.insert(input.name());
    }
  }
  for (const onnx::TensorProto &tensor : model.graph().initializer()) {
    if (tensor.name().find("running_") == std::string::npos) {
      count += tensor.dims(0);
      names.insert(tensor.name());
    }
  }
  return names;
}

std::vector<double> elementsOf(const onnx::ModelProto &model, const std::string &name) {
  for (const onnx::TensorProto &tensor : model.graph().initializer()) {
    if (tensor.name() == name) {
      std::vector<float> elements(tensor.raw_data().size() / sizeof(float));
      std::memcpy(elements.data(), tensor.raw_data().data(), tensor.raw_data().size());
      return {elements.begin(), elements.end()};
    }
  }
  FAIL("no initializer " << name);
  return {};
}

// A layer of experts, token by token: x (samples, tokens, width) -> the same, an expert taking at most `slots` tokens of a sample. Counts
// the choices that found no slot.
std::vector<double> expertsByLoops(const onnx::ModelProto &model, const std::vector<double> &x, const std::vector<int64_t> &shape,
                                   const ExpertSizes &sizes, int64_t hidden, int64_t slots, int64_t &dropped) {
  const int64_t tokens = shape[1], width = shape[2];
  std::vector<double> gate = elementsOf(model, "moe.gate.weight"), up = elementsOf(model, "moe.up.weight"),
                      down = elementsOf(model, "moe.down.weight"), y(x.size(), 0.0);
  std::vector<int64_t> taken;
  for (size_t row = 0; row < x.size() / width; ++row) {
    if (row % tokens == 0) {
      taken.assign(sizes.experts, 0);
    }
    std::vector<double> scores(sizes.experts, 0);
    for (int64_t e = 0; e < sizes.experts; ++e) {
      for (int64_t i = 0; i < width; ++i) {
        scores[e] += x[row * width + i] * gate[i * sizes.experts + e];
      }
    }
    std::vector<int64_t> order(sizes.experts);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    double total = 0;
    for (int64_t k = 0; k < sizes.chosen; ++k) {
      total += std::exp(scores[order[k]]);
    }
    for (int64_t k = 0; k < sizes.chosen; ++k) {
      const int64_t e = order[k];
      if (taken[e]++ >= slots) {
        ++dropped;
        continue;
      }
      for (int64_t h = 0; h < hidden; ++h) {
        double sum = 0;
        for (int64_t i = 0; i < width; ++i) {
          sum += x[row * width + i] * up[(e * width + i) * hidden + h];
        }
        for (int64_t i = 0; i < width; ++i) {
          y[row * width + i] += std::exp(scores[e]) / total * std::max(sum, 0.0) * down[(e * hidden + h) * width + i];
        }
      }
    }
  }
  return y;
}

// y = W x + bias, of parameters `name`.weight (out, in) and `name`.bias.
std::vector<double> denseByLoops(const onnx::ModelProto &model, const std::string &name, const std::vector<double> &x) {
  std::vector<double> weight = elementsOf(model, name + ".weight"), y = elementsOf(model, name + ".bias");
  for (size_t out = 0; out < y.size(); ++out) {
    for (size_t in = 0; in < x.size(); ++in) {
      y[out] += weight[out * x.size() + in] * x[in];
    }
  }
  return y;
}

std::vector<double> relu(std::vector<double> x) {
  std::transform(x.begin(), x.end(), x.begin(), [](double value) { return std::max(value, 0.0); });
  return x;
}

} // namespace

TEST_CASE("zoo: a mixture of experts computes what loops over tokens do", "[zoo]") {
  const std::vector<int64_t> shape = {3, 10, 4};
  std::vector<double> x;
  for (int64_t i = 0; i < 3 * 10 * 4; ++i) {
    x.push_back(static_cast<double>((i * i * 7 + i * 3) % 31 - 15) / 8);
  }
  struct Row {
    ExpertSizes sizes;
    int64_t slots; // ceil(capacity * 10 tokens * chosen / experts), at most one a token
    bool drops;
  };
  for (const Row &row :
       {Row{{.experts = 3, .chosen = 1, .capacity = 1}, 4, true}, Row{{.experts = 4, .chosen = 2, .capacity = 0.75}, 4, true},
        Row{{.experts = 4, .chosen = 2, .capacity = 100}, 10, false}, Row{{.experts = 2, .chosen = 2, .capacity = 1}, 10, false}}) {
    INFO(row.sizes.experts << " experts, " << row.sizes.chosen << " chosen, capacity " << row.sizes.capacity);
    ModelBuilder b("experts", {});
    addExperts(b, "moe", b.addInput("x", {-1, shape[1], shape[2]}), shape[1], shape[2], /*hidden=*/6, row.sizes);
    OnnxModel model;
    model.proto = b.finish("y", {-1, shape[1], shape[2]});
    frontend::ImportOptions options;
    options.globalBatch = shape[0];
    int64_t dropped = 0;
    std::vector<double> expected = expertsByLoops(model.proto, x, shape, row.sizes, /*hidden=*/6, row.slots, dropped);
    CHECK((dropped > 0) == row.drops);
    CHECK(holds(evaluate(model, {f32(shape, x)}, options)[0], shape, expected));
  }
}

TEST_CASE("zoo: DLRM computes what loops over pairs of categories do", "[zoo]") {
  OnnxModel model;
  model.proto = makeDlrm({}, {.dense = 2, .tables = 3, .rows = 5, .width = 4, .hidden = 6});
  const std::vector<double> numbers = {0.5, -1.25};
  const std::vector<double> categories = {4, 0, 3};
  std::vector<std::vector<double>> rows = {relu(denseByLoops(model.proto, "bot_l.2", relu(denseByLoops(model.proto, "bot_l.0", numbers))))};
  for (size_t i = 0; i < categories.size(); ++i) {
    std::vector<double> table = elementsOf(model.proto, "emb_l." + std::to_string(i) + ".weight");
    const auto row = table.begin() + static_cast<int64_t>(categories[i]) * 4;
    rows.emplace_back(row, row + 4);
  }
  std::vector<double> features = rows[0];
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      features.push_back(std::inner_product(rows[i].begin(), rows[i].end(), rows[j].begin(), 0.0));
    }
  }
  const double z = denseByLoops(model.proto, "top_l.2", relu(denseByLoops(model.proto, "top_l.0", features)))[0];
  frontend::ImportOptions options;
  options.globalBatch = 1;
  CHECK(holds(evaluate(model, {f32({1, 2}, numbers), i64({1, 3}, categories)}, options)[0], {1, 2}, {0, z}));
}

TEST_CASE("zoo: the padding of a text does not change the classes of BERT", "[zoo]") {
  OnnxModel model;
  model.proto = makeBert({}, {.layers = 2, .width = 8, .heads = 2, .hidden = 12, .vocabulary = 9, .positions = 6, .sequence = 5});
  frontend::ImportOptions options;
  options.globalBatch = 1;
  auto logits = [&](const std::vector<double> &ids) {
    reference::Tensor result = evaluate(model, {i64({1, 5}, ids), i64({1, 5}, {1, 1, 1, 0, 0}), i64({1, 5}, {0, 0, 1, 0, 0})}, options)[0];
    return std::pair(result.getFloat(0), result.getFloat(1));
  };
  CHECK(logits({3, 4, 5, 0, 0}) == logits({3, 4, 5, 8, 2}));
  CHECK(logits({3, 4, 5, 0, 0}) != logits({3, 4, 6, 0, 0}));
}

TEST_CASE("zoo: networks on images have the published numbers of parameters", "[zoo]") {
  ParameterOptions parameters;
  parameters.withData = false;
  VisionOptions imageNet{.classes = 1000, .image = 224};
  auto resnet = [&](int64_t depth) { return makeResNet(parameters, imageNet, {depth, /*smallStem=*/false}); };
  auto vgg = [&](int64_t depth, bool batchNorm) { return makeVgg(parameters, imageNet, {depth, batchNorm}); };
  struct Row {
    const char *name;
    std::function<onnx::ModelProto()> make;
    int64_t count;
    const char *parameter; // one of them
  };
  for (const Row &row : {
           Row{"resnet 18", [&] { return resnet(18); }, 11689512, "layer4.1.bn2.weight"},
           Row{"resnet 34", [&] { return resnet(34); }, 21797672, "layer3.5.conv2.weight"},
           Row{"resnet 50", [&] { return resnet(50); }, 25557032, "layer1.0.downsample.0.weight"},
           Row{"resnet 101", [&] { return resnet(101); }, 44549160, "layer3.22.conv3.weight"},
           Row{"resnet 152", [&] { return resnet(152); }, 60192808, "layer3.35.bn3.bias"},
           Row{"vgg 11", [&] { return vgg(11, false); }, 132863336, "features.18.bias"},
           Row{"vgg 13", [&] { return vgg(13, false); }, 133047848, "features.22.weight"},
           Row{"vgg 16", [&] { return vgg(16, false); }, 138357544, "features.28.weight"},
           Row{"vgg 16 with batch norm", [&] { return vgg(16, true); }, 138365992, "features.41.weight"},
           Row{"vgg 19", [&] { return vgg(19, false); }, 143667240, "features.34.weight"},
           Row{"mobilenet 1", [&] { return makeMobileNet(parameters, imageNet, 1); }, 4231976, "features.13.pointwise.0.weight"},
           Row{"mobilenet 2", [&] { return makeMobileNet(parameters, imageNet, 2); }, 3504872, "features.18.0.weight"},
           Row{"lenet", [&] { return makeLeNet(parameters, {.classes = 10}); }, 61706, "conv2.bias"},
           Row{"resnet 18 for CIFAR-10", [&] { return makeResNet(parameters, {.classes = 10, .image = 32}, {18, /*smallStem=*/true}); },
               11173962, "conv1.weight"},
       }) {
    INFO(row.name);
    int64_t count = 0;
    std::set<std::string> names = parametersOf(row.make(), count);
    CHECK(count == row.count);
    CHECK(names.count(row.parameter) == 1);
  }
}

TEST_CASE("zoo: Llama 3 has the published numbers of parameters", "[zoo]") {
  ParameterOptions parameters;
  parameters.withData = false;
  auto countOf = [&](LlamaSizes sizes) {
    sizes.sequence = 8; // only the tables of angles depend on it, which are constants
    int64_t count = 0;
    parametersOf(makeLlama(parameters, sizes), count);
    return count;
  };
  CHECK(countOf({.layers = 32, .width = 4096, .heads = 32, .keyHeads = 8, .hidden = 14336, .vocabulary = 128256}) == 8030261248);
  CHECK(countOf({.layers = 126, .width = 16384, .heads = 128, .keyHeads = 8, .hidden = 53248, .vocabulary = 128256}) == 405853388800);
}

TEST_CASE("zoo: encoders have the published numbers of parameters", "[zoo]") {
  ParameterOptions parameters;
  parameters.withData = false;
  int64_t count = 0;
  std::set<std::string> names = parametersOf(makeVit(parameters, {}), count);
  CHECK(count == 86567656); // ViT-B/16
  CHECK(names.count("encoder.layers.encoder_layer_11.self_attention.in_proj_weight") == 1);
  parametersOf(makeVit(parameters, {.layers = 24, .width = 1024, .heads = 16, .hidden = 4096, .patch = 32}), count);
  CHECK(count == 306535400); // ViT-L/32
  names = parametersOf(makeBert(parameters, {}), count);
  CHECK(count == 109483778); // BERT-base, 109482240, and a head of two classes
  CHECK(names.count("bert.encoder.layer.11.attention.output.LayerNorm.weight") == 1);
}

TEST_CASE("zoo: DLRM and a mixture of experts have the parameters of their layers", "[zoo]") {
  ParameterOptions parameters;
  parameters.withData = false;
  int64_t count = 0;
  std::set<std::string> names = parametersOf(makeDlrm(parameters, {.dense = 4, .tables = 3, .rows = 10, .width = 5, .hidden = 7}), count);
  // 3 tables; 4 -> 7 -> 5; 5 numbers and the products of 4 * 3 / 2 pairs -> 7 -> 1.
  CHECK(count == 3 * 10 * 5 + (4 * 7 + 7 + 7 * 5 + 5) + ((5 + 6) * 7 + 7 + 7 + 1));
  CHECK(names.count("emb_l.2.weight") == 1);
  int64_t plain = 0;
  parametersOf(makeTransformer(parameters, {.layers = 3, .width = 8, .heads = 2}), plain);
  TransformerSizes sizes{.layers = 3, .width = 8, .heads = 2};
  sizes.experts = {.experts = 6, .chosen = 2};
  names = parametersOf(makeTransformer(parameters, sizes), count);
  // Of each layer six pairs of matrices and the gate, for one pair and its biases.
  CHECK(count - plain == 3 * (6 * 2 * 8 * 32 + 8 * 6 - (2 * 8 * 32 + 32 + 8)));
  CHECK(names.count("layer2.moe.gate.weight") == 1);
}

TEST_CASE("zoo: sizes that no encoder and no mixture of experts has are refused", "[zoo]") {
  CHECK_THROWS_WITH(makeVit({}, {.image = 30}), Catch::Contains("an image of 30 is not divisible into patches of 16"));
  CHECK_THROWS_WITH(makeBert({}, {.width = 10, .heads = 4}), Catch::Contains("width 10 is not divisible by 4 heads"));
  CHECK_THROWS_WITH(makeBert({}, {.positions = 8, .sequence = 9}), Catch::Contains("a text of 9 tokens has more than the 8 positions"));
  TransformerSizes sizes;
  sizes.experts = {.experts = 2, .chosen = 3};
  CHECK_THROWS_WITH(makeTransformer({}, sizes), Catch::Contains("a token cannot choose 3 of 2 experts"));
}

TEST_CASE("zoo: heads that share no width evenly are refused", "[zoo]") {
  CHECK_THROWS_WITH(makeLlama({}, {.width = 12, .heads = 4}), Catch::Contains("width 12 is no even number for each of 4 heads"));
  CHECK_THROWS_WITH(makeLlama({}, {.heads = 4, .keyHeads = 3}), Catch::Contains("4 heads are not divisible by 3 heads of keys"));
}

TEST_CASE("zoo: a depth that no network has, and an image that is too small, are refused", "[zoo]") {
  CHECK_THROWS_WITH(makeResNet({}, {}, {20, false}), Catch::Contains("a ResNet has depth 18, 34, 50, 101 or 152, not 20"));
  CHECK_THROWS_WITH(makeVgg({}, {}, {12, false}), Catch::Contains("a VGG has depth 11, 13, 16 or 19, not 12"));
  CHECK_THROWS_WITH(makeVgg({}, {.image = 31}, {11, false}), Catch::Contains("take --image 32 or more"));
}

} // namespace ashlar::test::zoo_test
