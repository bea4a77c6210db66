// SPDX-License-Identifier: Apache-2.0
//
// ONNX messages of a graph, and the random values of its parameters.

#include "tools/ashlar_zoo/model_builder.h"

#include "dialects/nn/ops/philox.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace ashlar::zoo {

namespace {

// The oldest versions of the format that may hold the operators, up to opset 17 and 23.
constexpr int64_t kIrVersion = 8, kNewIrVersion = 11;
constexpr const char *kBatch = "batch";

void setShape(onnx::ValueInfoProto *value, const std::string &name, const ModelBuilder::Shape &shape, onnx::TensorProto::DataType element) {
  value->set_name(name);
  onnx::TypeProto::Tensor *type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(element);
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

ModelBuilder::ModelBuilder(const std::string &name, const ParameterOptions &options, int64_t opset) : options(options) {
  model.set_ir_version(opset <= kOpset ? kIrVersion : kNewIrVersion);
  model.set_producer_name("ashlar-zoo");
  onnx::OperatorSetIdProto *operators = model.add_opset_import();
  operators->set_domain("");
  operators->set_version(opset);
  model.mutable_graph()->set_name(name);
}

std::string ModelBuilder::addInput(const std::string &name, const Shape &shape, onnx::TensorProto::DataType type) {
  setShape(model.mutable_graph()->add_input(), name, shape, type);
  return name;
}

onnx::TensorProto *ModelBuilder::addInitializer(const std::string &name, const Shape &shape) {
  onnx::TensorProto *tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->mutable_dims()->Assign(shape.begin(), shape.end());
  int64_t bytes = std::accumulate(shape.begin(), shape.end(), int64_t(sizeof(float)), std::multiplies<>());
  parameterBytes += bytes;
  if (parameterBytes > std::numeric_limits<int32_t>::max()) {
    throw std::runtime_error("the parameters have more bytes than the 2147483647 of a protobuf message; use --no-data");
  }
  tensor->mutable_raw_data()->resize(bytes);
  return tensor;
}

std::string ModelBuilder::addParameter(const std::string &name, const Shape &shape, int64_t fanIn, double gain) {
  if (!options.withData) {
    return addInput(name, shape);
  }
  if (options.fill) {
    return addFilledParameter(name, shape, *options.fill);
  }
  onnx::TensorProto *tensor = addInitializer(name, shape);
  double bound = gain / std::sqrt(static_cast<double>(fanIn));
  uint32_t stream = hashName(name);
  std::string *bytes = tensor->mutable_raw_data();
  for (size_t i = 0; i < bytes->size() / sizeof(float); ++i) {
    double unit = (nn::philoxOfElement(i, options.seed, /*counter=*/0, stream)[0] >> 8) * 0x1p-24;
    float value = static_cast<float>((2 * unit - 1) * bound);
    std::memcpy(bytes->data() + i * sizeof(float), &value, sizeof(float));
  }
  return name;
}

std::string ModelBuilder::addFilledParameter(const std::string &name, const Shape &shape, float value) {
  std::string *bytes = addInitializer(name, shape)->mutable_raw_data();
  for (size_t i = 0; i < bytes->size(); i += sizeof(float)) {
    std::memcpy(bytes->data() + i, &value, sizeof(float));
  }
  return name;
}

std::string ModelBuilder::addConstant(const std::string &name, const Shape &shape, const std::vector<int64_t> &elements) {
  std::string result = addNode("Constant", name, {});
  onnx::TensorProto *tensor = addAttribute("value", onnx::AttributeProto::TENSOR)->mutable_t();
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->mutable_dims()->Assign(shape.begin(), shape.end());
  tensor->mutable_int64_data()->Assign(elements.begin(), elements.end());
  return result;
}

std::string ModelBuilder::addConstant(const std::string &name, const Shape &shape, const std::vector<float> &elements) {
  std::string result = addNode("Constant", name, {});
  onnx::TensorProto *tensor = addAttribute("value", onnx::AttributeProto::TENSOR)->mutable_t();
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->mutable_dims()->Assign(shape.begin(), shape.end());
  tensor->mutable_float_data()->Assign(elements.begin(), elements.end());
  return result;
}

std::string ModelBuilder::addNode(const std::string &type, const std::string &name, const Names &inputs) {
  onnx::NodeProto *node = model.mutable_graph()->add_node();
  node->set_op_type(type);
  node->set_name(name);
  for (const std::string &input : inputs) {
    node->add_input(input);
  }
  return *node->add_output() = name + ".out";
}

onnx::AttributeProto *ModelBuilder::addAttribute(const std::string &name, onnx::AttributeProto::AttributeType type) {
  onnx::GraphProto *graph = model.mutable_graph();
  onnx::AttributeProto *attribute = graph->mutable_node(graph->node_size() - 1)->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

std::string ModelBuilder::addResult(const std::string &name) {
  onnx::GraphProto *graph = model.mutable_graph();
  return *graph->mutable_node(graph->node_size() - 1)->add_output() = name;
}

void ModelBuilder::setFloat(const std::string &name, float value) {
  addAttribute(name, onnx::AttributeProto::FLOAT)->set_f(value);
}

void ModelBuilder::setInt(const std::string &name, int64_t value) {
  addAttribute(name, onnx::AttributeProto::INT)->set_i(value);
}

void ModelBuilder::setInts(const std::string &name, const std::vector<int64_t> &values) {
  addAttribute(name, onnx::AttributeProto::INTS)->mutable_ints()->Assign(values.begin(), values.end());
}

void ModelBuilder::setString(const std::string &name, const std::string &value) {
  addAttribute(name, onnx::AttributeProto::STRING)->set_s(value);
}

void ModelBuilder::setStrings(const std::string &name, const Names &values) {
  onnx::AttributeProto *attribute = addAttribute(name, onnx::AttributeProto::STRINGS);
  for (const std::string &value : values) {
    attribute->add_strings(value);
  }
}

void ModelBuilder::setDomain(const std::string &domain, int64_t version) {
  model.mutable_graph()->mutable_node(model.graph().node_size() - 1)->set_domain(domain);
  for (const onnx::OperatorSetIdProto &opset : model.opset_import()) {
    if (opset.domain() == domain) {
      return;
    }
  }
  onnx::OperatorSetIdProto *opset = model.add_opset_import();
  opset->set_domain(domain);
  opset->set_version(version);
}

std::string ModelBuilder::addOutput(const std::string &output, const Shape &shape) {
  onnx::GraphProto *graph = model.mutable_graph();
  graph->mutable_node(graph->node_size() - 1)->set_output(0, output);
  setShape(graph->add_output(), output, shape, onnx::TensorProto::FLOAT);
  return output;
}

onnx::ModelProto ModelBuilder::finish(const std::string &output, const Shape &shape) {
  addOutput(output, shape);
  return std::move(model);
}

} // namespace ashlar::zoo
