// SPDX-License-Identifier: Apache-2.0
//
// The border between gemm.cpp, which cuts a product into parts, and the kernels, one translation unit for each instruction set, which
// compute a part. A kernel sees strides only: transposes are gone.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H
#define ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H

#include "runtime/abi/components.h"
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
  bool accumulates;  // chains begin at what `out` holds; no bias
};

// One instruction set. compute() needs `workspaceElements` elements, aligned to 64 bytes, which nobody else uses meanwhile: at most
// kProductWorkspaceBytes; and behind them kProductKeptBytes where productWorkspaceBytes() has them.
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

// A product of bf16 or f16, summed in f32, the way of PieceOf; bias and out are of the same type or f32. Ordered panels have `k` rows of
// tileCols numbers and one of zeros where k is odd: as they are, or where the kernel multiplies two at a time, those of each two rows in
// turn.
struct NarrowPiece {
  int64_t rows, cols, k;
  const uint16_t *a;
  int64_t aRow, aCol;
  const uint16_t *b;
  int64_t bRow, bCol;
  bool isOrdered;
  const void *bias;
  void *out;
  int64_t outRow;
  uint32_t epilogue; // ashlar_rt_epilogue
  bool isF16, isOutNarrow;
  bool accumulates; // as in PieceOf, where `out` is f32
};

// compute() needs kProductWorkspaceBytes, and kProductSumBytes behind them where k is above kProductSumsFrom and `out` narrow.
struct NarrowKernel {
  const char *name;
  int64_t tileRows, tileCols;
  void (*compute)(const NarrowPiece &piece, float *workspace);
  // Makes the ordered panel of the piece's columns, at most tileCols.
  void (*order)(const NarrowPiece &piece, uint16_t *panel);
};

// Returns the kernels for any processor: plain vectors of four elements.
const GemmKernel &gemmKernelGeneric();
const ByteKernel &byteKernelGeneric();
const NarrowKernel &narrowKernelGeneric();

#if defined(__x86_64__)
// Return the kernels for AVX2 with FMA and F16C. Only to be run where the processor has them.
const GemmKernel &gemmKernelAvx2();
const ByteKernel &byteKernelAvx2();
const NarrowKernel &narrowKernelAvx2();

// Return the kernels for AVX-512F and its VNNI. Only to be run where the processor has them.
const GemmKernel &gemmKernelAvx512();
const ByteKernel &byteKernelAvx512();
const NarrowKernel &narrowKernelAvx512();

// Returns the kernel for AVX-512 with products of bf16, and for these only.
const NarrowKernel &narrowKernelAvx512Bf16();

// Returns the kernel for AMX with products of bytes; its bias, where there is one, has whole panels. Only to be run where the processor has
// them and the kernel gave the process the tile registers.
const ByteKernel &byteKernelAmx();

// Returns the kernel for AMX with products of bf16, and for these only. As that of bytes, but it is run where there is AVX-512, too.
const NarrowKernel &narrowKernelAmx();
#endif

// Return the fastest kernels that this processor can run. Components: each is there where the program needs it.
extern "C" {
[[gnu::weak]] const GemmKernel *ASHLAR_RT_COMPONENT(products_f32)();
[[gnu::weak]] const NarrowKernel *ASHLAR_RT_COMPONENT(products_narrow)(bool isF16);
[[gnu::weak]] const ByteKernel *ASHLAR_RT_COMPONENT(products_bytes)();
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_GEMM_KERNEL_H
