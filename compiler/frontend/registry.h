// SPDX-License-Identifier: Apache-2.0
//
// ONNX op name -> handler. Every family contributes one table; docs/onnx.md lists the same names (a test compares).

#ifndef ASHLAR_COMPILER_FRONTEND_REGISTRY_H
#define ASHLAR_COMPILER_FRONTEND_REGISTRY_H

#include "compiler/frontend/node.h"

#include "mlir/IR/DialectRegistry.h"

#include <vector>

namespace ashlar::frontend {

// Of the ops in collective.cpp.
inline constexpr llvm::StringLiteral kCollectiveDomain = "ai.ashlar.dist";

// Emits the nn ops of a node and defines its results.
using Handler = void (*)(Node &node);

// Returns the expansion of a node; its nodes define the results, except results that the node defines itself (sequences). Each has a name.
using Expander = std::vector<onnx::NodeProto> (*)(Node &node);

// The element types that an op takes as input 0, by ONNX and by the types of nn. The types of its other inputs follow from it.
enum class Accepts { Any, Numbers, Signed, Floats, Bools };

struct RegistryRow {
  llvm::StringLiteral opType;
  Handler handler;
  Accepts accepts = Accepts::Any;
  unsigned knownFloats = 0;  // bit i: input i holds floats that steer the import or are set, so an initializer there is no parameter
  bool draws = false;        // random numbers, so that its result is not known where its inputs are
  Expander expand = nullptr; // instead of a handler
  bool isFlat = false;       // its results do not change with small changes of its floats: no gradient passes
};

// Returns the row of such an op.
constexpr RegistryRow flat(RegistryRow row) {
  row.isFlat = true;
  return row;
}

// The rows of each op family.
llvm::ArrayRef<RegistryRow> activationRows();
llvm::ArrayRef<RegistryRow> attentionRows();
llvm::ArrayRef<RegistryRow> channelNormalizationRows();
llvm::ArrayRef<RegistryRow> collectiveRows(); // of the domain ai.ashlar.dist, which stands before their names
llvm::ArrayRef<RegistryRow> constantRows();
llvm::ArrayRef<RegistryRow> contractionRows();
llvm::ArrayRef<RegistryRow> controlFlowRows();
llvm::ArrayRef<RegistryRow> convolutionRows();
llvm::ArrayRef<RegistryRow> einsumRows();
llvm::ArrayRef<RegistryRow> elementwiseRows();
llvm::ArrayRef<RegistryRow> indexMaskRows();
llvm::ArrayRef<RegistryRow> indexingRows();
llvm::ArrayRef<RegistryRow> knownBoxRows();
llvm::ArrayRef<RegistryRow> knownRows();
llvm::ArrayRef<RegistryRow> linearAttentionRows();
llvm::ArrayRef<RegistryRow> lossRows();
llvm::ArrayRef<RegistryRow> normalizationRows();
llvm::ArrayRef<RegistryRow> paddingRows();
llvm::ArrayRef<RegistryRow> poolingRows();
llvm::ArrayRef<RegistryRow> quantizationRows();
llvm::ArrayRef<RegistryRow> randomRows();
llvm::ArrayRef<RegistryRow> rankingRows();
llvm::ArrayRef<RegistryRow> recurrentRows();
llvm::ArrayRef<RegistryRow> reductionRows();
llvm::ArrayRef<RegistryRow> resizingRows();
llvm::ArrayRef<RegistryRow> samplingRows();
llvm::ArrayRef<RegistryRow> scanRows();
llvm::ArrayRef<RegistryRow> scatteringRows();
llvm::ArrayRef<RegistryRow> sequenceRows();
llvm::ArrayRef<RegistryRow> shapeRows();
llvm::ArrayRef<RegistryRow> spatialBlockRows();
llvm::ArrayRef<RegistryRow> spectrumRows();
llvm::ArrayRef<RegistryRow> stepRows();
llvm::ArrayRef<RegistryRow> unpoolingRows();

// Returns the row of an op, null for one that is not supported. Ops of the default domain have their bare name, others the domain before
// it: "ai.ashlar.dist.AllReduce".
const RegistryRow *findOp(llvm::StringRef opType);

// Adds the row of an op of a plugin. Returns false where there is one already. Not safe beside another thread.
bool addOp(const RegistryRow &row);

// Has each later import load the dialects of a plugin, and loads all of these into a context.
void addDialects(void (*add)(mlir::DialectRegistry &registry));
void loadPluginDialects(mlir::MLIRContext *context);

// Fails when input 0 of the node, if it is given, has an element type that the op does not take.
void checkElementType(const Node &node, const RegistryRow &row);

// Returns the name of a node's op as findHandler takes it.
std::string qualifiedOpType(const onnx::NodeProto &node);

// Returns the names of all supported ops, sorted.
std::vector<std::string> supportedOps();

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_REGISTRY_H
