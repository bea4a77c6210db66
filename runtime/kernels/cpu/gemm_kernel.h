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
// (p, j) of B is b[p * bRow + j * bCol], or b is the first of ordered panels: k rows of tileCols elements each, zeros beyond the last
// column, one behind the other. (i, j) of out is out[i * outRow + j]; bias is null or has `cols` elements.
template <typename Element> struct PieceOf {
  int64_t rows, cols, k;
  const Element *a;
  int64_t aRow, aCol;
  const Element *b;
  int64_t bRow, bCol;
  bool isOrdered;
  const Element *bias;
  Element *out;
  int64_t outRow;
  uint32_t epilogue; // ashlar_rt_epilogue
};

// One instruction set. compute() needs `workspaceElements` elements, aligned to 64 bytes, which nobody else uses meanwhile: at most
// kProductWorkspaceBytes.
template <typename Element> struct KernelOf {
  const char *name;
  int64_t tileRows, tileCols; // the block of `out` that is kept in registers
  int64_t workspaceElements;
  void (*compute)(const PieceOf<Element> &piece, Element *workspace);
};

using GemmPiece = PieceOf<float>;
struct GemmKernel : KernelOf<float> {
  // Makes the ordered panel of the piece's columns, at most tileCols.
  void (*order)(const GemmPiece &piece, float *panel);
};

// Integers of 8 bits are multiplied four at a time: an element of A is four of a row, unsigned, one of B four of a column, signed, and one
// of out the sum of all products, modulo 2^32.
using BytePiece = PieceOf<uint32_t>;
using ByteKernel = KernelOf<uint32_t>;

// Returns the kernels for any processor: plain vectors of four elements.
const GemmKernel &gemmKernelGeneric();
const ByteKernel &byteKernelGeneric();

#if defined(__x86_64__)
// Return the kernels for AVX2 with FMA. Only to be run where the processor has them.
const GemmKernel &gemmKernelAvx2();
const ByteKernel &byteKernelAvx2();

// Return the kernels for AVX-512F and its VNNI. Only to be run where the processor has them.
const GemmKernel &gemmKernelAvx512();
const ByteKernel &byteKernelAvx512();

// Returns the kernel for AMX with products of bytes; its bias, where there is one, has whole panels. Only to be run where the processor has
// them and the kernel gave the process the tile registers.
const ByteKernel &byteKernelAmx();
#endif

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H
