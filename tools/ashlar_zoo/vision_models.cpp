// SPDX-License-Identifier: Apache-2.0
//
// Convolutional networks, layer by layer.

#include "tools/ashlar_zoo/vision_models.h"

#include "tools/ashlar_zoo/image_layers.h"

#include <stdexcept>

namespace ashlar::zoo {

namespace {

using Names = ModelBuilder::Names;

// Returns the network's result for what the last layer computes: itself, or the loss.
onnx::ModelProto finish(ModelBuilder &b, const VisionOptions &options, const std::string &logits) {
  if (!options.expandedLoss) {
    return b.finish("logits", {-1, options.classes});
  }
  addExpandedLoss(b, logits, options.classes);
  return b.finish("loss", {});
}

// The blocks of a ResNet.
class ResNet {
public:
  ResNet(const ParameterOptions &parameters, const VisionOptions &options, const ResNetOptions &resnet)
      : options(options), resnet(resnet), b("resnet" + std::to_string(resnet.depth), parameters), layers(b) {}

  onnx::ModelProto build() {
    Image x = stem(layers.input(3, options.image));
    const Names blocks = {"layer1", "layer2", "layer3", "layer4"};
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (int64_t block = 0; block < counts()[i]; ++block) {
        x = residual(blocks[i] + "/" + std::to_string(block), x, int64_t{64} << i, block == 0 && i > 0 ? 2 : 1);
      }
    }
    return finish(b, options, layers.dense("fc", layers.flat("flatten", layers.globalAveragePool("avgpool", x)), options.classes));
  }

private:
  bool isDeep() const { return resnet.depth >= 50; }

  std::vector<int64_t> counts() const {
    switch (resnet.depth) {
    case 18:
      return {2, 2, 2, 2};
    case 34:
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    default:
      throw std::runtime_error("a ResNet has depth 18, 34, 50, 101 or 152, not " + std::to_string(resnet.depth));
    }
  }

  Image stem(Image x) {
    if (resnet.smallStem) {
      return layers.relu("relu", layers.batchNorm("bn1", layers.conv("conv1", x, {64, /*kernel=*/3, /*stride=*/1})));
    }
    x = layers.relu("relu", layers.batchNorm("bn1", layers.conv("conv1", x, {64, /*kernel=*/7, /*stride=*/2})));
    return layers.maxPool("maxpool", x, /*kernel=*/3, /*stride=*/2);
  }

  Image normalized(const std::string &path, int64_t number, const Image &x, const ConvSizes &sizes) {
    std::string n = std::to_string(number);
    return layers.batchNorm(path + "/bn" + n, layers.conv(path + "/conv" + n, x, sizes));
  }

  // A block of 3 x 3 convolutions, or one that computes the 3 x 3 on a quarter of its channels, around which the input goes.
  Image residual(const std::string &path, const Image &x, int64_t width, int64_t stride) {
    int64_t out = isDeep() ? 4 * width : width;
    Image y;
    if (isDeep()) {
      y = layers.relu(path + "/relu", normalized(path, 1, x, {width, /*kernel=*/1, /*stride=*/1}));
      y = layers.relu(path + "/relu_1", normalized(path, 2, y, {width, /*kernel=*/3, stride}));
      y = normalized(path, 3, y, {out, /*kernel=*/1, /*stride=*/1});
    } else {
      y = layers.relu(path + "/relu", normalized(path, 1, x, {width, /*kernel=*/3, stride}));
      y = normalized(path, 2, y, {out, /*kernel=*/3, /*stride=*/1});
    }
    Image around = x;
    if (stride != 1 || x.channels != out) {
      around = layers.batchNorm(path + "/downsample/1", layers.conv(path + "/downsample/0", x, {out, /*kernel=*/1, stride}));
    }
    y.name = b.addNode("Add", path + "/add", {y.name, around.name});
    return layers.relu(path + "/relu_out", y);
  }

  VisionOptions options;
  ResNetOptions resnet;
  ModelBuilder b;
  ImageLayers layers;
};

// Channels of the convolutions of a VGG; 0: a pooling.
std::vector<int64_t> vggLayers(int64_t depth) {
  if (depth != 11 && depth != 13 && depth != 16 && depth != 19) {
    throw std::runtime_error("a VGG has depth 11, 13, 16 or 19, not " + std::to_string(depth));
  }
  const std::vector<int64_t> widths = {64, 128, 256, 512, 512};
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < widths.size(); ++i) {
    int64_t early = depth == 11 ? 1 : 2, late = depth == 16 ? 3 : depth == 19 ? 4 : 2;
    sizes.insert(sizes.end(), i < 2 ? early : late, widths[i]);
    sizes.push_back(0);
  }
  return sizes;
}

} // namespace

onnx::ModelProto makeLeNet(const ParameterOptions &parameters, const VisionOptions &options) {
  constexpr int64_t kImage = 28;
  ModelBuilder b("lenet", parameters);
  ImageLayers layers(b);
  Image x = layers.conv("conv1", layers.input(1, kImage), {.channels = 6, .kernel = 5, .stride = 1, .bias = true});
  x = layers.maxPool("pool1", layers.relu("relu1", x), /*kernel=*/2, /*stride=*/2);
  x = layers.conv("conv2", x, {.channels = 16, .kernel = 5, .stride = 1, .bias = true, .padded = false});
  x = layers.maxPool("pool2", layers.relu("relu2", x), /*kernel=*/2, /*stride=*/2);
  Features y = layers.flat("flatten", x);
  y = layers.relu("relu3", layers.denseLayer("fc1", y, 120));
  y = layers.relu("relu4", layers.denseLayer("fc2", y, 84));
  return finish(b, options, layers.dense("fc3", y, options.classes));
}

