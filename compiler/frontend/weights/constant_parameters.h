// SPDX-License-Identifier: Apache-2.0
//
// Weights in Constant nodes, where Paddle's exporter keeps them: constants, unless the job's `trained` names them.

#ifndef ASHLAR_COMPILER_FRONTEND_WEIGHTS_CONSTANT_PARAMETERS_H
#define ASHLAR_COMPILER_FRONTEND_WEIGHTS_CONSTANT_PARAMETERS_H

#include "compiler/frontend/parameter_rules.h"
#include "compiler/frontend/weights/buffers.h"
#include "compiler/frontend/weights/model_edits.h"

#include "llvm/ADT/StringSet.h"

#include <optional>

namespace ashlar::frontend {

// Returns the floats of a Constant node, under the name of its result; nothing for another node or other constants.
std::optional<onnx::TensorProto> readConstantFloats(const onnx::NodeProto &node);

// Makes initializers of the floats of Constant nodes that the job's trained names. Those in `known` steer the import and stay.
void liftConstants(onnx::GraphProto &graph, const ParameterRules &rules, const llvm::StringSet<> &known, ModelEdits &edits);

// Returns the results of Constant nodes that look like weights: floats of a shape that a gradient reaches and that are no buffers.
std::vector<std::string> findConstantWeights(const onnx::GraphProto &graph, const BufferFinder &buffers, const llvm::StringSet<> &known);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_WEIGHTS_CONSTANT_PARAMETERS_H
