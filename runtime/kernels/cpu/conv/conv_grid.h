// SPDX-License-Identifier: Apache-2.0
//
// Where the windows of a convolution stand: tables of addresses for the kernels. A grid is a box of positions, each with one pixel of the
// result, and for each place of the kernel one pixel of the input.
//
// A convolution has a grid for each set of places that its positions have outside of the padding: with 3 x 3 places and padding 1 the inner
// positions, four edges and four corners. A data gradient has them for each phase: the pixels of x whose index leaves the same rest when
// divided by the stride.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_GRID_H
#define ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_GRID_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/kernels/cpu/conv/conv_kernel.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// A run of positions along one spatial dim: position t has pixel t * outStep + outFirst of the result, and for each place of the kernel
// along the dim pixel t * inStep + first of the input.
struct ConvRun {
  struct Place {
    int64_t index, first;
  };
  int64_t size;
  int64_t outSize, outStep, outFirst;
  int64_t inSize, inStep;
  int64_t kernel; // places along the dim in a filter
  std::vector<Place> places;
};

// Returns the runs of one spatial dim of the given kind of convolution. Every run of forward and data has only places whose pixels exist at
// all its positions, so that padding, and elements skipped by strides, are not computed; weights has one run with all places. With `folded`
// there is one place, and `columns` pixels of input without padding.
std::vector<ConvRun> runsOf(uint32_t kind, const ashlar_rt_conv_dim &dim, bool folded, int64_t columns);

// A place of the kernel: element `index` of a filter, its pixel at position 0, and the offset of that in the input, in bytes.
struct ConvPlace {
  int64_t index;
  int64_t first[3];
  int64_t offset;
};

// The product of three runs. The runs must outlive it.
class ConvGrid {
public:
  // Makes a grid of pixels of `inPixel` bytes, and of `outPixel` numbers.
  ConvGrid(int64_t batch, const ConvRun &run0, const ConvRun &run1, const ConvRun &run2, int64_t inPixel, int64_t outPixel)
      : batch(batch), runs{&run0, &run1, &run2}, inPixel(inPixel), outPixel(outPixel) {}

  int64_t positions() const { return batch * positionsOfImage(); }
  int64_t positionsOfImage() const { return runs[0]->size * runs[1]->size * runs[2]->size; }
  int64_t places() const;
  // Returns the bytes of the input between neighbours along the last dim.
  int64_t pixelDistance() const { return runs[2]->inStep * inPixel; }

  // Writes all places in the order of the kernel.
  void listPlaces(ConvPlace *places) const;

  // Fills `table` as ConvPixels wants it for `count` positions from `begin` on and some of the places, and `at` with offsets of their
  // pixels in the result. `in` is image `firstImage` of the input, `zeros` the source of padding: null for forward and data.
  void fillPixels(int64_t begin, int64_t count, const ConvPlace *place, int64_t places, int64_t firstImage, const char *in,
                  const char *zeros, int64_t tileRows, const char **table, int64_t *at) const;

  // Fills pairs[place * stride + i], i < pairCounts[place], with the input pixels of `count` positions from `begin` on, without those in
  // the padding, each with the row of its position among `rows` of `rowBytes` bytes, and kConvAhead pairs behind the last.
  void fillPairs(int64_t begin, int64_t count, const ConvPlace *place, int64_t places, int64_t firstImage, const char *in, const char *rows,
                 int64_t rowBytes, ConvPair *pairs, int64_t stride, int64_t *pairCounts) const;

private:
  struct Walker;
  bool allInside(const Walker &walker) const;
  bool inside(const Walker &walker, const ConvPlace &place) const;

  int64_t batch;
  const ConvRun *runs[3];
  int64_t inPixel, outPixel;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_GRID_H
