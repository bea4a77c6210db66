// SPDX-License-Identifier: Apache-2.0
//
// Puts an ONNX model together: inputs, parameters, constants and nodes, each known by the name of its value.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_MODEL_BUILDER_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_MODEL_BUILDER_H

#include "compiler/frontend/onnx_proto.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::zoo {

// How parameters get their first value.
struct ParameterOptions {
  bool withData = true;      // false: graph inputs without an initializer, for a job's init rules
  int64_t seed = 1;          // of the uniform values
  std::optional<float> fill; // every element; without: uniform, by fan-in
};

// The gain of a parameter with a ReLU after it, by He et al. (2015): the result has the variance of the operand.
inline constexpr double kReluGain = 2.449489742783178; // sqrt(6)

class ModelBuilder {
public:
  using Shape = std::vector<int64_t>; // -1: the batch, symbolic
  using Names = std::vector<std::string>;

  static constexpr int64_t kOpset = 17; // the newest that ONNX 1.12 writes

  ModelBuilder(const std::string &name, const ParameterOptions &options, int64_t opset = kOpset);

  // A model input; returns its name.
  std::string addInput(const std::string &name, const Shape &shape, onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT);

  // A parameter, filled by the options: `fanIn` bounds its random values, to gain / sqrt(fanIn). Throws std::runtime_error when the data of
  // all parameters no longer fit into an ONNX file. Returns its name.
  std::string addParameter(const std::string &name, const Shape &shape, int64_t fanIn, double gain = 1);

  // A parameter with all elements equal, whatever the options; returns its name.
  std::string addFilledParameter(const std::string &name, const Shape &shape, float value);

  // A Constant node; returns the name of its value.
  std::string addConstant(const std::string &name, const Shape &shape, const std::vector<int64_t> &elements);
  std::string addConstant(const std::string &name, const Shape &shape, const std::vector<float> &elements);

  // A node called `name` with one result; returns the name of the result.
  std::string addNode(const std::string &type, const std::string &name, const Names &inputs);

  // A further result of the node added last; returns its name.
  std::string addResult(const std::string &name);

  // Sets an attribute of the node added last.
  void setFloat(const std::string &name, float value);
  void setInt(const std::string &name, int64_t value);
  void setInts(const std::string &name, const std::vector<int64_t> &values);
  void setString(const std::string &name, const std::string &value);
  void setStrings(const std::string &name, const Names &values);

  // Makes the node added last one of the domain, at this version.
  void setDomain(const std::string &domain, int64_t version);

  // Makes the result of the last node an f32 output of the model, under a name of its own, which it returns.
  std::string addOutput(const std::string &output, const Shape &shape);

  // Does the same for the last output, and returns the model.
  onnx::ModelProto finish(const std::string &output, const Shape &shape);

private:
  onnx::TensorProto *addInitializer(const std::string &name, const Shape &shape);
  onnx::AttributeProto *addAttribute(const std::string &name, onnx::AttributeProto::AttributeType type);

  onnx::ModelProto model;
  ParameterOptions options;
  int64_t parameterBytes = 0;
};

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_MODEL_BUILDER_H
