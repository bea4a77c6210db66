// SPDX-License-Identifier: Apache-2.0
//
// Puts an ONNX model together: dense layers and activations between one input and one output.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_MODEL_BUILDER_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_MODEL_BUILDER_H

#include "compiler/frontend/onnx_proto.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ashlar::zoo {

// How parameters get their first value.
struct ParameterOptions {
  bool withData = true;      // false: graph inputs without an initializer, for a job's init rules
  int64_t seed = 1;          // of the uniform values
  std::optional<float> fill; // every element; without: U(-1/sqrt(fan_in), 1/sqrt(fan_in))
};

class ModelBuilder {
public:
  // A model named `name` with the input (batch, features), batch symbolic.
  ModelBuilder(const std::string &name, const std::string &input, int64_t features, const ParameterOptions &options);

  // y = x W^T + b by a Gemm node called `name`; parameters `name`.weight (out, in) and `name`.bias. Throws std::runtime_error when their
  // data no longer fits into an ONNX file.
  void addDense(const std::string &name, int64_t out);

  // A Relu node called `name`.
  void addRelu(const std::string &name);

  // Names the value at hand as the model's output and returns the model.
  onnx::ModelProto finish(const std::string &output);

private:
  void addParameter(const std::string &name, std::initializer_list<int64_t> shape, int64_t fanIn);
  onnx::NodeProto *addNode(const std::string &type, const std::string &name);

  onnx::ModelProto model;
  ParameterOptions options;
  std::string current; // name of the value at hand
  int64_t features;    // its last dim
  int64_t parameterBytes = 0;
};

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_MODEL_BUILDER_H
