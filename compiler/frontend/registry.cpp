// SPDX-License-Identifier: Apache-2.0
//
// The families put together.

#include "compiler/frontend/registry.h"

#include "dialects/support/integer_type.h"

#include "llvm/ADT/StringMap.h"

namespace ashlar::frontend {

namespace {

llvm::StringMap<RegistryRow> &registry() {
  static llvm::StringMap<RegistryRow> map = [] {
    llvm::StringMap<RegistryRow> built;
    for (auto rows : {activationRows,   attentionRows,     channelNormalizationRows,
                      collectiveRows,   constantRows,      contractionRows,
                      controlFlowRows,  convolutionRows,   einsumRows,
                      elementwiseRows,  indexMaskRows,     indexingRows,
                      knownBoxRows,     knownRows,         linearAttentionRows,
                      lossRows,         normalizationRows, paddingRows,
                      poolingRows,      quantizationRows,  randomRows,
                      rankingRows,      recurrentRows,     reductionRows,
                      resizingRows,     samplingRows,      scanRows,
                      scatteringRows,   sequenceRows,      shapeRows,
                      spatialBlockRows, spectrumRows,      stepRows,
                      unpoolingRows}) {
      for (const RegistryRow &row : rows()) {
        built.try_emplace(row.opType, row);
      }
    }
    return built;
  }();
  return map;
}

// Those of plugins.
mlir::DialectRegistry &pluginDialects() {
  static mlir::DialectRegistry dialects;
  return dialects;
}

} // namespace

bool addOp(const RegistryRow &row) {
  return registry().try_emplace(row.opType, row).second;
}

void addDialects(void (*add)(mlir::DialectRegistry &registry)) {
  add(pluginDialects());
}

void loadPluginDialects(mlir::MLIRContext *context) {
  context->appendDialectRegistry(pluginDialects());
  for (llvm::StringRef name : pluginDialects().getDialectNames()) {
    context->getOrLoadDialect(name);
  }
}

const RegistryRow *findOp(llvm::StringRef opType) {
  auto found = registry().find(opType);
  return found == registry().end() ? nullptr : &found->second;
}

void checkElementType(const Node &node, const RegistryRow &row) {
  if (row.accepts == Accepts::Any || !node.isGiven(0)) { // an input may be no tensor
    return;
  }
  mlir::Type element = node.peekType(0).getElementType();
  bool isFloat = llvm::isa<mlir::FloatType>(element), isBool = element.isInteger(1);
  switch (row.accepts) {
  case Accepts::Any:
    return;
  case Accepts::Numbers:
    return isBool ? node.fail("input 0 is a tensor of bool, which the op does not take; its inputs are numbers") : void();
  case Accepts::Signed:
    return isUnsigned(element) ? node.fail("input 0 is a tensor of " + elementName(element) +
                                           ", which the op does not take; its inputs are numbers with a sign")
                               : void();
  case Accepts::Floats:
    return isFloat ? void()
                   : node.fail("input 0 is a tensor of " + elementName(element) + ", which the op does not take; its inputs are floats");
  case Accepts::Bools:
    return isBool ? void()
                  : node.fail("input 0 is a tensor of " + elementName(element) + ", which the op does not take; its inputs are bools");
  }
}

std::string qualifiedOpType(const onnx::NodeProto &node) {
  bool isDefault = node.domain().empty() || node.domain() == "ai.onnx";
  return isDefault ? node.op_type() : node.domain() + "." + node.op_type();
}

std::vector<std::string> supportedOps() {
  std::vector<std::string> names;
  for (const auto &entry : registry()) {
    names.push_back(entry.first().str());
  }
  llvm::sort(names);
  return names;
}

} // namespace ashlar::frontend
