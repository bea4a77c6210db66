// SPDX-License-Identifier: Apache-2.0
//
// LSTM, GRU and RNN: the cells. Sigmoids, tangents and the others are functions f, g and h that attributes name.

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/recurrent/recurrent_layer.h"
#include "compiler/frontend/registry.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

using Step = RecurrentLayer::Step;
using States = SmallVector<Value>;

// Gates i, o, f, c in this order, with peepholes P of i, o, f:
//   i = f(xi + h Ri + Pi * C)   f = f(xf + h Rf + Pf * C), or 1 - i with input_forget   c = g(xc + h Rc)
//   C' = f * C + i * c          o = f(xo + h Ro + Po * C')                               h' = o * h(C')
// As in ONNX Runtime, clip bounds the arguments of f and g, and not that of h.
void importLstm(Node &node) {
  constexpr size_t kInitialC = 6, kPeepholes = 7;
  RecurrentLayer layer(node, /*gates=*/4, /*innerGates=*/0, {"Sigmoid", "Tanh", "Tanh"});
  const bool couples = node.getInt("input_forget", 0) != 0;
  Value peepholes = layer.readInput(kPeepholes, "P", {layer.countDirections(), 3 * layer.getHidden()});
  auto capture = [&](int64_t direction, Value recurrence) {
    States captured = {recurrence};
    for (int64_t gate = 0; peepholes && gate < 3; ++gate) {
      captured.push_back(layer.gateOf(layer.rowOf(peepholes, direction), gate));
    }
    return captured;
  };
  auto cell = [&](const Step &step) -> States {
    Value hidden = step.states[0], memory = step.states[1];
    Value sums = node.create<nn::AddOp>(step.fromInput, layer.product(hidden, step.captured[0]));
    auto gate = [&](int64_t index, size_t function, Value seen) {
      Value sum = layer.gateOf(sums, index);
      if (seen && peepholes) {
        Value factor = broadcastTo(node, step.captured[static_cast<size_t>(index) + 1], shapeOf(seen));
        sum = node.create<nn::AddOp>(sum, node.create<nn::MulOp>(factor, seen));
      }
      return layer.activate(step.functions[function], sum);
    };
    Value input = gate(0, 0, memory);
    Value forget = couples ? node.create<nn::SubOp>(splatConstant(node, typeOf(input), 1), input).getResult() : gate(2, 0, memory);
    Value kept = node.create<nn::MulOp>(forget, memory), added = node.create<nn::MulOp>(input, gate(3, 1, {}));
    Value next = node.create<nn::AddOp>(kept, added);
    return {node.create<nn::MulOp>(gate(1, 0, next), step.functions[2].apply(node, next)), next};
  };
  layer.build({{RecurrentLayer::kInitialH, "initial_h"}, {kInitialC, "initial_c"}}, capture, cell);
}

// Gates z, r, h in this order:
//   z = f(xz + h Rz)   r = f(xr + h Rr)   c = g(xh + (r * h) Rh), or g(xh + r * (h Rh + bh)) with linear_before_reset
//   h' = (1 - z) * c + z * h
void importGru(Node &node) {
  const bool isLinearFirst = node.getInt("linear_before_reset", 0) != 0;
  constexpr int64_t kGates = 3;
  RecurrentLayer layer(node, kGates, /*innerGates=*/isLinearFirst ? 1 : 0, {"Sigmoid", "Tanh"});
  const int64_t size = layer.getHidden();
  auto capture = [&](int64_t direction, Value recurrence) -> States {
    if (!isLinearFirst) {
      return {sliceAlong(node, recurrence, 0, 0, 2 * size), sliceAlong(node, recurrence, 0, 2 * size, kGates * size)};
    }
    States captured = {recurrence};
    if (layer.getBias()) {
      captured.push_back(layer.gateOf(layer.rowOf(layer.getBias(), direction), 2 * kGates - 1));
    }
    return captured;
  };
  auto cell = [&](const Step &step) -> States {
    Value hidden = step.states[0], products = layer.product(hidden, step.captured[0]);
    auto sum = [&](int64_t gate, Value added) { return node.create<nn::AddOp>(layer.gateOf(step.fromInput, gate), added); };
    Value update = layer.activate(step.functions[0], sum(0, layer.gateOf(products, 0)));
    Value reset = layer.activate(step.functions[0], sum(1, layer.gateOf(products, 1))), recurrent;
    if (isLinearFirst) {
      recurrent = layer.gateOf(products, 2);
      if (step.captured.size() > 1) {
        recurrent = node.create<nn::AddOp>(recurrent, broadcastTo(node, step.captured[1], shapeOf(recurrent)));
      }
      recurrent = node.create<nn::MulOp>(reset, recurrent);
    } else {
      recurrent = layer.product(node.create<nn::MulOp>(reset, hidden), step.captured[1]);
    }
    Value candidate = layer.activate(step.functions[1], sum(2, recurrent));
    Value rest = node.create<nn::SubOp>(splatConstant(node, typeOf(update), 1), update);
    return {node.create<nn::AddOp>(node.create<nn::MulOp>(rest, candidate), node.create<nn::MulOp>(update, hidden))};
  };
  layer.build({{RecurrentLayer::kInitialH, "initial_h"}}, capture, cell);
}

// h' = f(x + h R)
void importRnn(Node &node) {
  RecurrentLayer layer(node, /*gates=*/1, /*innerGates=*/0, {"Tanh"});
  auto capture = [](int64_t, Value recurrence) -> States { return {recurrence}; };
  auto cell = [&](const Step &step) -> States {
    Value sum = node.create<nn::AddOp>(step.fromInput, layer.product(step.states[0], step.captured[0]));
    return {layer.activate(step.functions[0], sum)};
  };
  layer.build({{RecurrentLayer::kInitialH, "initial_h"}}, capture, cell);
}

constexpr RegistryRow kRecurrentRows[] = {
    {"GRU", importGru, Accepts::Floats},
    {"LSTM", importLstm, Accepts::Floats},
    {"RNN", importRnn, Accepts::Floats},
};

} // namespace

ArrayRef<RegistryRow> recurrentRows() {
  return kRecurrentRows;
}

} // namespace ashlar::frontend
