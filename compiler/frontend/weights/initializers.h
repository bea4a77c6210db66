// SPDX-License-Identifier: Apache-2.0
//
// The initializers of a graph: parameters, states, buffers, and constants that steer the import.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZERS_H

#include "compiler/frontend/node.h"
#include "compiler/frontend/weights/model_edits.h"

namespace ashlar::frontend {

// Returns the type of the whole tensor, given a device's shard in the model.
using WholeType = std::function<mlir::RankedTensorType(llvm::StringRef name, mlir::RankedTensorType type)>;

// Calls options.checkDataFile on the files next to the model.
void checkDataFiles(const onnx::GraphProto &graph, const ModelInfo &info);

// Defines all initializers of a model whose functions are in their places, and returns the names of the parameters. Constant nodes that
// options.trained names become initializers, which are added to `edits`. Remarks on each buffer with the reason, on scalars that may be
// parameters, and on copies of weights that are trained apart. The model and `info` have to stay: parameters with readers take their data
// from there.
std::vector<std::string> defineInitializers(onnx::ModelProto &model, llvm::StringRef path, const ModelInfo &info, GraphValues &values,
                                            ModelEdits &edits, WholeType wholeType);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_INITIALIZERS_H
