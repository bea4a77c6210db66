// SPDX-License-Identifier: Apache-2.0
//
// The border between attention.cpp, which cuts an attention into parts, and the kernels, one translation unit for each instruction set,
// which compute blocks of it.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_ATTENTION_KERNEL_H
#define ASHLAR_RUNTIME_KERNELS_CPU_ATTENTION_KERNEL_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/components.h"
#include "runtime/abi/memory_sizes.h"

#include <cstdint>

namespace ashlar::rt {

// The rows of a head of a tensor, dense in themselves. No functions: the kernels are compiled for other processors.
struct AttentionRows {
  void *first;  // null: there are none
  int64_t row;  // elements from row to row
  int64_t head; // elements from head to head
  bool isBf16;
};

// Heads with the same keys and values, and blocks of their rows and keys. Rows are of the first head, and of its key head.
struct AttentionPiece {
  const ashlar_rt_attention_desc *desc;
  const AttentionMemory *memory;
  AttentionRows q, k, v, dOut, out;   // read, but out forward
  const void *mask;                   // no mask: null
  int64_t diagonal;                   // of a causal one, for rows and keys that count from 0
  const int64_t *rowIndex, *keyIndex; // of a dropout, of each row of a head and each key
  uint32_t seed[2], step, stream;     // of a dropout
  float *lse;
  AttentionRows dq, dk, dv; // without dq only dk and dv are computed; without dk and dv only dq
  int64_t heads;
  int64_t firstRowBlock, lastRowBlock; // behind the last one; of few rows: not read
  int64_t firstKeyBlock, lastKeyBlock; // forward: all
  bool hasKeys;                        // forward: the piece before, in the same workspace, had the same keys and values
};

// One instruction set. The functions need the workspace that piece.memory describes, which nobody else uses meanwhile.
struct AttentionKernel {
  const char *name;
  // Computes out and lse of the rows.
  void (*forward)(const AttentionPiece &piece, float *workspace);
  // Few rows (hasFewRows), all heads of the piece: computes the sums of one block of keys, of memory->sumsSize floats. Reads no key or
  // value that no row sees.
  void (*sumBlock)(const AttentionPiece &piece, int64_t keyBlock, float *workspace, float *sums);
  // Adds the sums of `count` blocks, one behind the other, to the sums of the blocks before them.
  void (*addSums)(const AttentionPiece &piece, const float *sums, int64_t count, float *before);
  // Writes out and lse from the sums of all blocks.
  void (*finishFew)(const AttentionPiece &piece, const float *sums);
  // Computes dq of the rows from the keys, and dk and dv of the keys from the rows. They have the same bits together and apart: a number of
  // dq is one chain over the keys, in their order, of dk and dv over the heads and rows.
  void (*backward)(const AttentionPiece &piece, float *workspace);
};

// Returns the kernel for any processor: plain vectors of four elements.
const AttentionKernel &attentionKernelGeneric();

#if defined(__x86_64__)
// Returns the kernel for AVX2 with FMA. Only to be run where the processor has them.
const AttentionKernel &attentionKernelAvx2();

// Returns the kernel for AVX-512F. Only to be run where the processor has it.
const AttentionKernel &attentionKernelAvx512();
#endif

// Returns the fastest kernel that this processor can run. A component: it is there where the program needs it.
extern "C" [[gnu::weak]] const AttentionKernel *ASHLAR_RT_COMPONENT(attention)();

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_ATTENTION_KERNEL_H