onnx::ModelProto makeResNet(const ParameterOptions &parameters, const VisionOptions &options, const ResNetOptions &resnet) {
  return ResNet(parameters, options, resnet).build();
}

onnx::ModelProto makeVgg(const ParameterOptions &parameters, const VisionOptions &options, const VggOptions &vgg) {
  constexpr int64_t kHalvings = 32, kFeatures = 4096;
  if (options.image < kHalvings) {
    throw std::runtime_error("a VGG halves the image five times, which leaves nothing of " + std::to_string(options.image) +
                             "; take --image 32 or more");
  }
  ModelBuilder b("vgg" + std::to_string(vgg.depth), parameters);
  ImageLayers layers(b);
  Image x = layers.input(3, options.image);
  int64_t number = 0; // of the module in "features", as torchvision counts
  auto path = [&] { return "features/" + std::to_string(number++); };
  for (int64_t channels : vggLayers(vgg.depth)) {
    if (channels == 0) {
      x = layers.maxPool(path(), x, /*kernel=*/2, /*stride=*/2);
      continue;
    }
    x = layers.conv(path(), x, {.channels = channels, .kernel = 3, .stride = 1, .bias = true});
    if (vgg.batchNorm) {
      x = layers.batchNorm(path(), x);
    }
    x = layers.relu(path(), x);
  }
  Features y = layers.flat("flatten", x);
  y = layers.dropout("classifier/2", layers.relu("classifier/1", layers.denseLayer("classifier/0", y, kFeatures)), 0.5f);
  y = layers.dropout("classifier/5", layers.relu("classifier/4", layers.denseLayer("classifier/3", y, kFeatures)), 0.5f);
  return finish(b, options, layers.dense("classifier/6", y, options.classes));
}

namespace {

onnx::ModelProto makeMobileNet1(const ParameterOptions &parameters, const VisionOptions &options) {
  struct Block {
    int64_t channels, stride;
  };
  constexpr Block kBlocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                               {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  ModelBuilder b("mobilenet1", parameters);
  ImageLayers layers(b);
  auto layer = [&](const std::string &path, const Image &x, const ConvSizes &sizes) {
    return layers.relu(path + "/2", layers.batchNorm(path + "/1", layers.conv(path + "/0", x, sizes)));
  };
  Image x = layer("features/0", layers.input(3, options.image), {32, /*kernel=*/3, /*stride=*/2});
  int64_t number = 1;
  for (const Block &block : kBlocks) {
    std::string path = "features/" + std::to_string(number++);
    x = layer(path + "/depthwise", x, {.channels = x.channels, .kernel = 3, .stride = block.stride, .groups = x.channels});
    x = layer(path + "/pointwise", x, {block.channels, /*kernel=*/1, /*stride=*/1});
  }
  return finish(b, options, layers.dense("classifier", layers.flat("flatten", layers.globalAveragePool("avgpool", x)), options.classes));
}

// Blocks that widen, filter each channel by itself, and narrow, without a ReLU there.
onnx::ModelProto makeMobileNet2(const ParameterOptions &parameters, const VisionOptions &options) {
  struct Blocks {
    int64_t expansion, channels, count, stride;
  };
  constexpr Blocks kBlocks[] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  constexpr int64_t kFeatures = 1280;
  ModelBuilder b("mobilenet2", parameters);
  ImageLayers layers(b);
  auto layer = [&](const std::string &path, const Image &x, const ConvSizes &sizes) {
    return layers.relu6(path + "/2", layers.batchNorm(path + "/1", layers.conv(path + "/0", x, sizes)));
  };
  Image x = layer("features/0", layers.input(3, options.image), {32, /*kernel=*/3, /*stride=*/2});
  int64_t number = 1;
  for (const Blocks &blocks : kBlocks) {
    for (int64_t i = 0; i < blocks.count; ++i) {
      std::string path = "features/" + std::to_string(number++) + "/conv/";
      int64_t part = 0, stride = i == 0 ? blocks.stride : 1;
      Image y = x;
      if (blocks.expansion != 1) {
        y = layer(path + std::to_string(part++), y, {blocks.expansion * x.channels, /*kernel=*/1, /*stride=*/1});
      }
      y = layer(path + std::to_string(part++), y, {.channels = y.channels, .kernel = 3, .stride = stride, .groups = y.channels});
      y = layers.conv(path + std::to_string(part), y, {blocks.channels, /*kernel=*/1, /*stride=*/1});
      y = layers.batchNorm(path + std::to_string(part + 1), y);
      if (stride == 1 && x.channels == blocks.channels) {
        y.name = b.addNode("Add", path + "add", {x.name, y.name});
      }
      x = y;
    }
  }
  x = layer("features/" + std::to_string(number), x, {kFeatures, /*kernel=*/1, /*stride=*/1});
  Features y = layers.dropout("classifier/0", layers.flat("flatten", layers.globalAveragePool("avgpool", x)), 0.2f);
  return finish(b, options, layers.dense("classifier/1", y, options.classes));
}

} // namespace

onnx::ModelProto makeMobileNet(const ParameterOptions &parameters, const VisionOptions &options, int64_t version) {
  return version == 1 ? makeMobileNet1(parameters, options) : makeMobileNet2(parameters, options);
}

} // namespace ashlar::zoo
