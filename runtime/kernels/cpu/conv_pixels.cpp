// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and data gradients: which block of pixels, kernel places and channels the kernel computes when.
//
// Loops, outermost first: panels of weights, as many as are ordered at a time; blocks of pixels, whose part of the input stays in the L2
// cache; blocks of the chain, so that a panel's part stays in L1; panels.

#include "runtime/kernels/cpu/conv_plan.h"

#include <cstring>

namespace ashlar::rt {

namespace {

constexpr int64_t kBlockPixels = 192;
constexpr int64_t kBlockChain = 384;

// Orders the weights of one panel: row (place, channel of the input), column channel of the result.
void packPanel(const ConvPlan &plan, const ConvGrid &grid, const float *weights, int64_t panel, float *to) {
  const ConvKernel &kernel = *plan.kernel;
  const int64_t group = panel / plan.groupPanels(), column = panel % plan.groupPanels() * kernel.tileCols;
  const int64_t columns = std::min(kernel.tileCols, plan.cols - column), places = plan.filterPlaces;
  if (plan.desc.kind == ASHLAR_RT_CONV_FORWARD) {
    kernel.packPlaces(weights + (group * plan.cols + column) * plan.depth * places, columns, plan.depth, places, kernel.tileCols, to);
    return;
  }
  for (int64_t channel = 0; channel < plan.channels; ++channel) {
    const float *filter = weights + ((group * plan.channels + channel) * plan.cols + column) * places;
    float *row = to + channel * kernel.tileCols;
    for (const ConvPlace &place : grid.places()) {
      for (int64_t j = 0; j < columns; ++j) {
        row[j] = filter[j * places + place.index];
      }
      std::fill(row + columns, row + kernel.tileCols, 0.0f);
      row += plan.channels * kernel.tileCols;
    }
  }
}

// One block of pixels, and the panels [panels.begin, panels.end) that are ordered.
struct PixelBlock {
  const ConvPlan &plan;
  const ConvMemory &memory;
  const ConvGrid &grid;
  Range panels;
  int64_t begin, count;
  int64_t firstImage;
  const float *in, *bias, *residual;
  float *out;
};

// Runs the kernel on places [place, place + places) and channels [channel, channel + channels) for all panels.
void computePanels(const PixelBlock &block, int64_t place, int64_t places, int64_t channel, int64_t channels) {
  const ConvPlan &plan = block.plan;
  const int64_t allPlaces = block.grid.places().size(), tileCols = plan.kernel->tileCols;
  ConvPixels call = {};
  call.pixels = block.count;
  call.places = places;
  call.channels = channels;
  call.in = static_cast<const float *const *>(block.memory.table);
  call.to.at = block.memory.at;
  call.to.first = place == 0 && channel == 0;
  call.to.last = place + places == allPlaces && channel + channels == plan.channels;
  call.to.epilogue = plan.desc.epilogue;
  for (int64_t panel = block.panels.begin; panel < block.panels.end; ++panel) {
    const int64_t group = panel / plan.groupPanels(), inGroup = panel % plan.groupPanels() * tileCols;
    const int64_t column = group * plan.cols + inGroup;
    call.cols = std::min(tileCols, plan.cols - inGroup);
    call.inOffset = group * plan.channels + channel;
    call.panel =
        block.memory.panels + ((panel - block.panels.begin) * allPlaces * plan.channels + place * plan.channels + channel) * tileCols;
    call.to.out = block.out + column;
    call.to.bias = block.bias ? block.bias + column : nullptr;
    call.to.residual = block.residual ? block.residual + column : nullptr;
    plan.kernel->pixels(call);
  }
}

// Computes the block, one piece of the chains after the other, empty ones in a phase without places.
void computeBlock(const PixelBlock &block) {
  const ConvPlan &plan = block.plan;
  const int64_t allPlaces = block.grid.places().size();
  const int64_t pieces = ceilDiv(plan.channels, kBlockChain), channels = ceilDiv(plan.channels, pieces);
  const int64_t fitting = plan.tablePointers / (ceilDiv(block.count, plan.kernel->tileRows) * plan.kernel->tileRows);
  const int64_t together = std::clamp<int64_t>(pieces > 1 ? 1 : kBlockChain / plan.channels, 1, fitting);
  int64_t place = 0;
  do {
    const int64_t places = std::min(together, allPlaces - place);
    block.grid.fillPixels(block.begin, block.count, place, places, block.firstImage, block.in, block.memory.zeros, plan.kernel->tileRows,
                          static_cast<const float **>(block.memory.table), block.memory.at);
    for (int64_t channel = 0; channel < plan.channels; channel += channels) {
      computePanels(block, place, places, channel, std::min(channels, plan.channels - channel));
    }
    place += places;
  } while (place < allPlaces);
}

// Computes positions [rows.begin, rows.end) of a grid for the panels that are ordered: all at once, or where images are copied one image
// after the other.
void computeRows(PixelBlock block, Range rows, const float *in) {
  const ConvPlan &plan = block.plan;
  const int64_t image = plan.copied ? block.grid.positionsOfImage() : block.grid.positions();
  const int64_t blockPixels = kBlockPixels / plan.kernel->tileRows * plan.kernel->tileRows;
  for (int64_t begin = rows.begin; begin < rows.end;) {
    const int64_t end = std::min(rows.end, (begin / image + 1) * image);
    block.firstImage = 0;
    block.in = in;
    if (plan.copied) {
      block.firstImage = begin / image;
      block.in = block.memory.image;
      plan.copyImage(in, block.firstImage, block.memory.image);
    }
    for (; begin < end; begin += block.count) {
      block.begin = begin;
      block.count = std::min(blockPixels, end - begin);
      computeBlock(block);
    }
  }
}

} // namespace

void runConvPixels(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *weights, const float *bias,
                   const float *residual, float *out) {
  const ConvKernel &kernel = *plan.kernel;
  const Range panels = plan.panelRange(part);
  for (const ConvGrid &grid : plan.grids) {
    const Range rows = cut(grid.positions(), kernel.tileRows, plan.unitPart(part), plan.partUnits);
    const int64_t panelFloats = grid.places().size() * plan.channels * kernel.tileCols;
    const int64_t chunk = plan.chunk(panelFloats, panels);
    for (int64_t begin = panels.begin; begin < panels.end && rows.begin < rows.end; begin += chunk) {
      const Range ordered = {begin, std::min(panels.end, begin + chunk)};
      for (int64_t panel = ordered.begin; panel < ordered.end; ++panel) {
        packPanel(plan, grid, weights, panel, memory.panels + (panel - ordered.begin) * panelFloats);
      }
      computeRows({plan, memory, grid, ordered, 0, 0, 0, nullptr, bias, residual, out}, rows, in);
    }
  }
}

void runConvDepthwise(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *weights, const float *bias,
                      const float *residual, float *out) {
  const ConvKernel &kernel = *plan.kernel;
  const int64_t channels = plan.desc.groups;
  for (const ConvGrid &grid : plan.grids) {
    const Range rows = cut(grid.positions(), kernel.tileRows, part, plan.partUnits);
    const int64_t places = grid.places().size();
    const int64_t panelRow = ceilDiv(channels, kernel.lanes) * kernel.lanes;
    for (int64_t place = 0; place < places; ++place) {
      for (int64_t j = 0; j < channels; ++j) {
        memory.panels[place * panelRow + j] = weights[j * plan.filterPlaces + grid.places()[place].index];
      }
      std::fill(memory.panels + place * panelRow + channels, memory.panels + (place + 1) * panelRow, 0.0f);
    }
    const int64_t fitting = places == 0 ? kBlockPixels : std::min(kBlockPixels, plan.tablePointers / places);
    const int64_t blockPixels = fitting / kernel.tileRows * kernel.tileRows;
    for (int64_t begin = rows.begin; begin < rows.end; begin += blockPixels) {
      const int64_t count = std::min(blockPixels, rows.end - begin);
      const float **table = static_cast<const float **>(memory.table);
      grid.fillPixels(begin, count, 0, places, 0, in, memory.zeros, kernel.tileRows, table, memory.at);
      const ConvOut to = {out, memory.at, bias, residual, true, true, plan.desc.epilogue};
      kernel.depthwise({count, channels, places, table, 0, memory.panels, panelRow, to});
    }
  }
}

} // namespace ashlar::rt
