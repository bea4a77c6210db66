// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and data gradients: which block of pixels, kernel places and channels the kernel computes when.
//
// Loops, outermost first: panels of weights, as many as are ordered at a time; blocks of pixels, whose part of the input stays in the L2
// cache; blocks of the chain, so that a panel's part stays in L1; panels.

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/conv/conv_plan.h"

#include <cstring>

namespace ashlar::rt {

namespace {

constexpr int64_t kBlockPixels = kConvBlockPixels;
constexpr int64_t kBlockChain = kConvBlockChain;
constexpr int64_t kWay = 4096; // bytes after which lines of the L1 cache are shared

// Orders the weights of one panel: rows (place, channel of the input), columns channels of the result.
void packPanel(const ConvPlan &plan, const float *weights, int64_t panel, float *to) {
  const ConvKernel &kernel = *plan.kernel;
  const int64_t group = panel / plan.groupPanels(), column = panel % plan.groupPanels() * kernel.tileCols;
  const int64_t columns = std::min(kernel.tileCols, plan.cols - column), places = plan.filterPlaces;
  if (plan.desc.kind == ASHLAR_RT_CONV_FORWARD) {
    const float *filters = weights + (group * plan.cols + column) * plan.depth * places;
    kernel.packRows(filters, columns, plan.depth, places, plan.filterPlaceFloats, to);
  } else {
    const float *filters = weights + (group * plan.depth * plan.cols + column) * places;
    kernel.packColumns(filters, plan.cols * places, columns, plan.depth, places, plan.filterPlaceFloats, to);
  }
}

// The same for all channels of a depthwise convolution.
void packDepthwise(const ConvPlan &plan, const float *weights, float *to) {
  const int64_t places = plan.filterPlaces;
  for (int64_t j = 0; j < plan.desc.groups; ++j) {
    for (int64_t place = 0; place < places; ++place) {
      to[place * plan.placeFloats + j] = weights[j * places + place];
    }
  }
}

// A block of pixels of one grid, whose places are in the memory, and the panels that are ordered.
struct PixelBlock {
  const ConvPlan &plan;
  const ConvMemory &memory;
  const ConvGrid &grid;
  int64_t places;
  Range panels;
  const float *ordered; // their weights
  int64_t begin, count;
  int64_t firstImage;
  const float *in, *scale, *bias, *residual;
  float *out;
  bool copies; // pixels are copied: they are so far apart that the rows of a tile would share lines of the L1 cache
};

// Runs the kernel on places [place, place + places) and channels [channel, channel + channels) for all panels.
void computePanels(const PixelBlock &block, int64_t place, int64_t places, int64_t channel, int64_t channels) {
  const ConvPlan &plan = block.plan;
  const int64_t tileCols = plan.kernel->tileCols;
  ConvPixels call = {};
  call.pixels = block.count;
  call.places = places;
  call.channels = channels;
  call.in = static_cast<const float *const *>(block.memory.table) + (block.copies ? plan.tablePointers / 2 : 0);
  call.panelAt = block.memory.panelAt + place;
  call.to.at = block.memory.at;
  call.to.first = place == 0 && channel == 0;
  call.to.last = place + places == block.places && channel + channels == plan.channels;
  call.to.epilogue = plan.desc.epilogue;
  for (int64_t panel = block.panels.begin; panel < block.panels.end; ++panel) {
    const int64_t group = panel / plan.groupPanels(), inGroup = panel % plan.groupPanels() * tileCols;
    const int64_t column = group * plan.cols + inGroup;
    call.cols = std::min(tileCols, plan.cols - inGroup);
    call.inOffset = block.copies ? 0 : group * plan.channels + channel;
    call.panel = block.ordered + (panel - block.panels.begin) * plan.panelFloats + channel * tileCols;
    call.to.out = block.out + column;
    call.to.scale = block.scale ? block.scale + column : nullptr;
    call.to.bias = block.bias ? block.bias + column : nullptr;
    call.to.residual = block.residual ? block.residual + column : nullptr;
    plan.kernel->pixels(call);
  }
}

// Copies the channels of a block next to each other, and lets the table point there.
void copyPixels(const PixelBlock &block, int64_t channel, int64_t channels) {
  const ConvPlan &plan = block.plan;
  const float **table = static_cast<const float **>(block.memory.table), **copies = table + plan.tablePointers / 2;
  for (int64_t i = 0; i < block.count; ++i) {
    float *copy = block.memory.pixels + i * kConvCopiedPixel;
    std::memcpy(copy, table[i] + channel, channels * sizeof(float));
    copies[i] = copy;
  }
}

// Computes the block, one piece of the chains after the other, empty ones where there are no places.
void computeBlock(const PixelBlock &block) {
  const ConvPlan &plan = block.plan;
  const int64_t pieces = block.places == 0 ? 1 : ceilDiv(plan.channels, kBlockChain), channels = ceilDiv(plan.channels, pieces);
  const int64_t fitting = plan.tablePointers / (ceilDiv(block.count, plan.kernel->tileRows) * plan.kernel->tileRows);
  const int64_t together = std::clamp<int64_t>(pieces > 1 ? 1 : kBlockChain / plan.channels, 1, fitting);
  int64_t place = 0;
  do {
    const int64_t places = std::min(together, block.places - place);
    block.grid.fillPixels(block.begin, block.count, block.memory.places + place, places, block.firstImage, block.in, nullptr,
                          plan.kernel->tileRows, static_cast<const float **>(block.memory.table), block.memory.at);
    for (int64_t channel = 0; channel < plan.channels; channel += channels) {
      if (block.copies && places > 0) {
        copyPixels(block, channel, std::min(channels, plan.channels - channel));
      }
      computePanels(block, place, places, channel, std::min(channels, plan.channels - channel));
    }
    place += places;
  } while (place < block.places);
}

// Lists the places of a grid and where their rows of the panels are. Returns their number.
int64_t listPlaces(const ConvPlan &plan, const ConvGrid &grid, const ConvMemory &memory) {
  grid.listPlaces(memory.places);
  for (int64_t place = 0; place < grid.places(); ++place) {
    memory.panelAt[place] = memory.places[place].index * plan.placeFloats;
  }
  return grid.places();
}

// Computes the part's pixels of image `image`, or of all when they are not copied, for the panels that are ordered.
void computeImage(PixelBlock block, int part, int64_t image, const float *in) {
  const ConvPlan &plan = block.plan;
  const int64_t blockPixels = kBlockPixels / plan.kernel->tileRows * plan.kernel->tileRows;
  bool copied = false;
  for (size_t i = 0; i < plan.grids.size(); ++i) {
    const ConvGrid &grid = plan.grids[i];
    Range rows = plan.rows(part, i);
    block.in = in;
    block.firstImage = 0;
    if (plan.copied) {
      rows.begin = std::max(rows.begin, image * grid.positionsOfImage());
      rows.end = std::min(rows.end, (image + 1) * grid.positionsOfImage());
      block.in = block.memory.image;
      block.firstImage = image;
      if (rows.begin < rows.end && !copied) {
        plan.copyImage(in, image, block.memory.image);
        copied = true;
      }
    }
    const int64_t places = rows.begin < rows.end ? listPlaces(plan, grid, block.memory) : 0;
    // Pixels that no place reaches are only stored: all channels of a few at a time.
    const int64_t step = places > 0 ? blockPixels : plan.kernel->tileRows;
    for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
      computeBlock({plan, block.memory, grid, places, block.panels, block.ordered, begin, std::min(step, rows.end - begin),
                    block.firstImage, block.in, block.scale, block.bias, block.residual, block.out, block.copies});
    }
  }
}

} // namespace

