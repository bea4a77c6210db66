// SPDX-License-Identifier: Apache-2.0
//
// The initializers of a graph: parameters, states, buffers, and constants that steer the import.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZERS_H

#include "compiler/frontend/node.h"
#include "compiler/frontend/weights/model_edits.h"

namespace ashlar::frontend {

// Returns the type of the whole tensor of which the model names a device's piece.
using WholeType = std::function<mlir::RankedTensorType(llvm::StringRef name, mlir::RankedTensorType type)>;

// Tells options.checkDataFile of the files beside the model.
void checkDataFiles(const onnx::GraphProto &graph, const ModelInfo &info);

// Defines all initializers of a model whose functions are in their places, and returns the names of the parameters. Constant nodes that
// options.trained names become initializers, which `edits` gets. Says of each buffer why it is one, of scalars that may be parameters, and
// of copies of weights that they are trained apart. The model and `info` have to stay: parameters that somebody reads take their data from
// there.
std::vector<std::string> defineInitializers(onnx::ModelProto &model, llvm::StringRef path, const ModelInfo &info, GraphValues &values,
                                            ModelEdits &edits, WholeType wholeType);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZERS_H
