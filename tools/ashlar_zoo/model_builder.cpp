// SPDX-License-Identifier: Apache-2.0
//
// ONNX messages for dense layers, and the random values of their parameters.

#include "tools/ashlar_zoo/model_builder.h"

#include "compiler/reference/philox.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace ashlar::zoo {

namespace {

constexpr int64_t kIrVersion = 8; // the newest pair that ONNX 1.12 writes
constexpr int64_t kOpset = 17;
constexpr const char *kBatch = "batch";

void setShape(onnx::ValueInfoProto *value, const std::string &name, std::initializer_list<int64_t> shape) {
  value->set_name(name);
  onnx::TypeProto::Tensor *type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape();
  for (int64_t size : shape) {
    auto *dim = type->mutable_shape()->add_dim();
    size < 0 ? dim->set_dim_param(kBatch) : dim->set_dim_value(size);
  }
}

// 32-bit FNV-1a: each parameter draws from its own stream.
uint32_t hashName(const std::string &name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name) {
    hash = (hash ^ c) * 16777619u;
  }
  return hash;
}

} // namespace

ModelBuilder::ModelBuilder(const std::string &name, const std::string &input, int64_t features, const ParameterOptions &options)
    : options(options), current(input), features(features) {
  model.set_ir_version(kIrVersion);
  model.set_producer_name("ashlar-zoo");
  onnx::OperatorSetIdProto *opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kOpset);
  model.mutable_graph()->set_name(name);
  setShape(model.mutable_graph()->add_input(), input, {-1, features});
}

void ModelBuilder::addParameter(const std::string &name, std::initializer_list<int64_t> shape, int64_t fanIn) {
  if (!options.withData) {
    setShape(model.mutable_graph()->add_input(), name, shape);
    return;
  }
  onnx::TensorProto *tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (int64_t size : shape) {
    tensor->add_dims(size);
    count *= size;
  }
  parameterBytes += count * static_cast<int64_t>(sizeof(float));
  if (parameterBytes > std::numeric_limits<int32_t>::max()) {
    throw std::runtime_error("the parameters have more bytes than the 2147483647 of a protobuf message; use --no-data");
  }
  double bound = 1 / std::sqrt(static_cast<double>(fanIn));
  uint32_t stream = hashName(name);
  std::string *bytes = tensor->mutable_raw_data();
  bytes->resize(count * sizeof(float));
  for (int64_t i = 0; i < count; ++i) {
    double unit = (reference::philoxOfElement(i, options.seed, /*counter=*/0, stream)[0] >> 8) * 0x1p-24;
    float value = options.fill.value_or(static_cast<float>((2 * unit - 1) * bound));
    std::memcpy(bytes->data() + i * sizeof(float), &value, sizeof(float));
  }
}

onnx::NodeProto *ModelBuilder::addNode(const std::string &type, const std::string &name) {
  onnx::NodeProto *node = model.mutable_graph()->add_node();
  node->set_op_type(type);
  node->set_name(name);
  node->add_input(current);
  current = name + ".out";
  node->add_output(current);
  return node;
}

void ModelBuilder::addDense(const std::string &name, int64_t out) {
  addParameter(name + ".weight", {out, features}, features);
  addParameter(name + ".bias", {out}, features);
  onnx::NodeProto *node = addNode("Gemm", name);
  node->add_input(name + ".weight");
  node->add_input(name + ".bias");
  onnx::AttributeProto *transpose = node->add_attribute();
  transpose->set_name("transB");
  transpose->set_type(onnx::AttributeProto::INT);
  transpose->set_i(1);
  features = out;
}

void ModelBuilder::addRelu(const std::string &name) {
  addNode("Relu", name);
}

onnx::ModelProto ModelBuilder::finish(const std::string &output) {
  onnx::GraphProto *graph = model.mutable_graph();
  graph->mutable_node(graph->node_size() - 1)->set_output(0, output);
  setShape(graph->add_output(), output, {-1, features});
  return std::move(model);
}

} // namespace ashlar::zoo
