// SPDX-License-Identifier: Apache-2.0
//
// Encoders of transformers, of images and of texts, with the parameters of torchvision and of Hugging Face, without dropout.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_ENCODERS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_ENCODERS_H

#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

struct VitSizes {
  int64_t layers = 12, width = 768, heads = 12, hidden = 3072; // ViT-B
  int64_t patch = 16, image = 224, channels = 3, classes = 1000;
};

// A vision transformer with torchvision's names: patches of `patch` x `patch` pixels and a class token become tokens; `layers` of norm,
// attention, norm, two dense layers `hidden` wide; the class token gives the classes. "input" (batch, channels, image, image) -> "logits"
// (batch, classes). Throws std::runtime_error when heads do not divide the width, or patches the image.
onnx::ModelProto makeVit(const ParameterOptions &options, const VitSizes &sizes);

struct BertSizes {
  int64_t layers = 12, width = 768, heads = 12, hidden = 3072; // BERT-base
  int64_t vocabulary = 30522, positions = 512, sequence = 128, classes = 2;
};

// BERT with a head that classifies texts, with the names of Hugging Face's BertForSequenceClassification. "input_ids", "attention_mask" (1:
// a token, 0: padding) and "token_type_ids" (batch, sequence) i64 -> "logits" (batch, classes). Throws std::runtime_error when heads do not
// divide the width, or there are fewer positions than tokens of a text.
onnx::ModelProto makeBert(const ParameterOptions &options, const BertSizes &sizes);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_ENCODERS_H
