// SPDX-License-Identifier: Apache-2.0
//
// Nodes of one input with numbers recorded from elsewhere: ONNX Runtime 1.32, where it and the reference evaluator of ONNX 1.23 agree.

#ifndef ASHLAR_TEST_UNIT_FRONTEND_RECORDED_H
#define ASHLAR_TEST_UNIT_FRONTEND_RECORDED_H

#include "test/unit/frontend/onnx_model.h"

namespace ashlar::test {

// An input of a node besides the first: floats or integers, known at import; neither for one that is left out.
struct Known {
  std::vector<double> values;
  int isInt = -1;
};

struct Recorded {
  std::string op;
  int64_t opset;
  std::vector<Attribute> attributes;
  std::vector<int64_t> shape; // of the input, ramp(shape)
  std::vector<Known> known;
  std::vector<int64_t> resultShape;
  std::vector<double> result;
};

// Returns the numbers that all of them were recorded with: no two alike among 101 neighbours, exact in f32.
inline reference::Tensor ramp(std::vector<int64_t> shape) {
  std::vector<double> values(llvm::product_of(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<double>(i * 37 % 101) - 50) / 8;
  }
  return f32(std::move(shape), std::move(values));
}

// Returns the model of the node; its result `number` is the output.
inline OnnxModel modelOf(const Recorded &row, size_t number = 0) {
  OnnxModel model(row.opset);
  model.input("x", std::vector<Dim>(row.shape.begin(), row.shape.end()));
  std::vector<std::string> inputs = {"x"};
  for (const auto &[i, known] : llvm::enumerate(row.known)) {
    inputs.push_back(known.isInt < 0 ? "" : "k" + std::to_string(i));
    if (known.isInt >= 0) {
      auto type = known.isInt ? onnx::TensorProto::INT64 : onnx::TensorProto::FLOAT;
      model.initializer(inputs.back(), type, {static_cast<int64_t>(known.values.size())}, known.values);
    }
  }
  std::vector<std::string> outputs = number == 0 ? std::vector<std::string>{"y"} : std::vector<std::string>{"", "y"};
  return model.node(row.op, inputs, outputs, row.attributes).output("y");
}

inline void checkRecorded(const std::vector<Recorded> &rows, size_t number = 0) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Recorded &row = rows[i];
    INFO("row " << i << ": " << row.op << ", opset " << row.opset);
    reference::Tensor result = evaluate(modelOf(row, number), {ramp(row.shape)})[0];
    CHECK(holds(result, row.resultShape, row.result));
  }
}

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_FRONTEND_RECORDED_H
