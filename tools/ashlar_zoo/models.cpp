// SPDX-License-Identifier: Apache-2.0
//
// The example models, layer by layer.

#include "tools/ashlar_zoo/models.h"

namespace ashlar::zoo {

onnx::ModelProto makeLinear(const ParameterOptions &options) {
  ParameterOptions filled = options;
  filled.fill = 0.02f;
  ModelBuilder builder("linear", "input", /*features=*/2, filled);
  builder.addDense("dense", 1);
  return builder.finish("output");
}

onnx::ModelProto makeMlp(const ParameterOptions &options, int64_t layers, int64_t width) {
  ModelBuilder builder("mlp", "input", /*features=*/28 * 28, options);
  for (int64_t i = 1; i < layers; ++i) {
    builder.addDense("fc" + std::to_string(i), width);
    builder.addRelu("relu" + std::to_string(i));
  }
  builder.addDense("fc" + std::to_string(layers), 10);
  return builder.finish("logits");
}

onnx::ModelProto makeDenseLayers(const ParameterOptions &options) {
  ModelBuilder builder("dense_layers", "input", /*features=*/10, options);
  for (const char *layer : {"layer1", "layer2", "layer3"}) {
    builder.addDense(std::string(layer) + ".input_mapping", 10);
    builder.addDense(std::string(layer) + ".output_mapping", 10);
  }
  return builder.finish("output");
}

} // namespace ashlar::zoo
