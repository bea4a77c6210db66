// SPDX-License-Identifier: Apache-2.0
//
// The families put together.

#include "compiler/frontend/registry.h"

#include "llvm/ADT/StringMap.h"

namespace ashlar::frontend {

namespace {

const llvm::StringMap<Handler> &registry() {
  static const llvm::StringMap<Handler> map = [] {
    llvm::StringMap<Handler> built;
    for (auto rows : {activationRows, collectiveRows, constantRows, contractionRows, elementwiseRows, indexingRows, lossRows,
                      normalizationRows, reductionRows, shapeRows}) {
      for (const RegistryRow &row : rows()) {
        built[row.opType] = row.handler;
      }
    }
    return built;
  }();
  return map;
}

} // namespace

Handler findHandler(llvm::StringRef opType) {
  return registry().lookup(opType);
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
