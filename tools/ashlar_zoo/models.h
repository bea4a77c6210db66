// SPDX-License-Identifier: Apache-2.0
//
// The example models.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H

#include "tools/ashlar_zoo/expert_layers.h"
#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

// Dense(2, 1), weight and bias 0.02: "input" (batch, 2) -> "output" (batch, 1).
onnx::ModelProto makeLinear(const ParameterOptions &options);

// `layers` dense layers fc1, fc2, ... with ReLU between them, 784 -> width -> ... -> 10: "input" -> "logits".
onnx::ModelProto makeMlp(const ParameterOptions &options, int64_t layers, int64_t width);

// The program of one of `devices` devices along mesh axis "tp" for makeMlp with three layers: it holds its rows of fc1's weight and bias
// and its columns of fc2's weight, and an AllReduce adds the partial products of fc2. Parameters have no data: a device has no others'
// pieces. Throws std::runtime_error when the devices do not divide the width.
onnx::ModelProto makeHybridMlp(int64_t width, int64_t devices);

// Three layers of input_mapping and output_mapping, each Dense(10, 10): the example of fusing gradient all-reduces by id.
onnx::ModelProto makeDenseLayers(const ParameterOptions &options);

struct TransformerSizes {
  int64_t layers = 2, width = 64, heads = 4, sequence = 16, vocabulary = 50;
  bool tied = false;   // the head reads the embedding's table, transposed, and has no weight of its own, as in GPT-2
  ExpertSizes experts; // with experts they replace the dense layers of each layer's second half
};

// A decoder that predicts the next token, as GPT-2 is built but with ReLU: token and position embedding; `layers` of norm, causal
// self-attention with separate query, key and value, norm, two dense layers 4 * width wide; norm; head. "tokens" (batch, sequence) i64 ->
// "logits" (batch, sequence, vocabulary). Dense weights are (in, out). Throws std::runtime_error when heads do not divide the width, and as
// addExperts.
onnx::ModelProto makeTransformer(const ParameterOptions &options, const TransformerSizes &sizes);

struct LlamaSizes {
  int64_t layers = 2, width = 64, heads = 4, keyHeads = 2, hidden = 224, sequence = 16, vocabulary = 50;
};

// A decoder as Llama 3: token embedding; `layers` of RMS norm, causal self-attention with rotated queries and keys, `keyHeads` heads of
// keys and values, RMS norm, a gated MLP `hidden` wide; norm; head. No biases. "tokens" (batch, sequence) i64 -> "logits" (batch, sequence,
// vocabulary). Dense weights are (in, out). Throws std::runtime_error when heads do not divide the width in even numbers, or keyHeads
// heads.
onnx::ModelProto makeLlama(const ParameterOptions &options, const LlamaSizes &sizes);

struct DlrmSizes {
  int64_t dense = 13, tables = 26; // numbers and categories of a sample, as in Criteo's data
  int64_t rows = 1000, width = 16, hidden = 64;
};

// A recommendation model with the names of Meta's DLRM: two dense layers bot_l of the numbers; a row of the table emb_l.i of each category;
// the products of all pairs of these vectors; two dense layers top_l, whose result z becomes the logits 0 and z of "no click" and "click".
// "dense" (batch, dense), "sparse" (batch, tables) i64 -> "logits" (batch, 2).
onnx::ModelProto makeDlrm(const ParameterOptions &options, const DlrmSizes &sizes);

// Models that are one fused kernel each, and a chain (kernel_models.cpp), for benchmarks:
// y = relu(x / 2) + residual, over (elements).
onnx::ModelProto makeElementwise(int64_t elements);
// "x" (4096) -> "y", through `nodes` sums, differences, ReLUs and hyperbolic tangents, one after the other: as many kernels as fusion's
// bounds make of it.
onnx::ModelProto makeChain(int64_t nodes);
// "x" (rows, columns) -> "y", each row's softmax.
onnx::ModelProto makeSoftmax(int64_t rows, int64_t columns);
// "logits" (rows, classes), "labels" (rows) i64 -> "loss" (rows).
onnx::ModelProto makeCrossEntropy(int64_t rows, int64_t classes);
// One step of AdamW: "w", "g", "m", "v" (elements) -> "w_new", "m_new", "v_new".
onnx::ModelProto makeAdamW(int64_t elements);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_MODELS_H
