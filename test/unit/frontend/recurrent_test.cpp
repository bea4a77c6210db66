// SPDX-License-Identifier: Apache-2.0
//
// LSTM, GRU and RNN against plain loops over directions, samples, steps and units.

#include "test/unit/frontend/onnx_gradient.h"
#include "test/unit/frontend/onnx_model.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>

namespace ashlar::test::recurrent_test {

using onnx::TensorProto;

namespace {

constexpr int64_t kSteps = 4, kBatch = 3, kInputs = 2, kHidden = 2;

// A function with its numbers.
struct Function {
  std::string name;
  double alpha = 0, beta = 0;

  double operator()(double x) const {
    const std::map<std::string, double> values = {{"Affine", alpha * x + beta},
                                                  {"Elu", x > 0 ? x : alpha * std::expm1(x)},
                                                  {"HardSigmoid", std::max(0.0, std::min(1.0, alpha * x + beta))},
                                                  {"LeakyRelu", x > 0 ? x : alpha * x},
                                                  {"Relu", std::max(x, 0.0)},
                                                  {"ScaledTanh", alpha * std::tanh(beta * x)},
                                                  {"Sigmoid", 1 / (1 + std::exp(-x))},
                                                  {"Softplus", std::log1p(std::exp(x))},
                                                  {"Softsign", x / (1 + std::abs(x))},
                                                  {"Tanh", std::tanh(x)},
                                                  {"ThresholdedRelu", x > alpha ? x : 0}};
    return values.at(name);
  }
};

// A node, and which of its inputs are there. `isOther`: input_forget of an LSTM, linear_before_reset of a GRU.
struct Layer {
  std::string op, direction = "forward";
  std::vector<Function> functions = {}; // as they are computed, of all directions
  std::vector<Attribute> attributes = {};
  double clip = 1e9;
  std::vector<double> lengths = {};
  bool hasBias = true, hasStates = true, hasPeepholes = false, isOther = false, isBatchFirst = false;
  bool areLengthsKnown = true;
  int64_t steps = kSteps;

  bool isLstm() const { return op == "LSTM"; }
  int64_t gates() const { return isLstm() ? 4 : op == "GRU" ? 3 : 1; }
  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  bool isReversed(int64_t d) const { return direction == "reverse" || d == 1; }
  Function function(int64_t d, size_t i) const {
    const std::vector<Function> byDefault = {{op == "RNN" ? "Tanh" : "Sigmoid"}, {"Tanh"}, {"Tanh"}};
    return functions.empty() ? byDefault[i] : functions[static_cast<size_t>(d) * (isLstm() ? 3 : gates() == 3 ? 2 : 1) + i];
  }
};

// A tensor of numbers that follow from its place among the inputs.
struct Data {
  std::vector<int64_t> shape;
  size_t input;

