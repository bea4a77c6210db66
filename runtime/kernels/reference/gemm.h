// SPDX-License-Identifier: Apache-2.0
//
// The matrix product as plain loops, written to be read: the oracle of every faster one.

#ifndef ASHLAR_RUNTIME_KERNELS_REFERENCE_GEMM_H
#define ASHLAR_RUNTIME_KERNELS_REFERENCE_GEMM_H

#include "runtime/abi/ashlar_rt.h"

namespace ashlar::rt {

// Returns the activation of x as the epilogue defines it; x itself for NONE.
double referenceEpilogue(uint32_t epilogue, double x);

// Computes out[b] = epilogue(op(A[b]) op(B[b]) + bias), sums in f64. `bias` is read only if the desc has one.
void referenceGemm(const ashlar_rt_gemm_desc &desc, const float *a, const float *b, const float *bias, float *out);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_REFERENCE_GEMM_H
