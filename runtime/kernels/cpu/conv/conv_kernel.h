// SPDX-License-Identifier: Apache-2.0
//
// The border between conv*.cpp, which know windows, and the kernels, one translation unit for each instruction set, which compute blocks. A
// kernel sees tables of addresses only: they contain the places of windows, and padding.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_KERNEL_H
#define ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_KERNEL_H

#include <cstdint>

namespace ashlar::rt {

// The end of a chain of multiply-adds of a pixel in a block of the result. Element j of pixel i is out[at[i] + j].
struct ConvOut {
  float *out;
  const int64_t *at;
  const float *scale;    // null: none
  const float *bias;     // null: none
  const float *residual; // null: none; laid out as out
  bool first, last;      // the block begins the chains (at the bias, where there is no scale), or ends them (all else)
  uint32_t epilogue;     // ashlar_rt_epilogue
};

// A block of pixels of a convolution: out(i, j) += sum over places and `channels` of in(i, place)[channel] * panel(place, channel)[j].
// Pixels are in strips of tileRows; in[(strip * places + place) * tileRows + row of the strip] + inOffset is the address of the channels.
// The rows of a place begin at panel + panelAt[place], tileCols floats from channel to channel, zeros beyond cols <= tileCols.
struct ConvPixels {
  int64_t pixels, cols;
  int64_t places, channels;
  const float *const *in;
  int64_t inOffset;
  const float *panel;
  const int64_t *panelAt;
  ConvOut to;
};

// The same for convolutions of one channel in and out of each group: out(i, j) += sum over places of in(i, place)[j] * panel(place)[j].
struct ConvDepthwise {
  int64_t pixels, channels;
  int64_t places;
  const float *const *in;
  const float *panel;
  const int64_t *panelAt;
  ConvOut to;
};

// An input pixel and the row of the gradient of the output that it is multiplied with.
struct ConvPair {
  const float *in, *gradient;
};

// The distance in pairs at which a kernel prefetches the input. Readable pairs, of any readable addresses, follow the last one.
constexpr int64_t kConvAhead = 16;

// A block of positions of a weight gradient at one kernel place: sums(c, j) += sum over the pairs of in[inOffset + c] * gradient[j].
struct ConvPositions {
  int64_t pairs;
  const ConvPair *pair;
  int64_t inOffset;
  int64_t channels, cols; // cols <= tileCols; rows of the gradient and of the sums are readable and writable up to tileCols
  float *sums;
  int64_t sumsRow;
};

// The same for convolutions of one channel in and out of each group: sums(place, c) += in(i, place)[c] * gradient[i * gradientRow + c] over
// the positions i. in[i * places + place] is the address of the channels.
struct ConvDepthwisePositions {
  int64_t positions, channels;
  int64_t places;
  const float *const *in;
  int64_t inOffset;
  const float *gradient;
  int64_t gradientRow;
  float *sums;
  int64_t sumsRow;
};

// One instruction set.
struct ConvKernel {
  const char *name;
  int64_t lanes;
  int64_t tileRows, tileCols; // the block of the result that is kept in registers

  void (*pixels)(const ConvPixels &block);
  void (*depthwise)(const ConvDepthwise &block);
  void (*positions)(const ConvPositions &block);
  void (*depthwisePositions)(const ConvDepthwisePositions &block);

  // Transposes a dense `columns` x (channels x places) matrix into a panel: element (j, c, p) to panel[p * placeFloats + c * tileCols + j],
  // zeros beyond the columns.
  void (*packRows)(const float *matrix, int64_t columns, int64_t channels, int64_t places, int64_t placeFloats, float *panel);
  // The same for a matrix of channels x (columns x places) whose channels are channelFloats apart.
  void (*packColumns)(const float *matrix, int64_t channelFloats, int64_t columns, int64_t channels, int64_t places, int64_t placeFloats,
                      float *panel);
  // The way back of packRows: row c * tileCols behind rows + placeAt[p], column j, to element (j, c, p) of the matrix, whose columns are
  // columnFloats apart.
  void (*unpackRows)(const float *rows, const int64_t *placeAt, int64_t columns, int64_t channels, int64_t places, int64_t columnFloats,
                     float *matrix);
};

// Returns the kernel for any processor: plain vectors of four floats.
const ConvKernel &convKernelGeneric();

#if defined(__x86_64__)
// Returns the kernel for AVX2 with FMA. Only to be run where the processor has them.
const ConvKernel &convKernelAvx2();

// Returns the kernel for AVX-512F. Only to be run where the processor has it.
const ConvKernel &convKernelAvx512();
#endif

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_KERNEL_H