  double at(std::vector<int64_t> index) const {
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      place = place * shape[d] + index[d];
    }
    return (static_cast<double>((place + 17 * static_cast<int64_t>(input)) * 37 % 101) - 50) / 64;
  }
  std::vector<double> all() const {
    std::vector<double> values;
    for (int64_t i = 0; i < llvm::product_of(shape); ++i) {
      values.push_back((static_cast<double>((i + 17 * static_cast<int64_t>(input)) * 37 % 101) - 50) / 64);
    }
    return values;
  }
};

// The inputs of a layer by place; of (batch, steps) tensors the numbers are those of (steps, batch).
std::map<size_t, Data> dataOf(const Layer &layer) {
  const int64_t d = layer.directions(), g = layer.gates();
  std::map<size_t, Data> data = {
      {0, {{layer.steps, kBatch, kInputs}, 0}}, {1, {{d, g * kHidden, kInputs}, 1}}, {2, {{d, g * kHidden, kHidden}, 2}}};
  if (layer.hasBias) {
    data[3] = {{d, 2 * g * kHidden}, 3};
  }
  for (size_t i = 5; layer.hasStates && i < (layer.isLstm() ? 7 : 6); ++i) {
    data[i] = {{d, kBatch, kHidden}, i};
  }
  if (layer.hasPeepholes) {
    data[7] = {{d, 3 * kHidden}, 7};
  }
  return data;
}

// Returns values of (a, b, size) as those of (b, a, size).
std::vector<double> swapped(const std::vector<double> &values, int64_t a, int64_t b, int64_t size) {
  std::vector<double> result;
  for (int64_t j = 0; j < b; ++j) {
    for (int64_t i = 0; i < a; ++i) {
      auto from = values.begin() + (i * b + j) * size;
      result.insert(result.end(), from, from + size);
    }
  }
  return result;
}

bool isSequence(size_t input) {
  return input == 0 || input == 5 || input == 6;
}

std::vector<int64_t> shapeOf(const Layer &layer, size_t input, const Data &data) {
  std::vector<int64_t> shape = data.shape;
  if (layer.isBatchFirst && isSequence(input)) {
    std::swap(shape[0], shape[1]);
  }
  return shape;
}

// The model with all inputs as inputs of the graph, `first` in front of the others, and lengths that are known or the last input.
OnnxModel modelOf(const Layer &layer, size_t first = 0, int64_t opset = 14) {
  OnnxModel model(opset);
  std::map<size_t, Data> data = dataOf(layer);
  auto add = [&](size_t input) {
    std::vector<int64_t> shape = shapeOf(layer, input, data.at(input));
    model.input("i" + std::to_string(input), std::vector<Dim>(shape.begin(), shape.end()), TensorProto::DOUBLE);
  };
  add(first);
  std::vector<std::string> names(8);
  for (const auto &[input, unused] : data) {
    names[input] = "i" + std::to_string(input);
    if (input != first) {
      add(input);
    }
  }
  if (!layer.lengths.empty()) {
    names[4] = "lengths";
    layer.areLengthsKnown ? model.initializer("lengths", TensorProto::INT32, {kBatch}, layer.lengths)
                          : model.input("lengths", {kBatch}, TensorProto::INT32);
  }
  while (names.back().empty()) {
    names.pop_back();
  }
  std::vector<Attribute> attributes = layer.attributes;
  attributes.push_back({"direction", layer.direction});
  attributes.push_back({"hidden_size", kHidden});
  if (layer.isOther) {
    attributes.push_back({layer.isLstm() ? "input_forget" : "linear_before_reset", int64_t{1}});
  }
  if (layer.isBatchFirst) {
    attributes.push_back({"layout", int64_t{1}});
  }
  if (layer.clip < 1e9) {
    attributes.push_back({"clip", static_cast<float>(layer.clip)});
  }
  std::vector<std::string> results = {"y", "yh", "yc"};
  results.resize(layer.isLstm() ? 3 : 2);
  model.node(layer.op, names, results, attributes, "layer");
  for (const std::string &result : results) {
    model.output(result);
  }
  return model;
}

std::vector<reference::Tensor> inputsOf(const Layer &layer, size_t first = 0) {
  std::vector<reference::Tensor> tensors;
  mlir::Builder builder(&context());
  std::map<size_t, Data> data = dataOf(layer);
  auto add = [&](size_t input) {
    std::vector<double> values = data.at(input).all();
    const std::vector<int64_t> &shape = data.at(input).shape;
    tensors.push_back(makeTensor(builder.getF64Type(), shapeOf(layer, input, data.at(input)),
                                 layer.isBatchFirst && isSequence(input) ? swapped(values, shape[0], shape[1], shape[2]) : values));
  };
  add(first);
  for (const auto &[input, unused] : data) {
    if (input != first) {
      add(input);
    }
  }
  if (!layer.lengths.empty() && !layer.areLengthsKnown) {
    tensors.push_back(makeTensor(builder.getI32Type(), {kBatch}, layer.lengths));
  }
  return tensors;
}

// The cell of one sample in one direction.
struct Cell {
  const Layer &layer;
  std::map<size_t, Data> data;
  int64_t d, b;
  std::vector<double> h, c;

