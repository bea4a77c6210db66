// SPDX-License-Identifier: Apache-2.0
//
// Weight gradients: sums over the positions of all images, in blocks of kConvPositions. The sums of a block of panels lie in the workspace
// as (place, channel in) x channel out until they are complete, then they go to the parameter's order.
//
// Loops, outermost first: panels of sums; blocks of positions; places whose addresses fit into the table; blocks of channels, whose pixels
// stay in the L2 cache; panels, of which the gradient's rows are copied next to each other; places.

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/conv/conv_plan.h"

#include <cstring>

namespace ashlar::rt {

namespace {

constexpr int64_t kPositions = kConvPositions;
constexpr int64_t kPairs = kPositions + kConvAhead; // of one place in the table
constexpr int64_t kBlockChannels = 256;

// Copies `count` rows of Width floats that are `distance` apart next to each other.
template <int Width> void copyRows(const float *from, int64_t distance, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i, from += distance, to += Width) {
    for (int j = 0; j < Width; j += 16) {
      __builtin_prefetch(from + kConvAhead * distance + j);
    }
    std::memcpy(to, from, Width * sizeof(float));
  }
}

// Copies `count` rows of the gradient from `position` on, `cols` columns from `column` on, zeros behind them.
void packGradient(const ConvPlan &plan, const float *gradient, int64_t position, int64_t count, int64_t column, int64_t cols, float *to) {
  const int64_t row = plan.desc.groups * plan.cols, width = plan.kernel->tileCols;
  const float *from = gradient + position * row + column;
  switch (cols == width ? cols : 0) {
  case 32:
    return copyRows<32>(from, row, count, to);
  case 16:
    return copyRows<16>(from, row, count, to);
  case 8:
    return copyRows<8>(from, row, count, to);
  }
  for (int64_t i = 0; i < count; ++i, from += row, to += width) {
    std::memcpy(to, from, cols * sizeof(float));
    std::memset(to + cols, 0, (width - cols) * sizeof(float));
  }
}

// What a part computes: units [units.begin, units.end) of (place, strip of channels) and the panels whose sums are in the workspace.
struct WeightBlock {
  const ConvPlan &plan;
  const ConvMemory &memory;
  Range units, panels;

  int64_t strips() const { return ceilDiv(plan.channels, plan.kernel->tileRows); }
  // Channels of `place` that are this part's.
  Range channelsOf(int64_t place) const {
    const int64_t tileRows = plan.kernel->tileRows;
    const int64_t begin = std::clamp<int64_t>(units.begin - place * strips(), 0, strips()) * tileRows;
    const int64_t end = std::clamp<int64_t>(units.end - place * strips(), 0, strips()) * tileRows;
    return {std::min(begin, plan.channels), std::min(end, plan.channels)};
  }
  int64_t panelFloats() const { return (units.end - units.begin) * plan.kernel->tileRows * plan.kernel->tileCols; }
  // The sums of a channel of `place`.
  float *sums(int64_t panel, int64_t place, int64_t channel) const {
    const int64_t row = (place * strips() - units.begin) * plan.kernel->tileRows + channel;
    return memory.panels + (panel - panels.begin) * panelFloats() + row * plan.kernel->tileCols;
  }
};

// Adds up `count` positions for places [place, place + places), whose pairs are in the table.
void addPositions(const WeightBlock &block, const float *gradient, int64_t position, int64_t count, int64_t place, int64_t places) {
  const ConvPlan &plan = block.plan;
  const int64_t tileRows = plan.kernel->tileRows, tileCols = plan.kernel->tileCols;
  const int64_t blockChannels = kBlockChannels / tileRows * tileRows;
  for (int64_t channel = 0; channel < plan.channels; channel += blockChannels) {
    for (int64_t panel = block.panels.begin; panel < block.panels.end; ++panel) {
      const int64_t group = panel / plan.groupPanels(), inGroup = panel % plan.groupPanels() * tileCols;
      const int64_t cols = std::min(tileCols, plan.cols - inGroup);
      packGradient(plan, gradient, position, count, group * plan.cols + inGroup, cols, block.memory.gradient);
      for (int64_t p = 0; p < places; ++p) {
        const Range mine = block.channelsOf(place + p);
        const int64_t begin = std::max(mine.begin, channel), end = std::min(mine.end, channel + blockChannels);
        if (begin >= end) {
          continue;
        }
        const ConvPair *pairs = static_cast<const ConvPair *>(block.memory.table) + p * kPairs;
        plan.kernel->positions({block.memory.counts[p], pairs, group * plan.channels + begin, end - begin, cols,
                                block.sums(panel, place + p, begin), tileCols});
      }
    }
  }
}

// Writes the sums of a panel to the parameter's order: in one go where all places, or the only one, are this
// part's.
void writePanel(const WeightBlock &block, int64_t panel, float *out) {
  const ConvPlan &plan = block.plan;
  const int64_t tileRows = plan.kernel->tileRows, tileCols = plan.kernel->tileCols;
  const int64_t group = panel / plan.groupPanels(), inGroup = panel % plan.groupPanels() * tileCols;
  const int64_t cols = std::min(tileCols, plan.cols - inGroup), filter = plan.depth * plan.filterPlaces;
  const int64_t places = plan.grids[0].places(), inner = plan.channels / plan.depth; // folded columns
  float *filters = out + (group * plan.cols + inGroup) * filter;
  if (plan.filterPlaces == 1 || block.units.end - block.units.begin == places * block.strips()) {
    const Range mine = plan.filterPlaces == 1 ? block.channelsOf(0) : Range{0, plan.depth};
    for (int64_t place = 0; place < plan.filterPlaces; ++place) {
      block.memory.panelAt[place] = (place / inner * block.strips() * tileRows + place % inner * plan.depth) * tileCols;
    }
    plan.kernel->unpackRows(block.sums(panel, 0, mine.begin), block.memory.panelAt, cols, mine.end - mine.begin, plan.filterPlaces, filter,
                            filters + mine.begin);
    return;
  }
  for (int64_t place = 0; place < places; ++place) {
    const Range mine = block.channelsOf(place);
    for (int64_t channel = mine.begin; channel < mine.end; ++channel) {
      const float *from = block.sums(panel, place, channel);
      float *to = filters + channel % plan.depth * plan.filterPlaces + place * inner + channel / plan.depth;
      for (int64_t j = 0; j < cols; ++j) {
        to[j * filter] = from[j];
      }
    }
  }
}

// Adds up positions [begin, end) of one image, or of all.
void addRun(const WeightBlock &block, int64_t begin, int64_t end, int64_t firstImage, const float *in, const float *gradient) {
  const ConvPlan &plan = block.plan;
  const ConvGrid &grid = plan.grids[0];
  const int64_t places = grid.places();
  const int64_t together = std::min<int64_t>(places, std::max<int64_t>(1, plan.tablePointers / 2 / kPairs));
  ConvPair *pairs = static_cast<ConvPair *>(block.memory.table);
  for (int64_t position = begin; position < end; position += kPositions) {
    const int64_t count = std::min(kPositions, end - position);
    for (int64_t place = 0; place < places; place += together) {
      const int64_t some = std::min(together, places - place);
      grid.fillPairs(position, count, block.memory.places + place, some, firstImage, in, block.memory.gradient, plan.kernel->tileCols,
                     pairs, kPairs, block.memory.counts);
      addPositions(block, gradient, position, count, place, some);
    }
  }
}

} // namespace

void runConvWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *gradient, float *out) {
  const ConvGrid &grid = plan.grids[0];
  const Range panels = plan.panelRange(part);
  const int64_t strips = ceilDiv(plan.channels, plan.kernel->tileRows);
  grid.listPlaces(memory.places);
  WeightBlock block = {plan, memory, cut(grid.places() * strips, 1, plan.unitPart(part), plan.partUnits), panels};
  const int64_t chunk = plan.chunk(block.panelFloats(), panels);
  for (int64_t begin = panels.begin; begin < panels.end; begin += chunk) {
    block.panels = {begin, std::min(panels.end, begin + chunk)};
    std::memset(memory.panels, 0, (block.panels.end - begin) * block.panelFloats() * sizeof(float));
    if (plan.copied) {
      for (int64_t image = 0; image < plan.desc.batch; ++image) {
        plan.copyImage(in, image, memory.image);
        addRun(block, image * grid.positionsOfImage(), (image + 1) * grid.positionsOfImage(), image, memory.image, gradient);
      }
    } else {
      addRun(block, 0, grid.positions(), 0, in, gradient);
    }
    for (int64_t panel = begin; panel < block.panels.end; ++panel) {
      writePanel(block, panel, out);
    }
  }
}

void runConvDepthwiseWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const float *in, const float *gradient, float *out) {
  const ConvKernel &kernel = *plan.kernel;
  const ConvGrid &grid = plan.grids[0];
  const int64_t places = grid.places(), groups = plan.desc.groups;
  const Range channels = cut(groups, kernel.tileCols, part, plan.partUnits);
  const int64_t width = channels.end - channels.begin;
  const int64_t together = std::clamp<int64_t>(plan.tablePointers / places, 1, kPositions);
  const float **table = static_cast<const float **>(memory.table);
  std::memset(memory.panels, 0, places * width * sizeof(float));
  grid.listPlaces(memory.places);
  for (int64_t position = 0; position < grid.positions(); position += together) {
    const int64_t count = std::min(together, grid.positions() - position);
    grid.fillPixels(position, count, memory.places, places, 0, in, memory.zeros, /*tileRows=*/1, table, memory.at);
    kernel.depthwisePositions(
        {count, width, places, table, channels.begin, gradient + position * groups + channels.begin, groups, memory.panels, width});
  }
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t c = 0; c < width; ++c) {
      out[(channels.begin + c) * places + place] = memory.panels[place * width + c];
    }
  }
}

} // namespace ashlar::rt
