// SPDX-License-Identifier: Apache-2.0
//
// Models of one fused kernel each, and a chain of any length, for benchmarks.

#include "tools/ashlar_zoo/models.h"

namespace ashlar::zoo {

onnx::ModelProto makeElementwise(int64_t elements) {
  ModelBuilder b("elementwise", {});
  std::string x = b.addInput("x", {elements}), residual = b.addInput("residual", {elements});
  std::string scaled = b.addNode("Mul", "scaled", {x, b.addConstant("scale", {}, std::vector<float>{0.5f})});
  b.addNode("Add", "sum", {b.addNode("Relu", "relu", {scaled}), residual});
  return b.finish("y", {elements});
}

onnx::ModelProto makeChain(int64_t nodes) {
  constexpr int64_t kElements = 4096;
  ModelBuilder b("chain", {});
  std::string x = b.addInput("x", {kElements}), last = x;
  uint32_t bits = 0;
  for (int64_t i = 0; i < nodes; ++i) {
    std::string name = "node" + std::to_string(i);
    // Signs that do not repeat, so that no two stretches of the chain share a kernel.
    bits = bits * 1664525u + 1013904223u;
    bool adds = bits >> 31;
    last = i % 2 ? b.addNode(i % 4 == 1 ? "Relu" : "Tanh", name, {last}) : b.addNode(adds ? "Add" : "Sub", name, {last, x});
  }
  return b.finish("y", {kElements});
}

onnx::ModelProto makeSoftmax(int64_t rows, int64_t columns) {
  ModelBuilder b("softmax", {});
  b.addNode("Softmax", "softmax", {b.addInput("x", {rows, columns})});
  b.setInt("axis", -1);
  return b.finish("y", {rows, columns});
}

onnx::ModelProto makeCrossEntropy(int64_t rows, int64_t classes) {
  ModelBuilder b("cross_entropy", {});
  std::string logits = b.addInput("logits", {rows, classes});
  b.addNode("SoftmaxCrossEntropyLoss", "cross_entropy", {logits, b.addInput("labels", {rows}, onnx::TensorProto::INT64)});
  b.setString("reduction", "none");
  return b.finish("loss", {rows});
}

onnx::ModelProto makeAdamW(int64_t elements) {
  ModelBuilder b("adamw", {});
  auto scalar = [&](const std::string &name, float value) { return b.addConstant(name, {}, std::vector<float>{value}); };
  auto input = [&](const std::string &name) { return b.addInput(name, {elements}); };
  std::string w = input("w"), g = input("g"), m = input("m"), v = input("v");
  // m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g g;  w' = w - rate (m' / (sqrt(v') + epsilon) + decay w)
  auto mix = [&](const std::string &name, const std::string &old, const std::string &fresh, float beta) {
    std::string kept = b.addNode("Mul", name + ".kept", {old, scalar(name + ".beta", beta)});
    b.addNode("Add", name, {kept, b.addNode("Mul", name + ".added", {fresh, scalar(name + ".rest", 1 - beta)})});
  };
  mix("m.mixed", m, g, 0.9f);
  std::string mNew = b.addOutput("m_new", {elements});
  mix("v.mixed", v, b.addNode("Mul", "squared", {g, g}), 0.999f);
  std::string vNew = b.addOutput("v_new", {elements});
  std::string root = b.addNode("Add", "denominator", {b.addNode("Sqrt", "root", {vNew}), scalar("epsilon", 1e-6f)});
  std::string decay = b.addNode("Mul", "decayed", {w, scalar("decay", 0.01f)});
  std::string direction = b.addNode("Add", "direction", {b.addNode("Div", "ratio", {mNew, root}), decay});
  b.addNode("Sub", "updated", {w, b.addNode("Mul", "change", {direction, scalar("rate", 0.001f)})});
  return b.finish("w_new", {elements});
}

} // namespace ashlar::zoo
