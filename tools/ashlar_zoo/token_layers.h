// SPDX-License-Identifier: Apache-2.0
//
// Layers on tokens, values (batch, tokens, width), with the parameters of PyTorch's modules: a layer at path "encoder.ln" has parameters
// "encoder.ln.weight" and "encoder.ln.bias", and dense weights are (out, in).

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_TOKEN_LAYERS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_TOKEN_LAYERS_H

#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

class TokenLayers {
public:
  static constexpr int64_t kOpset = 23; // the first one with Attention

  // Throws std::runtime_error when the heads do not divide the width.
  TokenLayers(ModelBuilder &b, int64_t width, int64_t heads, float epsilon);

  std::string norm(const std::string &path, const std::string &x);
  std::string linear(const std::string &path, const std::string &x, int64_t in, int64_t out);

  // x W^T + bias with parameters of these names, (out, in) and (out).
  std::string linear(const std::string &name, const std::string &x, const std::string &weight, const std::string &bias);

  std::string gelu(const std::string &path, const std::string &x);

  // Attention of all tokens to all tokens; to those where `mask`, bools (batch, 1, 1, tokens), is true, unless it is empty.
  std::string attention(const std::string &path, const ModelBuilder::Names &queryKeyValue, const std::string &mask);

  // The first token of each sample, (batch, width).
  std::string firstToken(const std::string &path, const std::string &x);

private:
  ModelBuilder &b;
  int64_t width, heads;
  float epsilon; // of norms
};

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_TOKEN_LAYERS_H
