// SPDX-License-Identifier: Apache-2.0
//
// The border between conv*.cpp, which know windows, and the kernels, one translation unit for each instruction set, which compute blocks. A
// kernel sees tables of addresses only: they contain the places of windows, and padding.
//
// Chains run over elements of four bytes: floats, or where the kernel multiplies them in pairs, two numbers of bf16. Numbers are what lies
// in the tensors: floats, bf16 or f16. They are elements already, or become some when pixels are copied.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_KERNEL_H
#define ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_KERNEL_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/abi/components.h"

#include <cstdint>

namespace ashlar::rt {

// The end of a chain of multiply-adds of a pixel in a block of the result. Number j of pixel i is out[at[i] + j].
struct ConvOut {
  void *out;
  const int64_t *at;
  const void *scale;    // null: none
  const void *bias;     // null: none
  const void *residual; // null: none; laid out as out
  uint32_t narrow;      // the type of all of these: 0 (f32), ASHLAR_RT_BF16 or ASHLAR_RT_F16
  float *sums;          // of a narrow result, where chain (i, j) waits for the next block: sums[i * sumsRow + j]; null: there is one block
  int64_t sumsRow;
  bool first, last;  // the block begins the chains (at the bias, where there is no scale), or ends them (all else)
  uint32_t epilogue; // ashlar_rt_epilogue
};

// A block of pixels of a convolution: out(i, j) += sum over places and `elements` of in(i, place)[element] * panel(place, element)[j].
// Pixels are in strips of tileRows; in[(strip * places + place) * tileRows + row of the strip] + inBytes is the address of the elements.
// The rows of a place begin at panel + panelAt[place], tileCols floats from element to element, zeros beyond cols <= tileCols.
struct ConvPixels {
  int64_t pixels, cols;
  int64_t places, elements;
  const char *const *in;
  int64_t inBytes;
  const float *panel;
  const int64_t *panelAt;
  ConvOut to;
};

// The same for convolutions of one channel in and out of each group: out(i, j) += sum over places of in(i, place)[j] * panel(place)[j]. All
// are numbers.
struct ConvDepthwise {
  int64_t pixels, channels;
  int64_t places;
  const char *const *in;
  const void *panel;
  const int64_t *panelAt;
  ConvOut to;
};

// An input pixel and the row of the gradient of the output that it is multiplied with.
struct ConvPair {
  const char *in, *gradient;
};

// The distance in pairs at which a kernel prefetches the input. Readable pairs, of any readable addresses, follow the last one.
constexpr int64_t kConvAhead = 16;

// A block of positions of a weight gradient at one kernel place: sums(c, j) += sum over the pairs of in[c] * gradient[j], both elements, in
// from inBytes on.
struct ConvPositions {
  int64_t pairs;
  const ConvPair *pair;
  int64_t inBytes;
  int64_t channels, cols; // cols <= tileCols; rows of the gradient and of the sums are readable and writable up to tileCols
  float *sums;
  int64_t sumsRow;
};

// The same for convolutions of one channel in and out of each group: sums(place, c) += in(i, place)[c] * gradient[i * gradientRow + c] over
// the positions i, numbers. in[i * places + place] + inBytes is the address of the channels.
struct ConvDepthwisePositions {
  int64_t positions, channels;
  int64_t places;
  const char *const *in;
  int64_t inBytes;
  const void *gradient;
  int64_t gradientRow;
  float *sums;
  int64_t sumsRow;
};

// One instruction set and one type of operands.
struct ConvKernel {
  const char *name;
  int64_t lanes;
  int64_t tileRows, tileCols; // the block of the result that is kept in registers
  int64_t perElement;         // numbers of an element: neighbours along the chain
  bool readsNumbers;          // numbers in memory are elements as they are; else pixels are copied

  void (*pixels)(const ConvPixels &block);
  void (*depthwise)(const ConvDepthwise &block);
  void (*positions)(const ConvPositions &block);
  void (*depthwisePositions)(const ConvDepthwisePositions &block);

  // Makes elements of `count` neighbours along a chain, with a zero behind the last one where an element lacks a number.
  void (*copyAlong)(const void *numbers, int64_t count, float *elements);
  // Makes elements of a row of numbers and the row that follows it in the chain, zeros from `count` to `width`. Of kernels of bf16 and f16.
  void (*copyAcross)(const void *row, const void *next, int64_t count, int64_t width, float *elements);

  // Transposes a dense `columns` x (channels x places) matrix of numbers into a panel: column j of element c at place p to
  // panel[p * placeFloats + c * tileCols + j], zeros beyond the columns.
  void (*packRows)(const void *matrix, int64_t columns, int64_t channels, int64_t places, int64_t placeFloats, float *panel);
  // The same for a matrix of channels x (columns x places) whose channels are channelNumbers apart.
  void (*packColumns)(const void *matrix, int64_t channelNumbers, int64_t columns, int64_t channels, int64_t places, int64_t placeFloats,
                      float *panel);
  // The way back of packRows for sums: row c * tileCols behind rows + placeAt[p], column j, to element (j, c, p) of the matrix, whose
  // columns are columnFloats apart.
  void (*unpackRows)(const float *rows, const int64_t *placeAt, int64_t columns, int64_t channels, int64_t places, int64_t columnFloats,
                     float *matrix);
};

// The kernels of an instruction set.
struct ConvKernels {
  ConvKernel f32, bf16, f16;
};

// Returns the kernels for any processor: plain vectors of four floats.
const ConvKernels &convKernelsGeneric();

#if defined(__x86_64__)
// Returns the kernels for AVX2 with FMA and F16C. Only to be run where the processor has them.
const ConvKernels &convKernelsAvx2();

// Returns the kernels for AVX-512F. Only to be run where the processor has it.
const ConvKernels &convKernelsAvx512();

// Returns the kernel for AVX-512 with products of bf16, and for these only.
const ConvKernel &convKernelAvx512Bf16();
#endif

// Return the fastest kernels that this processor can run. Components: each is there where the program needs it.
extern "C" {
[[gnu::weak]] const ConvKernel *ASHLAR_RT_COMPONENT(convolutions_f32)();
[[gnu::weak]] const ConvKernel *ASHLAR_RT_COMPONENT(convolutions_narrow)(bool isF16);
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_KERNEL_H
