// SPDX-License-Identifier: Apache-2.0
//
// A Constant node holds a tensor, a float or floats.

#include "compiler/frontend/weights/constant_parameters.h"

#include "compiler/frontend/tensor_data.h"
#include "compiler/frontend/weights/scalar_parameters.h"

#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

namespace ashlar::frontend {

std::optional<onnx::TensorProto> readConstantFloats(const onnx::NodeProto &node) {
  if (node.op_type() != "Constant" || node.output_size() != 1) {
    return std::nullopt;
  }
  onnx::TensorProto tensor;
  if (const onnx::AttributeProto *value = findAttribute(node, "value"); value && isFloat(value->t().data_type())) {
    tensor = value->t();
  } else if (const onnx::AttributeProto *one = findAttribute(node, "value_float")) {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_float_data(one->f());
  } else if (const onnx::AttributeProto *several = findAttribute(node, "value_floats")) {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(several->floats_size());
    *tensor.mutable_float_data() = several->floats();
  } else {
    return std::nullopt;
  }
  tensor.set_name(node.output(0));
  return tensor;
}

void liftConstants(onnx::GraphProto &graph, const ParameterRules &rules, const llvm::StringSet<> &known, ModelEdits &edits) {
  auto lift = [&](const onnx::NodeProto &node) {
    if (node.op_type() != "Constant" || node.output_size() != 1 || known.contains(node.output(0)) ||
        !rules.isTrained(node.output(0), /*isScalar=*/false)) {
      return false;
    }
    std::optional<onnx::TensorProto> tensor = readConstantFloats(node);
    if (!tensor || (tensor->dims_size() == 0 && !rules.isTrained(node.output(0), /*isScalar=*/true))) {
      return false;
    }
    edits.added.push_back({node.output(0), node.output(0)});
    edits.dropped.push_back(node.output(0));
    graph.add_initializer()->Swap(&*tensor);
    return true;
  };
  auto *nodes = graph.mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), lift), nodes->end());
}

std::vector<std::string> findConstantWeights(const onnx::GraphProto &graph, const BufferFinder &buffers, const llvm::StringSet<> &known) {
  std::vector<std::string> names;
  for (const onnx::NodeProto &node : graph.node()) {
    std::optional<onnx::TensorProto> tensor = readConstantFloats(node);
    if (!tensor || tensor->dims_size() == 0 || known.contains(tensor->name())) {
      continue;
    }
    const bool isOne = llvm::all_of(tensor->dims(), [](int64_t size) { return size == 1; });
    if (!isOne && buffers.isRead(tensor->name()) && buffers.findReason(*tensor).empty()) {
      names.push_back(tensor->name());
    }
  }
  return names;
}

} // namespace ashlar::frontend
