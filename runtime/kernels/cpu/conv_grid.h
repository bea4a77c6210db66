// SPDX-License-Identifier: Apache-2.0
//
// Where the windows of a convolution stand: tables of addresses for the kernels. A grid is a set of positions, each with one pixel of the
// result, and for each place of the kernel one pixel of the input, or none in the padding. A convolution and a weight gradient have one
// grid, a data gradient has one for each phase: the pixels of x whose index leaves the same rest when divided by the stride.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_CONV_GRID_H
#define ASHLAR_RUNTIME_KERNELS_CPU_CONV_GRID_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/kernels/cpu/conv_kernel.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// One spatial dim of a grid: position t has pixel t * outStep + outFirst of the result and, for a place, t * inStep + first of the input.
struct ConvGridDim {
  int64_t size;
  int64_t outSize, outStep, outFirst;
  int64_t inSize, inStep;
};

// A place of the kernel: element `index` of a filter, and its pixel at position 0.
struct ConvPlace {
  int64_t index;
  int64_t first[3];
  int64_t offset; // of that pixel in the input, in floats
};

class ConvGrid {
public:
  // Makes the grid of forward and weights. With `folded`, the places along the last dim are one, and that dim of the input has
  // foldedColumns() or more, `columns`, without padding.
  static ConvGrid ofOutput(const ashlar_rt_conv_desc &desc, bool folded, int64_t columns);

  // Makes the grid of the pixels of x whose rests are `phase`, one for each spatial dim.
  static ConvGrid ofInput(const ashlar_rt_conv_desc &desc, const int64_t phase[3]);

  int64_t positions() const { return batch * positionsOfImage(); }
  int64_t positionsOfImage() const { return dims[0].size * dims[1].size * dims[2].size; }
  const std::vector<ConvPlace> &places() const { return allPlaces; }

  // Fills `table` as ConvPixels wants it for `count` positions from `begin` on and places [placeBegin, placeBegin + places), and `at` with
  // offsets of their pixels in the result. `in` is image `firstImage` of the input, `zeros` what the padding reads.
  void fillPixels(int64_t begin, int64_t count, int64_t placeBegin, int64_t places, int64_t firstImage, const float *in, const float *zeros,
                  int64_t tileRows, const float **table, int64_t *at) const;

  // Fills pairs[place * stride + i], i < pairCounts[place], with the input pixels of `count` positions from `begin` on, without those in
  // the padding, each with the row of its position among `rows` of `rowFloats` floats.
  void fillPairs(int64_t begin, int64_t count, int64_t placeBegin, int64_t places, int64_t firstImage, const float *in, const float *rows,
                 int64_t rowFloats, ConvPair *pairs, int64_t stride, int64_t *pairCounts) const;

private:
  struct Walker;
  void finish(int64_t inFloats, int64_t outFloats);
  bool inside(const Walker &walker) const;
  bool inside(const Walker &walker, const ConvPlace &place) const;

  int64_t batch;
  ConvGridDim dims[3];
  int64_t inPixel, outPixel; // floats
  std::vector<ConvPlace> allPlaces;
  int64_t lowest[3], highest[3]; // of `first` of all places
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_GRID_H
