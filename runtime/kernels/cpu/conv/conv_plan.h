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
  float *panels;     // weights in the order of the kernel, unless they are fixed and elements, or sums of a weight gradient
  char *zeros;       // source of padding, and the neighbour of a last number
  void *table;       // const char *, or ConvPair
  int64_t *at;       // offsets of pixels
  ConvPlace *places; // of a grid
  int64_t *panelAt;  // for each place
  int64_t *counts;   // for each place
  float *gradient;   // one panel of the gradient of y
  float *pixels;     // of a block, next to each other
  float *sums;       // of a block, where the result has no room for them
  char *image;       // one image of x with its padding, where columns are folded
};

// Panels of tileCols columns are numbered over all groups. Units are strips of tileRows rows of the result: pixels, or for a weight
// gradient (place, channel in).
struct ConvPlan {
  ashlar_rt_conv_desc desc;
  const ConvKernel *kernel;
  int64_t numberBytes; // of the operands
  uint32_t outNarrow;  // the type of the result: 0 (f32), ASHLAR_RT_BF16 or ASHLAR_RT_F16
  bool depthwise;
  bool folded;                  // the columns of the window are part of the channels
  bool copied;                  // and an image is copied to have its padding beside it
  bool copiesPixels;            // pixels become elements when they are copied
  std::vector<ConvRun> runs[3]; // of the spatial dims
  std::vector<ConvGrid> grids;  // all products of runs
  int64_t filterPlaces;         // places of a filter in memory
  int64_t channels;             // that a pixel of the input has for one place of one group
  int64_t elements;             // that these are in a chain of pixels
  int64_t depth;                // channels of the input of one group in memory
  int64_t cols;                 // channels of the result of one group
  int64_t panels;
  int64_t tablePointers;
  int64_t placeFloats; // of a panel, from one place of the grids to the next
  int64_t panelFloats;
  int64_t partUnits, partPanels; // the grid of parts: of units and of panels

  // Whether fixed weights, ordered as the numbers that they are, become elements in every run.
  bool widensOrdered() const { return !depthwise && !kernel->readsNumbers; }
  // Pieces that weights are ordered in: panels, of depthwise convolutions one for all channels.
  int64_t orderedPieces() const { return depthwise ? 1 : panels; }
  int64_t pieceBytes() const {
    return depthwise ? filterPlaces * placeFloats * numberBytes
                     : panelFloats * (widensOrdered() ? numberBytes : static_cast<int64_t>(sizeof(float)));
  }
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
  void copyImage(const char *x, int64_t image, char *copy) const;
};

// The operands of a run.
struct ConvOperands {
  const char *in;
  const void *weights;                 // or the gradient of y
  const void *scale, *bias, *residual; // null: none
  void *out;
};

// Orders the weights of one piece for the kernel.
void orderWeights(const ConvPlan &plan, const void *weights, int64_t piece, void *to);

// Computes part `part` of a convolution or a data gradient, of any groups and of depthwise ones, and of weight gradients.
void runConvPixels(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands);
void runConvDepthwise(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands);
void runConvWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands);
void runConvDepthwiseWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_PLAN_H
