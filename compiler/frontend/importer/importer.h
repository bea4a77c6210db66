// SPDX-License-Identifier: Apache-2.0
//
// The import of one model: inputs and initializers get a meaning, then every node in order, then the outputs are returned.

#ifndef ASHLAR_COMPILER_FRONTEND_IMPORTER_IMPORTER_H
#define ASHLAR_COMPILER_FRONTEND_IMPORTER_IMPORTER_H

#include "compiler/frontend/import.h"
#include "compiler/frontend/node.h"
#include "compiler/frontend/parameter_rules.h"
#include "compiler/frontend/weights/model_edits.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace ashlar::frontend {

class Importer {
public:
  // Reads the model. Throws an ImportError where it is none, or of an opset that is not known.
  Importer(llvm::StringRef path, const ImportOptions &options, mlir::MLIRContext *context);

  // Returns the module of the model, with one program, of role run. Throws an ImportError with all that is refused.
  mlir::OwningOpRef<mlir::ModuleOp> run();

private:
  // Inputs (inputs.cpp).
  void defineInputs();
  // Defines one graph input as an argument of @forward, or as a parameter by a rule in options.init.
  void defineInput(const onnx::ValueInfoProto &input);
  llvm::SmallVector<int64_t> inputShape(const onnx::ValueInfoProto &input, bool &hasOpenDim);
  // Returns the number of shards of each dim of an input or parameter: 1, unless the model is one device's.
  std::vector<int64_t> piecesOf(llvm::StringRef name, int64_t rank) const;
  // Returns the type of the whole tensor, given a device's shard in the model.
  mlir::RankedTensorType wholeType(llvm::StringRef name, mlir::RankedTensorType type) const;
  void checkBatch();

  // Nodes (nodes.cpp).
  void importNodes();
  // Imports nodes of a body, and what they stand for. Throws an ImportError for the first that is refused.
  void importBody(std::vector<onnx::NodeProto> nodes);
  // Whether a node, or a body of it, reads a result of a refused one.
  bool readsUnknown(const onnx::NodeProto &node) const;
  // Returns the type that the model declares for a value, if it is one of floats and all its sizes are known; else null.
  mlir::RankedTensorType declaredFloats(const onnx::ValueInfoProto &value) const;
  // Defines the results of a node that is refused by stand-ins, or as unknown.
  void standIn(const onnx::NodeProto &node);
  // Returns one error with all ops of the graph that have no row, and why; "" without any.
  std::string findUnsupportedNodes() const;
  // Throws one error with all that is refused. `unsupported`: the result of findUnsupportedNodes().
  void reportFaults(const std::string &unsupported);
  // Imports a node, or returns the nodes that it stands for.
  std::vector<onnx::NodeProto> importNode(Node &node);

  // Outputs (outputs.cpp).
  // Throws when an output is declared with other elements than the graph computes, and warns of another shape, as ONNX Runtime does.
  void checkOutput(const onnx::ValueInfoProto &output, mlir::RankedTensorType type) const;
  void returnOutputs();
  // Returns the counts that results of @forward need beside them, each with a name that is not taken.
  llvm::MapVector<mlir::Value, std::string> nameCounts(llvm::ArrayRef<mlir::Value> results, const llvm::StringSet<> &taken) const;
  // Throws when a training job computes its loss on a tensor with a counted dim: it would include the padding.
  void checkLoss() const;

  void freezeParameters();
  // Lets parameters keep the names that the model gives them.
  void freeNames();
  void verifyModule();
  void applyAnnotations();
  void nestBranches();

  // Takes parameters apart that the exporter merged, and reports them.
  void untie();

  llvm::StringRef path;
  const ImportOptions &options;
  mlir::MLIRContext *context;
  mlir::OpBuilder builder;
  std::unique_ptr<onnx::ModelProto> proto;
  onnx::GraphProto &graph;
  ImportBudget budget;
  llvm::StringMap<int64_t> draws;
  CountedDims counted;
  int64_t loops = 0;
  ParameterRules rules; // of the options
  ModelInfo info;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp forward;
  std::unique_ptr<GraphValues> values;
  std::vector<std::string> parameters; // names of all, read or not
  llvm::StringSet<> batchSymbols;      // names that first dims of inputs carry; they mean the batch elsewhere too
  std::vector<std::string> faults;     // of the nodes that are refused
  llvm::StringSet<> unknown;           // results of these
  llvm::StringMap<const onnx::ValueInfoProto *> declared;
  ModelEdits edits; // of the graph, before its import
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_IMPORTER_IMPORTER_H