  double bounded(double x) const { return std::max(-layer.clip, std::min(layer.clip, x)); }
  double given(size_t input, std::vector<int64_t> index) const { return data.count(input) ? data.at(input).at(index) : 0; }
  double fromInput(int64_t t, int64_t row) const {
    double sum = given(3, {d, row});
    for (int64_t i = 0; i < kInputs; ++i) {
      sum += data.at(0).at({t, b, i}) * data.at(1).at({d, row, i});
    }
    return sum;
  }
  double fromState(const std::vector<double> &state, int64_t row) const {
    double sum = given(3, {d, layer.gates() * kHidden + row});
    for (int64_t i = 0; i < kHidden; ++i) {
      sum += state[i] * data.at(2).at({d, row, i});
    }
    return sum;
  }

  void step(int64_t t) {
    auto f = [&](size_t i, double x) { return layer.function(d, i)(bounded(x)); };
    auto sum = [&](int64_t gate, int64_t j) { return fromInput(t, gate * kHidden + j) + fromState(h, gate * kHidden + j); };
    std::vector<double> next(kHidden), resets(kHidden);
    for (int64_t j = 0; layer.op == "GRU" && j < kHidden; ++j) {
      resets[j] = f(0, sum(1, j));
    }
    for (int64_t j = 0; j < kHidden; ++j) {
      if (layer.op == "RNN") {
        next[j] = f(0, sum(0, j));
      } else if (layer.op == "GRU") {
        std::vector<double> kept = h;
        for (int64_t i = 0; i < kHidden; ++i) {
          kept[i] *= resets[i];
        }
        const int64_t row = 2 * kHidden + j;
        const double recurrent = layer.isOther ? resets[j] * fromState(h, row) : fromState(kept, row), update = f(0, sum(0, j));
        next[j] = (1 - update) * f(1, fromInput(t, row) + recurrent) + update * h[j];
      } else {
        auto peephole = [&](int64_t gate, double seen) { return given(7, {d, gate * kHidden + j}) * seen; };
        const double input = f(0, sum(0, j) + peephole(0, c[j]));
        const double forget = layer.isOther ? 1 - input : f(0, sum(2, j) + peephole(2, c[j]));
        c[j] = forget * c[j] + input * f(1, sum(3, j));
        next[j] = f(0, sum(1, j) + peephole(1, c[j])) * layer.function(d, 2)(c[j]);
      }
    }
    h = next;
  }
};

// Y of (steps, directions, batch, hidden), Y_h and Y_c of (directions, batch, hidden).
struct Expected {
  std::vector<double> y, h, c;
};

Expected compute(const Layer &layer) {
  const int64_t directions = layer.directions();
  Expected expected;
  expected.y.resize(static_cast<size_t>(layer.steps * directions * kBatch * kHidden));
  for (int64_t d = 0; d < directions; ++d) {
    for (int64_t b = 0; b < kBatch; ++b) {
      Cell cell{layer, dataOf(layer), d, b, {}, {}};
      for (int64_t j = 0; j < kHidden; ++j) {
        cell.h.push_back(cell.given(5, {d, b, j}));
        cell.c.push_back(cell.given(6, {d, b, j}));
      }
      const int64_t length = layer.lengths.empty() ? layer.steps : static_cast<int64_t>(layer.lengths[b]);
      for (int64_t k = 0; k < length; ++k) {
        const int64_t t = layer.isReversed(d) ? length - 1 - k : k;
        cell.step(t);
        std::copy(cell.h.begin(), cell.h.end(), expected.y.begin() + ((t * directions + d) * kBatch + b) * kHidden);
      }
      if (length == 0 && !layer.lengths.empty()) {
        cell.h.assign(kHidden, 0);
        cell.c.assign(kHidden, 0);
      }
      expected.h.insert(expected.h.end(), cell.h.begin(), cell.h.end());
      expected.c.insert(expected.c.end(), cell.c.begin(), cell.c.end());
    }
  }
  return expected;
}

void check(const Layer &layer) {
  const int64_t d = layer.directions();
  Expected expected = compute(layer);
  std::vector<reference::Tensor> results = evaluate(modelOf(layer), inputsOf(layer));
  if (layer.isBatchFirst) { // (batch, steps, directions, hidden) and (batch, directions, hidden)
    std::vector<double> y = swapped(expected.y, layer.steps * d, kBatch, kHidden);
    CHECK(holds(results[0], {kBatch, layer.steps, d, kHidden}, y));
    CHECK(holds(results[1], {kBatch, d, kHidden}, swapped(expected.h, d, kBatch, kHidden)));
  } else {
    CHECK(holds(results[0], {layer.steps, d, kBatch, kHidden}, expected.y));
    CHECK(holds(results[1], {d, kBatch, kHidden}, expected.h));
  }
  if (layer.isLstm()) {
    CHECK(holds(results[2], layer.isBatchFirst ? std::vector<int64_t>{kBatch, d, kHidden} : std::vector<int64_t>{d, kBatch, kHidden},
                layer.isBatchFirst ? swapped(expected.c, d, kBatch, kHidden) : expected.c));
  }
}

// A node of op `op` on x (4, 3, 2) whose other inputs are zeros of these shapes.
std::string errorOf(const std::string &op, const std::vector<std::vector<int64_t>> &shapes, std::vector<Attribute> attributes = {}) {
  OnnxModel model = OnnxModel(14).input("i0", {kSteps, kBatch, kInputs});
  std::vector<std::string> names = {"i0"};
  for (const std::vector<int64_t> &shape : shapes) {
    names.push_back(shape.empty() ? "" : "i" + std::to_string(names.size()));
    if (!shape.empty()) {
      model.input(names.back(), std::vector<Dim>(shape.begin(), shape.end()), names.size() == 5 ? TensorProto::INT32 : TensorProto::FLOAT);
    }
  }
  return importError(model.node(op, names, {"y"}, std::move(attributes), "layer").output("y"));
}

} // namespace

