// SPDX-License-Identifier: Apache-2.0
//
// The state of a prepared convolution, shared by conv.cpp and the files that compute it. Grids point to runs: a plan is moved, not copied.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_PLAN_H
#define ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_PLAN_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/kernels/cpu/conv/conv_grid.h"
#include "runtime/kernels/cpu/conv/conv_kernel.h"
#include "runtime/kernels/cpu/parts.h"

#include <cstdint>
#include <vector>

namespace ashlar::rt {

// The memory of one part, each piece aligned to ASHLAR_RT_ALIGNMENT.
struct ConvMemory {
  float *panels;     // weights in the order of the kernel, unless they are fixed, or sums of a weight gradient
  float *zeros;      // source of padding
  void *table;       // const float *, or ConvPair
  int64_t *at;       // offsets of pixels
  ConvPlace *places; // of a grid
  int64_t *panelAt;  // for each place
  int64_t *counts;   // for each place
  float *gradient;   // one panel of the gradient of y
  float *pixels;     // of a block, next to each other
  float *image;      // one image of x with its padding, where columns are folded
};

// Panels of tileCols columns are numbered over all groups. Units are strips of tileRows rows of the result: pixels, or for a weight
// gradient (place, channel in).
struct ConvPlan {
  ashlar_rt_conv_desc desc;
  const ConvKernel *kernel;
  bool depthwise;
  bool folded;                  // the columns of the window are part of the channels
  bool copied;                  // and an image is copied to have its padding beside it
  std::vector<ConvRun> runs[3]; // of the spatial dims
  std::vector<ConvGrid> grids;  // all products of runs
  int64_t filterPlaces;         // places of a filter in memory
  int64_t channels;             // that a pixel of the input has for one place of one group
  int64_t depth;                // channels of the input of one group in memory
  int64_t cols;                 // channels of the result of one group
  int64_t panels;
  int64_t tablePointers;
  int64_t filterPlaceFloats; // of a panel, from one place of a filter to the next
  int64_t placeFloats;       // and from one place of the grids to the next
  int64_t panelFloats;
  int64_t partUnits, partPanels; // the grid of parts: of units and of panels

  // Pieces that weights are ordered in: panels, of depthwise convolutions one for all channels.
  int64_t orderedPieces() const { return depthwise ? 1 : panels; }
  int64_t pieceFloats() const { return depthwise ? filterPlaces * placeFloats : panelFloats; }
  int64_t groupPanels() const { return panels / desc.groups; }
  int64_t unitPart(int part) const { return part / partPanels; }
  Range panelRange(int part) const { return cut(panels, 1, part % partPanels, partPanels); }
  // Returns the positions of a grid that are a part's. Different parts get the last strips of different grids.
  Range rows(int part, size_t grid) const {
    return cut(grids[grid].positions(), kernel->tileRows, (unitPart(part) + grid) % partUnits, partUnits);
  }
  // Returns how many panels of `floats` are computed together.
  int64_t chunk(int64_t floats, Range range) const;
  // Copies image `image` of x, for folded columns.
  void copyImage(const float *x, int64_t image, float *copy) const;
};

// Orders the weights of one piece for the kernel.
void orderWeights(const ConvPlan &plan, const float *weights, int64_t piece, float *to);

// Computes part `part` of a convolution or a data gradient, of any groups and of depthwise ones, and of weight gradients.
void runConvPixels(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *weights, const float *scale,
                   const float *bias, const float *residual, float *out);
void runConvDepthwise(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *weights, const float *scale,
                      const float *bias, const float *residual, float *out);
void runConvWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *gradient, float *out);
void runConvDepthwiseWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *gradient, float *out);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_PLAN_H
