// SPDX-License-Identifier: Apache-2.0
//
// See sampler.h.

#include "runtime/run/generate/sampler.h"

#include "runtime/base/philox.h"

#include <algorithm>
#include <cmath>

namespace ashlar::rt {
namespace {

constexpr uint32_t kStream = 0x746f6b65; // of random numbers: no tensor of a program draws from it
} // namespace

Status Sampler::choose(const float *logits, size_t size, uint64_t text, uint64_t position, int64_t &token) {
  size_t largest = 0;
  for (size_t i = 0; i < size; ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      return nonfinite("the logit of token {} behind position {} is {}; check the weights", i, position,
                       std::isnan(logits[i]) ? "nan" : "inf");
    }
    largest = logits[i] > logits[largest] ? i : largest;
  }
  if (size == 0 || logits[largest] == -INFINITY) {
    return nonfinite("all logits behind position {} are -inf, so no token can follow; check the weights", position);
  }
  token = sampling.temperature == 0 ? static_cast<int64_t>(largest) : draw(logits, size, logits[largest], text, position);
  return Status();
}

void Sampler::keepMostLikely() {
  auto isMoreLikely = [](const Candidate &a, const Candidate &b) { return a.weight != b.weight ? a.weight > b.weight : a.token < b.token; };
  if (sampling.topK != 0 && sampling.topK < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(sampling.topK), candidates.end(), isMoreLikely);
    candidates.resize(sampling.topK);
  }
  if (sampling.topP < 1) {
    std::sort(candidates.begin(), candidates.end(), isMoreLikely);
    double sum = 0, kept = 0;
    for (const Candidate &each : candidates) {
      sum += each.weight;
    }
    size_t count = 0;
    while (count < candidates.size() && kept < sampling.topP * sum) {
      kept += candidates[count++].weight;
    }
    candidates.resize(std::max<size_t>(count, 1));
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate &a, const Candidate &b) { return a.token < b.token; });
}

int64_t Sampler::draw(const float *logits, size_t size, float largest, uint64_t text, uint64_t position) {
  candidates.clear();
  for (size_t i = 0; i < size; ++i) {
    candidates.push_back({std::exp((static_cast<double>(logits[i]) - largest) / sampling.temperature), static_cast<int64_t>(i)});
  }
  keepMostLikely();
  double sum = 0;
  for (const Candidate &each : candidates) {
    sum += each.weight;
  }
  const double drawn = sum * uniformDouble(philoxWords(sampling.seed, kStream, static_cast<uint32_t>(position), text));
  double passed = 0;
  for (const Candidate &each : candidates) {
    passed += each.weight;
    if (drawn < passed) {
      return each.token;
    }
  }
  auto last = std::find_if(candidates.rbegin(), candidates.rend(), [](const Candidate &each) { return each.weight > 0; });
  return (last == candidates.rend() ? candidates.front() : *last).token; // the sums were rounded
}

} // namespace ashlar::rt