void orderWeights(const ConvPlan &plan, const float *weights, int64_t piece, float *to) {
  plan.depthwise ? packDepthwise(plan, weights, to) : packPanel(plan, weights, piece, to);
}

void runConvPixels(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *weights, const float *scale,
                   const float *bias, const float *residual, float *out) {
  const Range panels = plan.panelRange(part);
  const int64_t chunk = plan.chunk(plan.panelFloats, panels);
  const int64_t distance = plan.grids[0].pixelDistance() * static_cast<int64_t>(sizeof(float));
  const bool copies = distance % kWay == 0 && plan.channels > kBlockChain && plan.desc.groups == 1 && panels.end - panels.begin > 1;
  for (int64_t begin = panels.begin; begin < panels.end; begin += chunk) {
    const Range some = {begin, std::min(panels.end, begin + chunk)};
    const float *ordered = plan.desc.fixed_weights != 0 ? weights + begin * plan.panelFloats : memory.panels;
    for (int64_t panel = some.begin; panel < some.end && plan.desc.fixed_weights == 0; ++panel) {
      packPanel(plan, weights, panel, memory.panels + (panel - some.begin) * plan.panelFloats);
    }
    for (int64_t image = 0; image < (plan.copied ? plan.desc.batch : 1); ++image) {
      computeImage({plan, memory, plan.grids[0], 0, some, ordered, 0, 0, 0, nullptr, scale, bias, residual, out, copies}, part, image, in);
    }
  }
}

void runConvDepthwise(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *weights, const float *scale,
                      const float *bias, const float *residual, float *out) {
  const ConvKernel &kernel = *plan.kernel;
  const float **table = static_cast<const float **>(memory.table);
  const float *ordered = plan.desc.fixed_weights != 0 ? weights : memory.panels;
  if (plan.desc.fixed_weights == 0) {
    packDepthwise(plan, weights, memory.panels);
  }
  for (size_t i = 0; i < plan.grids.size(); ++i) {
    const ConvGrid &grid = plan.grids[i];
    const Range rows = plan.rows(part, i);
    const int64_t gridPlaces = listPlaces(plan, grid, memory);
    const int64_t fitting = std::min(kBlockPixels, plan.tablePointers / std::max<int64_t>(gridPlaces, 1));
    const int64_t blockPixels = fitting / kernel.tileRows * kernel.tileRows;
    for (int64_t begin = rows.begin; begin < rows.end; begin += blockPixels) {
      const int64_t count = std::min(blockPixels, rows.end - begin);
      grid.fillPixels(begin, count, memory.places, gridPlaces, 0, in, nullptr, kernel.tileRows, table, memory.at);
      const ConvOut to = {out, memory.at, scale, bias, residual, true, true, plan.desc.epilogue};
      kernel.depthwise({count, plan.desc.groups, gridPlaces, table, ordered, memory.panelAt, to});
    }
  }
}

} // namespace ashlar::rt
