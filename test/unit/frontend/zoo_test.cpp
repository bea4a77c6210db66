// SPDX-License-Identifier: Apache-2.0
//
// The zoo's networks: as many parameters as published, and on images the names that torchvision gives them.

#include "tools/ashlar_zoo/models.h"
#include "tools/ashlar_zoo/vision_models.h"

#include <catch2/catch.hpp>

#include <functional>
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

} // namespace

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
