// SPDX-License-Identifier: Apache-2.0
//
// Layers on images. A layer at path "layer1/0/conv1" has parameters "layer1.0.conv1.weight" and so on.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_IMAGE_LAYERS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_IMAGE_LAYERS_H

#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

// A value (batch, channels, size, size).
struct Image {
  std::string name;
  int64_t channels = 0, size = 0;
};

// A value (batch, count).
struct Features {
  std::string name;
  int64_t count = 0;
};

struct ConvSizes {
  int64_t channels, kernel, stride; // of the result; height and width of the window; distance between two
  int64_t groups = 1;
  bool bias = false;
  bool padded = true; // by half the window on each side
};

class ImageLayers {
public:
  explicit ImageLayers(ModelBuilder &b) : b(b) {}

  Image input(int64_t channels, int64_t size);
  Image conv(const std::string &path, const Image &x, const ConvSizes &sizes);
  Image batchNorm(const std::string &path, const Image &x);
  Image relu6(const std::string &path, const Image &x);
  Image maxPool(const std::string &path, const Image &x, int64_t kernel, int64_t stride); // padded by half of an odd window
  Image globalAveragePool(const std::string &path, const Image &x);
  Features flat(const std::string &path, const Image &x);
  Features denseLayer(const std::string &path, const Features &x, int64_t count);
  Features dropout(const std::string &path, const Features &x, float ratio);

  // A dense layer whose result is the model's; returns its name.
  std::string dense(const std::string &path, const Features &x, int64_t count) { return denseLayer(path, x, count).name; }

  // max(x, 0) of an Image or of Features.
  template <typename Value> Value relu(const std::string &path, Value x) {
    x.name = b.addNode("Relu", path, {x.name});
    return x;
  }

private:
  ModelBuilder &b;
};

// Adds the mean of the cross entropy of `logits` (batch, classes) with input "labels" (batch) i64 in the small ops that it is written in
// where a framework has none for it: max, sub, exp, sum, div, equal, log, mul, sum, mul, mean.
void addExpandedLoss(ModelBuilder &b, const std::string &logits, int64_t classes);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_IMAGE_LAYERS_H
