// SPDX-License-Identifier: Apache-2.0
//
// Convolutional networks as their papers and torchvision have them: names of parameters, module paths, initial values. Images are
// "input" (batch, channels, size, size), results "logits" (batch, classes).

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_VISION_MODELS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_VISION_MODELS_H

#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

// The common options of these networks.
struct VisionOptions {
  int64_t classes = 10;
  int64_t image = 224;       // height and width
  bool expandedLoss = false; // then the result is "loss", the mean cross entropy with input "labels" (batch) i64, in small ops
};

// LeNet-5 for images of 28 x 28 with one channel, with ReLU and max pooling, as newer texts have it.
onnx::ModelProto makeLeNet(const ParameterOptions &parameters, const VisionOptions &options);

// `depth`: 18, 34 (two 3 x 3 convolutions a block), 50, 101 or 152 (1 x 1, 3 x 3, 1 x 1). With `smallStem` the first layer is one 3 x 3
// convolution that keeps the size, for images of 32 x 32; else 7 x 7 and a pooling, which leave a quarter of it.
struct ResNetOptions {
  int64_t depth = 50;
  bool smallStem = false;
};
onnx::ModelProto makeResNet(const ParameterOptions &parameters, const VisionOptions &options, const ResNetOptions &resnet);

// `depth`: 11, 13, 16 or 19. Throws std::runtime_error unless five halvings leave something of the image.
struct VggOptions {
  int64_t depth = 16;
  bool batchNorm = false;
};
onnx::ModelProto makeVgg(const ParameterOptions &parameters, const VisionOptions &options, const VggOptions &vgg);

// `version`: 1 (depthwise separable convolutions) or 2 (inverted residuals).
onnx::ModelProto makeMobileNet(const ParameterOptions &parameters, const VisionOptions &options, int64_t version);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_VISION_MODELS_H