TEST_CASE("onnx recurrent layers", "[frontend]") {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      INFO(op << " " << direction);
      Layer layer{op, direction};
      check(layer);
      layer.isBatchFirst = true;
      layer.clip = 0.25;
      check(layer);
      layer.isOther = op != "RNN";
      layer.hasPeepholes = op == "LSTM";
      check(layer);
      layer.hasBias = layer.hasStates = layer.isBatchFirst = false;
      check(layer);
    }
  }
}

// Rows end early, in reverse they begin late; a row of no step has results of zeros, whatever its first state.
TEST_CASE("onnx recurrent layers of sequences of unequal lengths", "[frontend]") {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      for (const std::vector<double> &lengths : std::vector<std::vector<double>>{{4, 4, 4}, {4, 1, 2}, {3, 0, 2}}) {
        for (bool areKnown : {true, false}) {
          INFO(op << " " << direction << " " << lengths[1] << " " << areKnown);
          Layer layer{op, direction};
          layer.lengths = lengths;
          layer.areLengthsKnown = areKnown;
          layer.hasPeepholes = op == "LSTM";
          check(layer);
          layer.hasStates = false;
          check(layer);
        }
      }
    }
  }
}

TEST_CASE("onnx recurrent layers of few steps", "[frontend]") {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (int64_t steps : {0, 1, 2, 7}) {
      INFO(op << ", " << steps << " steps");
      Layer layer{op, "bidirectional"};
      layer.steps = steps;
      check(layer);
    }
  }
}

