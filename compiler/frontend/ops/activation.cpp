// SPDX-License-Identifier: Apache-2.0
//
// Activations that are several nn ops. Each is written so that neither it nor its gradient overflows where the function is finite, and so
// that the gradient at a kink is the one that PyTorch takes.

#include "compiler/frontend/ops/activation.h"

#include "compiler/frontend/emit.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/shape_rules.h"

#include <limits>

using namespace mlir;

namespace ashlar::frontend {

namespace {

Value plus(const Node &node, Value x, double value) {
  return node.create<nn::AddOp>(x, splatConstant(node, typeOf(x), value));
}
Value times(const Node &node, Value x, double value) {
  return value == 1 ? x : node.create<nn::MulOp>(x, splatConstant(node, typeOf(x), value)).getResult();
}
Value smaller(const Node &node, Value x, double value) {
  return node.create<nn::MinOp>(x, splatConstant(node, typeOf(x), value));
}
Value larger(const Node &node, Value x, double value) {
  return node.create<nn::MaxOp>(x, splatConstant(node, typeOf(x), value));
}
Value isAbove(const Node &node, Value x, double value) {
  auto type = RankedTensorType::get(shapeOf(x), node.builder().getI1Type());
  return node.create<nn::CompareOp>(type, nn::Predicate::Gt, x, splatConstant(node, typeOf(x), value));
}

// log(1 + x) for x >= 0. 1 + x drops the end of a small x: the logarithm of the sum is corrected by what is missing, to first order.
Value logarithmOfOnePlus(const Node &node, Value x) {
  Value sum = plus(node, x, 1);
  Value missing = node.create<nn::SubOp>(x, plus(node, sum, -1));
  return node.create<nn::AddOp>(node.create<nn::LogOp>(sum), node.create<nn::DivOp>(missing, sum));
}

} // namespace

// max(x, 0) + log(1 + e^-|x|), the maximum as the mean of two, of which one has slope 1 at 0 and one has slope 0.
Value softplus(const Node &node, Value x) {
  Value positive = node.create<nn::AddOp>(times(node, larger(node, x, 0), 0.5), times(node, node.create<nn::ReluOp>(x), 0.5));
  Value exponential = node.create<nn::ExpOp>(node.create<nn::NegOp>(node.create<nn::AbsOp>(x)));
  return node.create<nn::AddOp>(positive, logarithmOfOnePlus(node, exponential));
}

Value exponentialUnit(const Node &node, Value x, double alpha, double width) {
  Value exponential = node.create<nn::ExpOp>(times(node, smaller(node, x, 0), 1 / width));
  return node.create<nn::AddOp>(node.create<nn::ReluOp>(x), times(node, plus(node, exponential, -1), alpha));
}

Value hardSigmoid(const Node &node, Value x, double alpha, double beta) {
  return clamp(node, plus(node, times(node, x, alpha), beta), 0, 1);
}

Value scaleAndShift(const Node &node, Value x, double alpha, double beta) {
  Value scaled = times(node, x, alpha);
  return beta == 0 ? scaled : plus(node, scaled, beta);
}

Value clamp(const Node &node, Value x, double low, double high) {
  return larger(node, smaller(node, x, high), low);
}

Value softsign(const Node &node, Value x) {
  return node.create<nn::DivOp>(x, plus(node, node.create<nn::AbsOp>(x), 1));
}

Value thresholdedRelu(const Node &node, Value x, double alpha) {
  return select(node, isAbove(node, x, alpha), x, splatConstant(node, typeOf(x), 0));
}

namespace {

void importCelu(Node &node) {
  double alpha = node.getFloat("alpha", 1);
  node.setResult(0, exponentialUnit(node, node.input(0), alpha, alpha));
}

// The bounds are attributes before opset 11, inputs since; either may be missing.
void importClip(Node &node) {
  Value x = node.input(0);
  RankedTensorType type = typeOf(x);
  Value result = x;
  if (node.getOpset() < 11) {
    constexpr float kLargest = std::numeric_limits<float>::max();
    result = node.hasAttribute("min") ? larger(node, result, node.getFloat("min", -kLargest)) : result;
    result = node.hasAttribute("max") ? smaller(node, result, node.getFloat("max", kLargest)) : result;
  }
  for (size_t i : {1, 2}) {
    if (node.getOpset() < 11 || !node.hasInput(i)) {
      continue;
    }
    RankedTensorType bound = node.inputType(i);
    if (bound.getElementType() != type.getElementType() || bound.getNumElements() != 1) {
      std::string types;
      llvm::raw_string_ostream(types) << bound << " is no scalar of the element type of " << type;
      node.fail("bound " + types);
    }
    Value all = broadcastTo(node, reshape(node, node.input(i), {}), type.getShape());
    result = i == 1 ? node.create<nn::MaxOp>(result, all).getResult() : node.create<nn::MinOp>(result, all).getResult();
  }
  result == x ? node.aliasResult(0, 0) : node.setResult(0, result);
}

void importElu(Node &node) {
  node.setResult(0, exponentialUnit(node, node.input(0), node.getFloat("alpha", 1), /*width=*/1));
}

void importHardSigmoid(Node &node) {
  node.setResult(0, hardSigmoid(node, node.input(0), node.getFloat("alpha", 0.2), node.getFloat("beta", 0.5)));
}

void importHardSwish(Node &node) {
  Value x = node.input(0);
  node.setResult(0, node.create<nn::MulOp>(x, hardSigmoid(node, x, 1.0 / 6, 0.5)).getResult());
}

void importMish(Node &node) {
  Value x = node.input(0);
  node.setResult(0, node.create<nn::MulOp>(x, node.create<nn::TanhOp>(softplus(node, x))).getResult());
}

void importPRelu(Node &node) {
  Value x = node.input(0), slope = node.input(1);
  if (typeOf(x).getElementType() != typeOf(slope).getElementType() ||
      ArrayRef<int64_t>(broadcastShapes(node, shapeOf(x), shapeOf(slope))) != shapeOf(x)) {
    std::string types;
    llvm::raw_string_ostream(types) << typeOf(slope) << " does not fit " << typeOf(x);
    node.fail("slope of " + types);
  }
  Value below = node.create<nn::MulOp>(x, broadcastTo(node, slope, shapeOf(x)));
  node.setResult(0, node.create<nn::SelectOp>(x.getType(), isAbove(node, x, 0), x, below).getResult());
}

void importSelu(Node &node) {
  double alpha = node.getFloat("alpha", 1.67326319217681884765625), gamma = node.getFloat("gamma", 1.05070102214813232421875);
  node.setResult(0, times(node, exponentialUnit(node, node.input(0), alpha, /*width=*/1), gamma));
}

// x + bias below -lambd, x - bias above lambd, 0 between; integers as floats, truncated.
void importShrink(Node &node) {
  Type element = node.inputType(0).getElementType();
  const double bias = node.getFloat("bias", 0), limit = node.getFloat("lambd", 0.5);
  Value x = element.isInteger() ? convertTo(node, node.input(0), node.builder().getF64Type()) : widen(node, node.input(0));
  Value low = plus(node, x, bias), high = plus(node, x, -bias), zero = splatConstant(node, typeOf(x), 0);
  Value result = select(node, isAbove(node, x, limit), high, zero);
  result = select(node, compare(node, nn::Predicate::Lt, x, -limit), low, result);
  node.setResult(0, convertTo(node, result, element));
}

void importSoftplus(Node &node) {
  node.setResult(0, softplus(node, node.input(0)));
}

void importSoftsign(Node &node) {
  node.setResult(0, softsign(node, node.input(0)));
}

// x * sigmoid(alpha * x)
Value swish(Node &node, Value x) {
  return node.create<nn::MulOp>(x, node.create<nn::SigmoidOp>(times(node, x, node.getFloat("alpha", 1))));
}

void importSwiGlu(Node &node) {
  Value gate = node.input(0), linear = node.input(1);
  if (gate.getType() != linear.getType()) {
    node.fail("A of " + describeTensor(typeOf(gate)) + " and B of " + describeTensor(typeOf(linear)) + " differ; nothing is broadcast");
  }
  node.setResult(0, node.create<nn::MulOp>(swish(node, gate), linear).getResult());
}

void importSwish(Node &node) {
  node.setResult(0, swish(node, node.input(0)));
}

void importThresholdedRelu(Node &node) {
  node.setResult(0, thresholdedRelu(node, node.input(0), node.getFloat("alpha", 1)));
}

constexpr RegistryRow kActivationRows[] = {
    {"Celu", importCelu, Accepts::Floats},
    {"Clip", importClip, Accepts::Numbers},
    {"Elu", importElu, Accepts::Floats},
    {"HardSigmoid", importHardSigmoid, Accepts::Floats},
    {"HardSwish", importHardSwish, Accepts::Floats},
    {"Mish", importMish, Accepts::Floats},
    {"PRelu", importPRelu, Accepts::Floats},
    {"Selu", importSelu, Accepts::Floats},
    {"Shrink", importShrink, Accepts::Numbers},
    {"Softplus", importSoftplus, Accepts::Floats},
    {"Softsign", importSoftsign, Accepts::Floats},
    {"SwiGLU", importSwiGlu, Accepts::Floats},
    {"Swish", importSwish, Accepts::Floats},
    {"ThresholdedRelu", importThresholdedRelu, Accepts::Floats},
};

} // namespace

ArrayRef<RegistryRow> activationRows() {
  return kActivationRows;
}

} // namespace ashlar::frontend
