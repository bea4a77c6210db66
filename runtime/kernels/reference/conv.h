// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as plain loops, written to be read: the oracle of every faster one.

#ifndef ASHLAR_RUNTIME_KERNELS_REFERENCE_CONV_H
#define ASHLAR_RUNTIME_KERNELS_REFERENCE_CONV_H

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

// Computes the descriptor's convolution, sums in f64. `a`, `b`, `out`: the first two buffers and the last one; `bias` and `residual` are
// read only if the descriptor has them.
void referenceConv(const ashlar_rt_conv_desc &desc, const float *a, const float *b, const float *scale, const float *bias,
                   const float *residual, float *out);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_REFERENCE_CONV_H
