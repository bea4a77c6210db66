// SPDX-License-Identifier: Apache-2.0
//
// The example models.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H

#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

// Dense(2, 1), weight and bias 0.02: "input" (batch, 2) -> "output" (batch, 1).
onnx::ModelProto makeLinear(const ParameterOptions &options);

// `layers` dense layers fc1, fc2, ... with ReLU between them, 784 -> width -> ... -> 10: "input" -> "logits".
onnx::ModelProto makeMlp(const ParameterOptions &options, int64_t layers, int64_t width);

// Three layers of input_mapping and output_mapping, each Dense(10, 10): the example of fusing gradient all-reduces by id.
onnx::ModelProto makeDenseLayers(const ParameterOptions &options);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H
