// SPDX-License-Identifier: Apache-2.0
//
// Building, importing and running test models.

#include "test/unit/frontend/onnx_model.h"

#include "compiler/reference/interpreter.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

using namespace mlir;

namespace ashlar::test {

TemporaryFile::TemporaryFile(const std::string &contents, const std::string &suffix) {
  path = "/tmp/ashlar_test_XXXXXX" + suffix;
  int file = mkstemps(path.data(), static_cast<int>(suffix.size()));
  REQUIRE(file >= 0);
  close(file);
  std::ofstream(path, std::ios::binary) << contents;
}

TemporaryFile::~TemporaryFile() {
  std::remove(path.c_str());
}

onnx::TensorProto tensorProto(const std::string &name, int32_t type, std::vector<int64_t> dims, std::vector<double> values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (int64_t dim : dims) {
    tensor.add_dims(dim);
  }
  for (double value : values) {
    switch (type) {
    case onnx::TensorProto::FLOAT:
      tensor.add_float_data(static_cast<float>(value));
      break;
    case onnx::TensorProto::DOUBLE:
      tensor.add_double_data(value);
      break;
    case onnx::TensorProto::INT64:
      tensor.add_int64_data(static_cast<int64_t>(value));
      break;
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
      tensor.add_uint64_data(static_cast<uint64_t>(value));
      break;
    default: // the small types; of 16-bit floats the value is the bits
      tensor.add_int32_data(static_cast<int32_t>(value));
    }
  }
  return tensor;
}

OnnxModel::OnnxModel(int64_t opset) {
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(opset);
  proto.mutable_graph()->set_name("test");
}

OnnxModel &OnnxModel::input(const std::string &name, std::vector<Dim> dims, int32_t type) {
  onnx::ValueInfoProto *value = proto.mutable_graph()->add_input();
  value->set_name(name);
  onnx::TypeProto::Tensor *tensor = value->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const Dim &dim : dims) {
    auto *added = tensor->mutable_shape()->add_dim();
    if (const int64_t *size = std::get_if<int64_t>(&dim)) {
      added->set_dim_value(*size);
    } else {
      added->set_dim_param(std::get<std::string>(dim));
    }
  }
  return *this;
}

OnnxModel &OnnxModel::initializer(const std::string &name, int32_t type, std::vector<int64_t> dims, std::vector<double> values) {
  *proto.mutable_graph()->add_initializer() = tensorProto(name, type, std::move(dims), std::move(values));
  return *this;
}

OnnxModel &OnnxModel::ints(const std::string &name, std::vector<double> values) {
  auto size = static_cast<int64_t>(values.size());
  return initializer(name, onnx::TensorProto::INT64, {size}, std::move(values));
}

OnnxModel &OnnxModel::node(const std::string &op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                           std::vector<Attribute> attributes, const std::string &name) {
  onnx::NodeProto *node = proto.mutable_graph()->add_node();
  size_t dot = op.rfind('.');
  node->set_domain(dot == std::string::npos ? "" : op.substr(0, dot));
  node->set_op_type(op.substr(dot + 1));
  node->set_name(name);
  for (const std::string &input : inputs) {
    node->add_input(input);
  }
  for (const std::string &output : outputs) {
    node->add_output(output);
  }
  for (const Attribute &attribute : attributes) {
    onnx::AttributeProto *added = node->add_attribute();
    added->set_name(attribute.name);
    if (auto *i = std::get_if<int64_t>(&attribute.value)) {
      added->set_type(onnx::AttributeProto::INT);
      added->set_i(*i);
    } else if (auto *f = std::get_if<float>(&attribute.value)) {
      added->set_type(onnx::AttributeProto::FLOAT);
      added->set_f(*f);
    } else if (auto *s = std::get_if<std::string>(&attribute.value)) {
      added->set_type(onnx::AttributeProto::STRING);
      added->set_s(*s);
    } else if (auto *is = std::get_if<std::vector<int64_t>>(&attribute.value)) {
      added->set_type(onnx::AttributeProto::INTS);
      added->mutable_ints()->Add(is->begin(), is->end());
    } else if (auto *fs = std::get_if<std::vector<float>>(&attribute.value)) {
      added->set_type(onnx::AttributeProto::FLOATS);
      added->mutable_floats()->Add(fs->begin(), fs->end());
    } else if (auto *ss = std::get_if<std::vector<std::string>>(&attribute.value)) {
      added->set_type(onnx::AttributeProto::STRINGS);
      added->mutable_strings()->Add(ss->begin(), ss->end());
    } else {
      added->set_type(onnx::AttributeProto::TENSOR);
      *added->mutable_t() = std::get<onnx::TensorProto>(attribute.value);
    }
  }
  return *this;
}

