// SPDX-License-Identifier: Apache-2.0
//
// A table of activations, and the reading of the attributes that name them.

#include "compiler/frontend/ops/recurrent/gate_functions.h"

#include "compiler/frontend/emit.h"
#include "compiler/frontend/ops/activation.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::frontend {

// An activation; `alpha` and `beta` are ONNX's defaults.
struct GateFunctionKind {
  llvm::StringLiteral name;
  Value (*build)(const Node &node, Value x, double alpha, double beta);
  bool takesAlpha = false, takesBeta = false;
  std::optional<double> alpha, beta;
};

namespace {

template <typename Op> Value unary(const Node &node, Value x, double, double) {
  return node.create<Op>(x);
}

Value leakyRelu(const Node &node, Value x, double alpha, double) {
  return node.create<nn::LeakyReluOp>(x.getType(), x, node.builder().getF64FloatAttr(alpha));
}

Value scaledTanh(const Node &node, Value x, double alpha, double beta) {
  return scaleAndShift(node, node.create<nn::TanhOp>(scaleAndShift(node, x, beta, 0)), alpha, 0);
}

Value elu(const Node &node, Value x, double alpha, double) {
  return exponentialUnit(node, x, alpha, /*width=*/1);
}

// ONNX has no default for ScaledTanh, which was an op of its own without any. Affine was one with these.
const GateFunctionKind kKinds[] = {
    {"Affine", scaleAndShift, true, true, 1, 0},
    {"Elu", elu, true, false, 1, {}},
    {"HardSigmoid", hardSigmoid, true, true, 0.2, 0.5},
    {"LeakyRelu", leakyRelu, true, false, 0.01, {}},
    {"Relu", unary<nn::ReluOp>},
    {"ScaledTanh", scaledTanh, true, true, {}, {}},
    {"Sigmoid", unary<nn::SigmoidOp>},
    {"Softplus", [](const Node &node, Value x, double, double) { return softplus(node, x); }},
    {"Softsign", [](const Node &node, Value x, double, double) { return softsign(node, x); }},
    {"Tanh", unary<nn::TanhOp>},
    {"ThresholdedRelu",
     [](const Node &node, Value x, double alpha, double) { return thresholdedRelu(node, x, alpha); },
     true,
     false,
     1,
     {}},
};

// Returns the activation of a name, in upper or lower case as in ONNX Runtime.
const GateFunctionKind &findKind(const Node &node, StringRef name) {
  const GateFunctionKind *found = llvm::find_if(kKinds, [&](const GateFunctionKind &kind) { return name.equals_insensitive(kind.name); });
  if (found == std::end(kKinds)) {
    auto names = llvm::map_range(kKinds, [](const GateFunctionKind &kind) { return kind.name.str(); });
    node.fail("activation \"" + name + "\" is not known; one of " + llvm::join(names, ", "));
  }
  return *found;
}

// The numbers of an attribute, taken one after the other.
class Numbers {
public:
  Numbers(Node &node, StringRef attribute) : node(node), attribute(attribute), values(node.getFloats(attribute)) {}

  double take(const GateFunctionKind &kind, bool isTaken, std::optional<double> byDefault) {
    if (!isTaken) {
      return 0;
    }
    if (static_cast<size_t>(taken++) < values.size()) {
      return values[taken - 1];
    }
    if (!byDefault) {
      node.fail("attribute \"" + attribute + "\" has " + Twine(values.size()) + " numbers but activation " + kind.name +
                ", which has no default, needs number " + Twine(taken));
    }
    return *byDefault;
  }

  void checkAllTaken() const {
    if (static_cast<size_t>(taken) < values.size()) {
      node.fail("attribute \"" + attribute + "\" has " + Twine(values.size()) + " numbers but the activations take " + Twine(taken));
    }
  }

private:
  Node &node;
  StringRef attribute;
  SmallVector<float> values;
  int64_t taken = 0;
};

} // namespace

Value GateFunction::apply(const Node &node, Value x) const {
  return kind->build(node, x, alpha, beta);
}

SmallVector<GateFunction> readGateFunctions(Node &node, int64_t directions, ArrayRef<StringRef> defaults) {
  std::vector<std::string> names = node.getStrings("activations");
  const size_t needed = defaults.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      names.insert(names.end(), defaults.begin(), defaults.end());
    }
  }
  if (names.size() != needed) {
    node.fail("attribute \"activations\" has " + Twine(names.size()) + " names but " + Twine(directions) +
              (directions == 1 ? " direction takes " : " directions take ") + Twine(needed));
  }
  Numbers alphas(node, "activation_alpha"), betas(node, "activation_beta");
  SmallVector<GateFunction> functions;
  for (const std::string &name : names) {
    const GateFunctionKind &kind = findKind(node, name);
    double alpha = alphas.take(kind, kind.takesAlpha, kind.alpha), beta = betas.take(kind, kind.takesBeta, kind.beta);
    functions.push_back({&kind, alpha, beta});
  }
  alphas.checkAllTaken();
  betas.checkAllTaken();
  return functions;
}

} // namespace ashlar::frontend
