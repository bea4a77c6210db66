// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradients as plain loops in f64, written to be read, with bounds for kernels whose products read 16 bits.

#ifndef ASHLAR_RUNTIME_KERNELS_REFERENCE_ATTENTION_H
#define ASHLAR_RUNTIME_KERNELS_REFERENCE_ATTENTION_H

#include "runtime/abi/ashlar_rt.h"

#include <cstddef>
#include <vector>

namespace ashlar::rt {

// Exact numbers, and how far a kernel may be from each of them.
struct BoundedNumbers {
  std::vector<double> values, bounds;

  // Returns the first number that is not within its bound; the count of numbers where all are. NaN is not.
  size_t firstFault(const std::vector<double> &found) const;

  // Returns the largest error as a share of its bound.
  double worstShare(const std::vector<double> &found) const;
};

struct ReferenceAttention {
  BoundedNumbers out, lse, dQuery, dKey, dValue; // the last three of gradients only
};

// Computes the numbers of an attention without softcap, with as many key heads as heads. `mask`: floats, if the desc has one. `out` and
// `dOut`: of gradients; the result of the forward pass as it was rounded. `unit`: of the type of the operands, 2^-8 of bf16, 2^-11 of f16.
// A bound is 2.1 units of the sum of the sizes of the terms, for the rounding of the weights or of the gradients of scores, and of the
// result, and 2^-16 of that sum with the terms that cancel in it, for f32.
ReferenceAttention referenceAttention(const ashlar_rt_attention_desc &desc, const float *query, const float *key, const float *value,
                                      const float *mask, const float *out, const float *dOut, double unit);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_REFERENCE_ATTENTION_H
