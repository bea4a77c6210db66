// SPDX-License-Identifier: Apache-2.0
//
// ONNX op name -> handler. Every family contributes one table; docs/onnx.md lists the same names (a test compares).

#ifndef ASHLAR_COMPILER_FRONTEND_REGISTRY_H
#define ASHLAR_COMPILER_FRONTEND_REGISTRY_H

#include "compiler/frontend/node.h"

#include <vector>

namespace ashlar::frontend {

// Emits the nn ops of a node and defines its results.
using Handler = void (*)(Node &node);

struct RegistryRow {
  llvm::StringLiteral opType;
  Handler handler;
};

// The rows of each op family.
llvm::ArrayRef<RegistryRow> activationRows();
llvm::ArrayRef<RegistryRow> constantRows();
llvm::ArrayRef<RegistryRow> contractionRows();
llvm::ArrayRef<RegistryRow> elementwiseRows();
llvm::ArrayRef<RegistryRow> indexingRows();
llvm::ArrayRef<RegistryRow> lossRows();
llvm::ArrayRef<RegistryRow> normalizationRows();
llvm::ArrayRef<RegistryRow> reductionRows();
llvm::ArrayRef<RegistryRow> shapeRows();

// Returns the handler of an op of the default domain, null for one that is not supported.
Handler findHandler(llvm::StringRef opType);

// Returns the names of all supported ops, sorted.
std::vector<std::string> supportedOps();

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_REGISTRY_H