OnnxModel parseModel(const std::string &text) {
  OnnxModel model;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &model.proto));
  return model;
}

OnnxModel &OnnxModel::output(const std::string &name) {
  proto.mutable_graph()->add_output()->set_name(name);
  return *this;
}

std::vector<ImportedModel> &importedModels() {
  static std::vector<ImportedModel> models;
  return models;
}

OwningOpRef<ModuleOp> import(const OnnxModel &model, const frontend::ImportOptions &options) {
  const std::string bytes = model.proto.SerializeAsString();
  TemporaryFile file(bytes);
  auto module = frontend::importOnnx(file.getPath(), options, &context());
  if (!module) {
    std::string message = llvm::toString(module.takeError());
    REQUIRE(message.rfind(file.getPath() + ": ", 0) == 0);
    throw std::runtime_error("model.onnx" + message.substr(file.getPath().size()));
  }
  if (constexpr size_t kMostBytes = 1 << 13; bytes.size() <= kMostBytes) {
    importedModels().push_back({model.proto, options, Catch::getResultCapture().getCurrentTestName()});
  }
  return std::move(*module);
}

std::string importError(const OnnxModel &model, const frontend::ImportOptions &options) {
  try {
    return "no error but\n" + print(*import(model, options));
  } catch (const std::runtime_error &error) {
    return error.what();
  }
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().elideLargeResourceString(/*largeResourceLimit=*/64));
  return text;
}

reference::Tensor makeTensor(Type element, std::vector<int64_t> shape, std::vector<double> values) {
  reference::Tensor tensor(RankedTensorType::get(shape, element));
  REQUIRE(tensor.getNumElements() == static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.isFloat() ? tensor.setFloat(i, values[i]) : tensor.setInt(i, static_cast<int64_t>(values[i]));
  }
  return tensor;
}

reference::Tensor f32(std::vector<int64_t> shape, std::vector<double> values) {
  return makeTensor(Float32Type::get(&context()), std::move(shape), std::move(values));
}
reference::Tensor i64(std::vector<int64_t> shape, std::vector<double> values) {
  return makeTensor(IntegerType::get(&context(), 64), std::move(shape), std::move(values));
}
reference::Tensor boolean(std::vector<int64_t> shape, std::vector<double> values) {
  return makeTensor(IntegerType::get(&context(), 1), std::move(shape), std::move(values));
}

std::vector<reference::Tensor> evaluate(const OnnxModel &model, std::vector<reference::Tensor> inputs,
                                        const frontend::ImportOptions &options) {
  OwningOpRef<ModuleOp> module = import(model, options);
  INFO(print(*module));
  reference::Interpreter interpreter(*module);
  std::vector<reference::RankTensors> ranks;
  for (reference::Tensor &input : inputs) {
    ranks.push_back({std::move(input)});
  }
  auto results = interpreter.run("forward", ranks);
  REQUIRE(succeeded(results));
  std::vector<reference::Tensor> tensors;
  for (reference::RankTensors &result : *results) {
    tensors.push_back(std::move(result.front()));
  }
  return tensors;
}

bool holds(const reference::Tensor &tensor, std::vector<int64_t> shape, std::vector<double> values) {
  bool equal = tensor.getShape() == ArrayRef<int64_t>(shape) && tensor.getNumElements() == static_cast<int64_t>(values.size());
  for (size_t i = 0; equal && i < values.size(); ++i) {
    double value = tensor.getNumber(i);
    bool near = std::isfinite(values[i]) && std::abs(value - values[i]) <= 1e-6 * std::max(1.0, std::abs(values[i]));
    equal = near || value == values[i] || (std::isnan(value) && std::isnan(values[i]));
  }
  if (!equal) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    tensor.print(stream);
    WARN("the tensor is " + text);
  }
  return equal;
}

} // namespace ashlar::test