// All functions, numbers in the order of those that take them, and ONNX's defaults.
TEST_CASE("onnx activations of recurrent layers", "[frontend]") {
  auto names = [](std::vector<std::string> list) { return Attribute{"activations", std::move(list)}; };
  auto numbers = [](const std::string &name, std::vector<float> list) { return Attribute{name, std::move(list)}; };
  check({"LSTM", "forward", {{"HardSigmoid", 0.2, 0.5}, {"Relu"}, {"Elu", 1}}, {names({"HardSigmoid", "Relu", "Elu"})}});
  check({"LSTM", "forward", {{"Softsign"}, {"LeakyRelu", 0.01}, {"Softplus"}}, {names({"softsign", "leakyrelu", "SOFTPLUS"})}});
  check({"LSTM",
         "bidirectional",
         {{"Sigmoid"}, {"ScaledTanh", 0.5, 0.75}, {"LeakyRelu", 0.25}, {"Affine", 0.5, 0.125}, {"Tanh"}, {"HardSigmoid", 0.25, 0.5}},
         {names({"Sigmoid", "ScaledTanh", "LeakyRelu", "Affine", "Tanh", "HardSigmoid"}),
          numbers("activation_alpha", {0.5f, 0.25f, 0.5f, 0.25f}), numbers("activation_beta", {0.75f, 0.125f})}});
  check({"GRU",
         "reverse",
         {{"Affine", 1, 0}, {"ThresholdedRelu", 0.125}},
         {names({"Affine", "ThresholdedRelu"}), numbers("activation_alpha", {1.0f, 0.125f})}});
  check({"RNN", "forward", {{"ThresholdedRelu", 1}}, {names({"ThresholdedRelu"})}});
}

// Of each direction one product for the input of all steps, and one in the body; weights stay the model's parameters.
TEST_CASE("onnx recurrent layers multiply the input once", "[frontend]") {
  OnnxModel model = OnnxModel(14).input("x", {kSteps, kBatch, kInputs});
  auto values = [](const Data &data) { return data.all(); };
  std::map<size_t, Data> data = dataOf({"LSTM", "bidirectional"});
  for (const auto &[input, name] : std::map<size_t, std::string>{{1, "w"}, {2, "r"}, {3, "b"}}) {
    model.initializer(name, TensorProto::FLOAT, data.at(input).shape, values(data.at(input)));
  }
  model.node("LSTM", {"x", "w", "r", "b"}, {"y"}, {{"direction", std::string("bidirectional")}}).output("y");
  std::string text = print(*import(model));
  size_t products = 0;
  for (size_t at = text.find("nn.matmul"); at != std::string::npos; at = text.find("nn.matmul", at + 1)) {
    ++products;
  }
  CHECK(products == 2 + 2);
  CHECK_THAT(text, contains("nn.variable @w trainable : tensor<2x8x2xf32>") && contains("nn.variable @r trainable") &&
                       contains("nn.variable @b trainable"));
}

TEST_CASE("gradients of onnx recurrent layers", "[frontend]") {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (bool isOther : {false, true}) {
      if (op == "RNN" && isOther) {
        continue;
      }
      Layer layer{op, isOther ? "bidirectional" : "reverse"};
      layer.isOther = isOther;
      layer.hasPeepholes = op == "LSTM";
      layer.lengths = {4, 1, 3};
      for (const auto &[input, unused] : dataOf(layer)) {
        INFO(op << " " << isOther << ", input " << input);
        CHECK(gradientDifference(modelOf(layer, input), inputsOf(layer, input)).empty());
      }
    }
  }
}

