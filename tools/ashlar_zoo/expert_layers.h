// SPDX-License-Identifier: Apache-2.0
//
// A layer of experts, of which each token takes some, in ops of ONNX and with fixed shapes.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_EXPERT_LAYERS_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_EXPERT_LAYERS_H

#include "tools/ashlar_zoo/model_builder.h"

namespace ashlar::zoo {

// `capacity`: most tokens of a sample that an expert takes, relative to an even distribution over the experts.
struct ExpertSizes {
  int64_t experts = 0, chosen = 2;
  double capacity = 1.25;
};

// Adds a mixture of experts, as GShard's: each token of x (batch, sequence, width) goes to the `chosen` experts with the largest softmax of
// x times NAME.gate.weight, and takes the sum of their results, weighted by these probabilities over their sum. An expert is two dense
// layers with a ReLU between: rows of NAME.up.weight (experts, width, hidden) and NAME.down.weight (experts, hidden, width). It takes the
// first tokens of a sample that chose it, up to its capacity; others get 0 of it. NAME.to_experts.out is (experts, batch * slots, width):
// where its experts are sharded and its batch was, tokens move in an all-to-all. Throws std::runtime_error unless 1 <= chosen <= experts.
std::string addExperts(ModelBuilder &b, const std::string &name, const std::string &x, int64_t sequence, int64_t width, int64_t hidden,
                       const ExpertSizes &sizes);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_EXPERT_LAYERS_H
