// SPDX-License-Identifier: Apache-2.0
//
// Element-wise reduction of n arrays in one fixed binary tree, so that the result depends neither on which rank computes it nor on how
// the elements are cut. The tree over [0, n) splits at ceil(n / 2): n = 8 gives ((0+1)+(2+3))+((4+5)+(6+7)), n = 3 gives (0+1)+2.

#ifndef ASHLAR_RUNTIME_COMM_REDUCE_H
#define ASHLAR_RUNTIME_COMM_REDUCE_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/components.h"
#include "runtime/base/status.h"

#include <cstddef>

namespace ashlar::rt {

// Combines arrays of one dtype by one reduction.  Sums of bool are "or"; NaN wins in max and min. Each sum of two bf16 or f16 is one of
// floats, rounded.
// Error of a sum: |out - exact| <= ceil(log2 n) * eps * sum_r |x_r| to first order, eps = 2^-24 (f32), 2^-53 (f64), 2^-8 (bf16), 2^-11
// (f16).
class Reducer {
public:
  Reducer() = default;

  // Chooses the kernels. Refuses unknown types and reductions.
  static Status create(uint32_t dtype, uint32_t reduction, Reducer &reducer);

  // Reduces `bytes` bytes that start `inputOffset` after each of the inputs into the bytes `outputOffset` after each of the outputs; every
  // output gets the whole result. The bytes of an output may be an input's (same address); other overlaps are not allowed. Assumes 1 <=
  // numInputs, 1 <= numOutputs. Allocates nothing.
  void run(const char *const *inputs, size_t numInputs, size_t inputOffset, char *const *outputs, size_t numOutputs, size_t outputOffset,
           size_t bytes) const;

private:
  using Pair = void (*)(const char *a, const char *b, char *out, size_t count);
  using Quad = void (*)(const char *a, const char *b, const char *c, const char *d, char *out, size_t count);

  void tree(const char *const *in, size_t numInputs, size_t offset, char *out, size_t bytes) const;

  using Copy = void (*)(const char *from, char *to, size_t bytes);
  Pair pair = nullptr;
  Quad quad = nullptr;
  Copy copy = nullptr;
  size_t elementBytes = 0;

  friend struct ReducerKernels;
};

// Chooses the kernels of a type of one or two bytes, but bool. Returns false for an unknown reduction. A component: it is there where the
// program needs it.
extern "C" [[gnu::weak]] bool ASHLAR_RT_COMPONENT(reductions_narrow)(uint32_t dtype, uint32_t reduction, Reducer &reducer);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_REDUCE_H
