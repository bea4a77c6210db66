// SPDX-License-Identifier: Apache-2.0
//
// The buffers among the float initializers of a model: masks, tables and other constants that training must leave alone. ONNX does not mark
// them, so they are found by the graph, the exporter's notes and the numbers; docs/onnx.md has the rules. Names of modules decide nothing.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_BUFFERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_BUFFERS_H

#include "compiler/frontend/exporter_notes.h"
#include "compiler/frontend/tensor_data.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace ashlar::frontend {

class BufferFinder {
public:
  // `loss` is the tensor that the job's loss reads. The graph has its functions in their places, and stays as long as the object.
  BufferFinder(const onnx::ModelProto &model, llvm::StringRef loss, llvm::StringRef directory, mlir::MLIRContext *context);

  // Returns why a float initializer is a buffer, as the end of a sentence about it; "" when it is a parameter.
  std::string findReason(const onnx::TensorProto &initializer) const;

  // Whether a node reads a value.
  bool isRead(llvm::StringRef name) const { return uses.contains(name); }

  // Whether an initializer is a running statistic of a batch normalization, which the op keeps.
  bool isStatistic(llvm::StringRef name) const;

private:
  struct Use {
    const onnx::NodeProto *node;
    int input; // -1: a subgraph of the node reads it
  };

  void collectUses();
  void followGradients(llvm::StringRef loss);
  void followInputs();

  // Returns the uses of a value, and of its views in other shapes.
  std::vector<Use> usesBehindViews(llvm::StringRef name) const;

  const onnx::GraphProto &graph;
  std::string directory;
  mlir::MLIRContext *context;
  llvm::StringMap<std::vector<Use>> uses;
  llvm::StringSet<> outputs;
  llvm::StringSet<> withGradient; // values on which the loss may depend smoothly
  llvm::StringSet<> ofInputs;     // inputs of the model, also shifted and scaled
  ExporterNotes notes;
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_BUFFERS_H
