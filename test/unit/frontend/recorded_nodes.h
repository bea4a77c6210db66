// SPDX-License-Identifier: Apache-2.0
//
// Nodes of several inputs with numbers recorded from elsewhere: the reference evaluator of ONNX 1.23.

#ifndef ASHLAR_TEST_UNIT_FRONTEND_RECORDED_NODES_H
#define ASHLAR_TEST_UNIT_FRONTEND_RECORDED_NODES_H

#include "test/unit/frontend/onnx_model.h"

namespace ashlar::test {

// An input: the floats of nodeRamp(shape, k) for input k; or integers that stand here, bools for the mask of an attention. Neither: left
// out.
struct NodeInput {
  std::vector<int64_t> shape;
  std::vector<double> values;

  bool isGiven() const { return !shape.empty() || !values.empty(); }
};

struct NodeOutput {
  size_t index;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

struct RecordedNode {
  std::string op;
  int64_t opset;
  std::vector<Attribute> attributes;
  std::vector<NodeInput> inputs;
  std::vector<NodeOutput> outputs;

  bool isMask(size_t input) const { return op == "Attention" && input == 3; }
  // Whether integers are computed; else they have to be known.
  bool hasComputedIntegers() const { return op == "Attention" || op == "RotaryEmbedding"; }
};

inline reference::Tensor nodeRamp(std::vector<int64_t> shape, size_t input) {
  std::vector<double> values(llvm::product_of(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<double>((i + 17 * input) * 37 % 101) - 50) / 32;
  }
  return f32(std::move(shape), std::move(values));
}

inline OnnxModel modelOf(const RecordedNode &row) {
  OnnxModel model(row.opset);
  std::vector<std::string> inputs, outputs(row.outputs.back().index + 1);
  for (const auto &[i, input] : llvm::enumerate(row.inputs)) {
    inputs.push_back(input.isGiven() ? "i" + std::to_string(i) : "");
    std::vector<Dim> dims(input.shape.begin(), input.shape.end());
    if (!input.isGiven()) {
      continue;
    }
    if (input.values.empty()) {
      model.input(inputs.back(), dims);
    } else if (row.hasComputedIntegers()) {
      model.input(inputs.back(), dims, row.isMask(i) ? onnx::TensorProto::BOOL : onnx::TensorProto::INT64);
    } else {
      model.initializer(inputs.back(), onnx::TensorProto::INT64, input.shape, input.values);
    }
  }
  for (const NodeOutput &output : row.outputs) {
    outputs[output.index] = "o" + std::to_string(output.index);
    model.output(outputs[output.index]);
  }
  return model.node(row.op, inputs, outputs, row.attributes, "n");
}

inline void checkRecordedNodes(const std::vector<RecordedNode> &rows) {
  for (const auto &[number, row] : llvm::enumerate(rows)) {
    INFO("row " << number << ": " << row.op << ", opset " << row.opset);
    std::vector<reference::Tensor> inputs;
    for (const auto &[i, input] : llvm::enumerate(row.inputs)) {
      if (input.isGiven() && input.values.empty()) {
        inputs.push_back(nodeRamp(input.shape, i));
      } else if (input.isGiven() && row.hasComputedIntegers()) {
        inputs.push_back(row.isMask(i) ? boolean(input.shape, input.values) : i64(input.shape, input.values));
      }
    }
    std::vector<reference::Tensor> results = evaluate(modelOf(row), inputs);
    for (const auto &[i, output] : llvm::enumerate(row.outputs)) {
      INFO("output " << output.index);
      CHECK(holds(results[i], output.shape, output.values));
    }
  }
}

// The error of a node whose inputs are floats of these shapes.
inline std::string errorOf(const std::string &op, int64_t opset, std::vector<std::vector<int64_t>> shapes,
                           std::vector<Attribute> attributes = {}) {
  RecordedNode row{op, opset, std::move(attributes), {}, {{0, {}, {}}}};
  for (std::vector<int64_t> &shape : shapes) {
    row.inputs.push_back({std::move(shape), {}});
  }
  return importError(modelOf(row));
}

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_FRONTEND_RECORDED_NODES_H
