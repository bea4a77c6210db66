// SPDX-License-Identifier: Apache-2.0
//
// The border between gemm.cpp, which cuts a product into parts, and the kernels, one translation unit for each instruction set, which
// compute a part. A kernel sees strides only: transposes are gone.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H
#define ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H

#include "runtime/abi/memory_sizes.h"

#include <cstddef>
#include <cstdint>

namespace ashlar::rt {

// A piece of out = epilogue(A B + bias): `rows` x `cols` elements of `out`, over all of k. Element (i, p) of A is a[i * aRow + p * aCol],
// (p, j) of B is b[p * bRow + j * bCol], or b is the first of the panels that order() made; (i, j) of out is out[i * outRow + j]; bias is
// null or has `cols` elements.
struct GemmPiece {
  int64_t rows, cols, k;
  const float *a;
  int64_t aRow, aCol;
  const float *b;
  int64_t bRow, bCol;
  bool isOrdered;
  const float *bias;
  float *out;
  int64_t outRow;
  uint32_t epilogue; // ashlar_rt_epilogue
};

// One instruction set. compute() needs `workspaceFloats` floats, aligned to 64 bytes, which nobody else uses meanwhile: at
// most kProductWorkspaceBytes.
struct GemmKernel {
  const char *name;
  int64_t tileRows, tileCols; // the block of `out` that is kept in registers
  int64_t workspaceFloats;
  void (*compute)(const GemmPiece &piece, float *workspace);

  // Copies the `cols` <= tileCols columns of B of a piece next to each other: k rows of tileCols floats, zeros beyond the last column.
  // compute() takes panels that follow each other.
  void (*order)(const GemmPiece &piece, float *panel);
};

// Returns the kernel for any processor: plain vectors of four floats.
const GemmKernel &gemmKernelGeneric();

#if defined(__x86_64__)
// Returns the kernel for AVX2 with FMA. Only to be run where the processor has them.
const GemmKernel &gemmKernelAvx2();

// Returns the kernel for AVX-512F. Only to be run where the processor has it.
const GemmKernel &gemmKernelAvx512();
#endif

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H
