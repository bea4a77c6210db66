// SPDX-License-Identifier: Apache-2.0
//
// The rules, strongest evidence first.

#include "compiler/frontend/weights/scalar_parameters.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace ashlar::frontend {

namespace {

// What people call a trained scalar at the top of a module, where no path tells it from a constant: as a whole, or behind an underscore.
constexpr llvm::StringLiteral kTrainedNames[] = {"alpha",  "beta",      "bias",           "gain",        "gamma",      "gate",
                                                 "slope",  "tau",       "temperature",    "weight",      "resweight",  "layer_scale",
                                                 "rezero", "res_scale", "residual_scale", "logit_scale", "skip_scale", "output_scale"};

bool isTrainedName(StringRef name) {
  return llvm::any_of(kTrainedNames, [&](StringRef known) {
    StringRef rest = name;
    return rest.consume_back(known) && (rest.empty() || rest.ends_with("_"));
  });
}

bool isIdentifier(StringRef name) {
  return !name.empty() && !isMadeUpName(name) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.'; });
}

} // namespace

ScalarFinder::ScalarFinder(const onnx::ModelProto &model, const ParameterRules &rules)
    : rules(rules), notes(model.graph()), isFromTorch(isByTorch(model)) {
  for (const onnx::TensorProto &initializer : model.graph().initializer()) {
    initializers.insert(initializer.name());
  }
  for (const onnx::NodeProto &node : model.graph().node()) {
    StringRef op = node.op_type();
    if (op.contains("QuantizeLinear") || op.starts_with("QLinear") || op.ends_with("Integer")) {
      scales.insert(node.input().begin(), node.input().end());
    }
  }
}

bool ScalarFinder::isOfQuantization(StringRef name) const {
  StringRef stem = name;
  return scales.contains(name) || (stem.consume_back("_scale") && (initializers.contains((stem + "_zero_point").str()) ||
                                                                   initializers.contains((stem + "_quantized").str())));
}

ScalarRole ScalarFinder::classify(StringRef name) const {
  if (rules.isNamed(name, /*isScalar=*/true)) {
    return ScalarRole::Parameter;
  }
  ValueNote note = notes.lookup(name);
  if (!note.kind.empty()) {
    return note.kind == "PARAMETER" ? ScalarRole::Parameter : ScalarRole::Constant;
  }
  if (isOfQuantization(name) || !isIdentifier(name)) {
    return ScalarRole::Constant;
  }
  if (!note.foldedFrom.empty()) { // such as the exponential of a parameter
    return llvm::all_of(note.foldedFrom, isMadeUpName) ? ScalarRole::Constant : ScalarRole::Candidate;
  }
  if (notes.hasKinds() && !name.contains('.')) {
    return ScalarRole::Constant;
  }
  // Of the TorchScript exporter, what has no made-up name is an entry of the module.
  return isModulePath(name) || isFromTorch || isTrainedName(name) ? ScalarRole::Parameter : ScalarRole::Candidate;
}

} // namespace ashlar::frontend
