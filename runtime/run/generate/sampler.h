// SPDX-License-Identifier: Apache-2.0
//
// The next token of a text, from the logits of its last position.

#ifndef ASHLAR_RUNTIME_RUN_GENERATE_SAMPLER_H
#define ASHLAR_RUNTIME_RUN_GENERATE_SAMPLER_H

#include "runtime/base/status.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// How a token is chosen. Temperature 0 takes the largest logit. Else it is drawn from softmax(logits / temperature), of the `topK` most
// likely tokens (0: all), and of these the fewest whose probabilities add up to `topP` (1: all), in this order.
struct Sampling {
  double temperature = 0;
  uint64_t topK = 0;
  double topP = 1;
  uint64_t seed = 0;
};

// Draws with the number of a text and the position in it as key: the same text gets the same tokens in any batch and on any mesh.
class Sampler {
public:
  explicit Sampler(const Sampling &sampling) : sampling(sampling) {}

  // Returns the token that follows position `position` of text number `text` by its logits; of equal ones the first. Fails for a logit that
  // is NaN or +infinity, and where all are -infinity.
  Status choose(const float *logits, size_t size, uint64_t text, uint64_t position, int64_t &token);

private:
  struct Candidate {
    double weight; // exp((logit - the largest one) / temperature)
    int64_t token;
  };

  int64_t draw(const float *logits, size_t size, float largest, uint64_t text, uint64_t position);
  void keepMostLikely();

  Sampling sampling;
  std::vector<Candidate> candidates;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_GENERATE_SAMPLER_H