TEST_CASE("onnx recurrent layers check their inputs", "[frontend]") {
  const std::vector<int64_t> w = {1, 8, 2}, r = {1, 8, 2};
  CHECK_THAT(errorOf("LSTM", {w}), contains("node \"layer\" (LSTM, opset 14): input R is missing"));
  CHECK_THAT(errorOf("LSTM", {{}, r}), contains("input W is missing"));
  CHECK_THAT(
      errorOf("LSTM", {{1, 8, 3}, r}),
      contains("input W is [1, 8, 3] of f32 but X is [4, 3, 2] of f32, which needs [1, 8, 2] of f32 for 1 direction of hidden size 2"));
  CHECK_THAT(errorOf("GRU", {w, r}), contains("input W is [1, 8, 2] of f32") && contains("needs [1, 6, 2] of f32"));
  CHECK_THAT(errorOf("LSTM", {w, {1, 8, 3}}, {{"hidden_size", int64_t{2}}}), contains("input R is [1, 8, 3] of f32"));
  CHECK_THAT(errorOf("LSTM", {w, {8, 2}}), contains("input R is [8, 2] of f32, not (directions, 4 * hidden size, hidden size)"));
  CHECK_THAT(errorOf("LSTM", {w, r}, {{"direction", std::string("bidirectional")}}), contains("needs [2, 8, 2] of f32 for 2 directions"));
  CHECK_THAT(errorOf("LSTM", {w, r}, {{"direction", std::string("backward")}}),
             contains("attribute \"direction\" is \"backward\"; one of forward, reverse, bidirectional"));
  CHECK_THAT(errorOf("LSTM", {w, r, {1, 8}}), contains("input B is [1, 8] of f32") && contains("needs [1, 16] of f32"));
  CHECK_THAT(errorOf("LSTM", {w, r, {}, {2}}), contains("input sequence_lens is [2] of i32") && contains("needs [3] of i32"));
  CHECK_THAT(errorOf("LSTM", {w, r, {}, {}, {1, 2, 2}}), contains("input initial_h is [1, 2, 2] of f32") && contains("needs [1, 3, 2]"));
  CHECK_THAT(errorOf("LSTM", {w, r, {}, {}, {}, {1, 3, 1}}),
             contains("input initial_c is [1, 3, 1] of f32") && contains("needs [1, 3, 2]"));
  CHECK_THAT(errorOf("LSTM", {w, r, {}, {}, {}, {}, {1, 4}}), contains("input P is [1, 4] of f32") && contains("needs [1, 6] of f32"));
  CHECK_THAT(errorOf("LSTM", {w, r}, {{"hidden_size", int64_t{0}}}), contains("attribute \"hidden_size\" is 0, not at least 1"));
  CHECK_THAT(errorOf("LSTM", {w, r}, {{"clip", -1.0f}}), contains("attribute \"clip\" is -1.000000, not positive"));
  CHECK_THAT(errorOf("LSTM", {w, r}, {{"activations", std::vector<std::string>{"Tanh", "Tanh"}}}),
             contains("attribute \"activations\" has 2 names but 1 direction takes 3"));
  CHECK_THAT(errorOf("RNN", {{1, 2, 2}, {1, 2, 2}}, {{"activations", std::vector<std::string>{"Gelu"}}}),
             contains("activation \"Gelu\" is not known; one of Affine, Elu, HardSigmoid"));
  CHECK_THAT(errorOf("RNN", {{1, 2, 2}, {1, 2, 2}}, {{"activation_alpha", std::vector<float>{1}}}),
             contains("attribute \"activation_alpha\" has 1 numbers but the activations take 0"));
  CHECK_THAT(errorOf("RNN", {{1, 2, 2}, {1, 2, 2}},
                     {{"activations", std::vector<std::string>{"ScaledTanh"}}, {"activation_alpha", std::vector<float>{1}}}),
             contains("attribute \"activation_beta\" has 0 numbers but activation ScaledTanh, which has no default, needs number 1"));
  CHECK_THAT(importError(OnnxModel(14)
                             .input("x", {2, 1, 1})
                             .input("w", {1, 1, 1})
                             .initializer("l", TensorProto::INT32, {1}, {3})
                             .node("RNN", {"x", "w", "w", "", "l"}, {"y"})
                             .output("y")),
             contains("length 3 in sequence_lens is not in [0, 2]"));
  // However many steps it has, it has one body.
  CHECK_THAT(
      print(*import(OnnxModel(14).input("x", {1 << 20, 1, 1}).input("w", {1, 1, 1}).node("RNN", {"x", "w", "w"}, {"y"}).output("y"))),
      contains("nn.repeat 1048576 carried("));
}

} // namespace ashlar::test::recurrent_test
