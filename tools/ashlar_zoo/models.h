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

struct TransformerSizes {
  int64_t layers = 2, width = 64, heads = 4, sequence = 16, vocabulary = 50;
};

// A decoder that predicts the next token, as GPT-2 is built but with ReLU: token and position embedding; `layers` of norm, causal
// self-attention with separate query, key and value, norm, two dense layers 4 * width wide; norm; head. "tokens" (batch, sequence) i64 ->
// "logits" (batch, sequence, vocabulary). Dense weights are (in, out). Throws std::runtime_error when heads do not divide the width.
onnx::ModelProto makeTransformer(const ParameterOptions &options, const TransformerSizes &sizes);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H
