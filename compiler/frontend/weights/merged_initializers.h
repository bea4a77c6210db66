// SPDX-License-Identifier: Apache-2.0
//
// Parameters that an exporter merged into one initializer because they were equal, such as a fresh module's zero biases and unit scales.
// They are taken apart again, so that each learns for itself; weights that the module shares stay shared. docs/onnx.md has the rules.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_MERGED_INITIALIZERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_MERGED_INITIALIZERS_H

#include "compiler/frontend/import.h"
#include "compiler/frontend/onnx_proto.h"
#include "compiler/frontend/parameter_rules.h"
#include "compiler/frontend/weights/model_edits.h"

#include <vector>

namespace ashlar::frontend {

// Takes merged initializers of `model` apart by options.untie, and adds its changes to `edits`. The model has its functions as calls.
// Returns all merged parameters, taken apart or not. Throws for a glob that matches no initializer that several nodes read.
std::vector<MergedParameter> untieInitializers(onnx::ModelProto &model, const ImportOptions &options, const ParameterRules &rules,
                                               llvm::StringRef directory, mlir::MLIRContext *context, ModelEdits &edits);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_MERGED_INITIALIZERS_H
