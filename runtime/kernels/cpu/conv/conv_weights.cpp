// SPDX-License-Identifier: Apache-2.0
//
// Weight gradients: sums over the positions of all images, in blocks of kConvPositions. The sums of a block of panels lie in the workspace
// as (place, channel in) x channel out until they are complete, then they go to the parameter's order.
//
// Loops, outermost first: panels of sums; blocks of positions; places whose addresses fit into the table; blocks of channels, whose pixels
// stay in the L2 cache; panels, of which the gradient's rows are copied next to each other; places.
//
// Of bf16 and f16 places are outside of the blocks of channels: of each, the pixels become elements once for all panels. Where an element
// has two numbers, they are of neighbours among the positions that have a pixel.

#include "runtime/abi/memory_sizes.h"
#include "runtime/base/half.h"
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
  // Floats of the sums of a panel.
  int64_t panelFloats() const { return (units.end - units.begin) * plan.kernel->tileRows * plan.kernel->tileCols; }
  // The sums of a channel of `place`.
  float *sums(int64_t panel, int64_t place, int64_t channel) const {
    const int64_t row = (place * strips() - units.begin) * plan.kernel->tileRows + channel;
    return memory.panels + (panel - panels.begin) * panelFloats() + row * plan.kernel->tileCols;
  }
};

// Returns how many lists of pairs fit into the table, without one for the copies of bf16 and f16.
int64_t pairLists(const ConvPlan &plan) {
  return std::max<int64_t>(1, plan.tablePointers / 2 / kPairs - (plan.desc.narrow != 0 ? 1 : 0));
}

// Returns the list of pairs of copied rows.
ConvPair *elementPairs(const ConvPlan &plan, const ConvMemory &memory) {
  return static_cast<ConvPair *>(memory.table) + pairLists(plan) * kPairs;
}

// Fills it.
void listElements(const ConvPlan &plan, const ConvMemory &memory) {
  for (int64_t i = 0; i < kPairs; ++i) {
    const int64_t row = std::min(i, kPositions - 1);
    elementPairs(plan, memory)[i] = {reinterpret_cast<const char *>(memory.pixels + row * kBlockChannels),
                                     reinterpret_cast<const char *>(memory.gradient + row * plan.kernel->tileCols)};
  }
}

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
        if (begin >= end || block.memory.counts[p] == 0) { // of small images, places have no pixels
          continue;
        }
        const ConvPair *pairs = static_cast<const ConvPair *>(block.memory.table) + p * kPairs;
        plan.kernel->positions({block.memory.counts[p], pairs, (group * plan.channels + begin) * plan.numberBytes, end - begin, cols,
                                block.sums(panel, place + p, begin), tileCols});
      }
    }
  }
}

// Makes rows of `width` elements, rowFloats apart, of one tensor of the pairs: of `count` numbers from `numberAt` on.
void copyElements(const ConvPlan &plan, const ConvMemory &memory, const ConvPair *pairs, int64_t pairCount, const char *ConvPair::*tensor,
                  int64_t numberAt, int64_t count, int64_t width, int64_t rowFloats, float *to) {
  const int64_t per = plan.kernel->perElement, offset = numberAt * plan.numberBytes;
  for (int64_t i = 0; i < pairCount; i += per, to += rowFloats) {
    const char *row = pairs[i].*tensor + offset, *next = i + per - 1 < pairCount ? pairs[i + per - 1].*tensor + offset : memory.zeros;
    __builtin_prefetch(pairs[i + kConvAhead].*tensor + offset);
    plan.kernel->copyAcross(row, next, count, width, to);
  }
}

// The same of bf16 or f16, whose positions become elements first.
void addElements(const WeightBlock &block, int64_t place, int64_t places) {
  const ConvPlan &plan = block.plan;
  const ConvMemory &memory = block.memory;
  const int64_t tileRows = plan.kernel->tileRows, tileCols = plan.kernel->tileCols, blockChannels = kBlockChannels / tileRows * tileRows;
  for (int64_t p = 0; p < places; ++p) {
    const ConvPair *pairs = static_cast<const ConvPair *>(memory.table) + p * kPairs;
    const int64_t count = memory.counts[p], elements = ceilDiv(count, plan.kernel->perElement);
    const Range mine = count == 0 ? Range{0, 0} : block.channelsOf(place + p);
    for (int64_t begin = mine.begin; begin < mine.end; begin += blockChannels) {
      const int64_t channels = std::min(mine.end - begin, blockChannels);
      int64_t copied = -1; // the group whose pixels are copied
      for (int64_t panel = block.panels.begin; panel < block.panels.end; ++panel) {
        const int64_t group = panel / plan.groupPanels(), inGroup = panel % plan.groupPanels() * tileCols;
        const int64_t cols = std::min(tileCols, plan.cols - inGroup);
        if (group != copied) {
          copyElements(plan, memory, pairs, count, &ConvPair::in, group * plan.channels + begin, channels, channels, kBlockChannels,
                       memory.pixels);
          copied = group;
        }
        copyElements(plan, memory, pairs, count, &ConvPair::gradient, group * plan.cols + inGroup, cols, tileCols, tileCols,
                     memory.gradient);
        plan.kernel->positions({elements, elementPairs(plan, memory), 0, channels, cols, block.sums(panel, place + p, begin), tileCols});
      }
    }
  }
}

// Stores a sum as a number of the result.
void putSum(const ConvPlan &plan, float sum, void *out, int64_t at) {
  switch (plan.outNarrow) {
  case ASHLAR_RT_BF16:
    static_cast<uint16_t *>(out)[at] = Bf16(sum).bits;
    return;
  case ASHLAR_RT_F16:
    static_cast<uint16_t *>(out)[at] = F16(sum).bits;
    return;
  }
  static_cast<float *>(out)[at] = sum;
}

// Writes the sums of a panel to the parameter's order: in one go where they are not rounded, and all places, or the only one, are this
// part's.
void writePanel(const WeightBlock &block, int64_t panel, void *out) {
  const ConvPlan &plan = block.plan;
  const int64_t tileRows = plan.kernel->tileRows, tileCols = plan.kernel->tileCols;
  const int64_t group = panel / plan.groupPanels(), inGroup = panel % plan.groupPanels() * tileCols;
  const int64_t cols = std::min(tileCols, plan.cols - inGroup), filter = plan.depth * plan.filterPlaces;
  const int64_t places = plan.grids[0].places(), inner = plan.channels / plan.depth; // folded columns
  const int64_t filters = (group * plan.cols + inGroup) * filter;
  const bool hasAll = plan.filterPlaces == 1 || block.units.end - block.units.begin == places * block.strips();
  if (plan.outNarrow == 0 && hasAll) {
    const Range mine = plan.filterPlaces == 1 ? block.channelsOf(0) : Range{0, plan.depth};
    for (int64_t place = 0; place < plan.filterPlaces; ++place) {
      block.memory.panelAt[place] = (place / inner * block.strips() * tileRows + place % inner * plan.depth) * tileCols;
    }
    plan.kernel->unpackRows(block.sums(panel, 0, mine.begin), block.memory.panelAt, cols, mine.end - mine.begin, plan.filterPlaces, filter,
                            static_cast<float *>(out) + filters + mine.begin);
    return;
  }
  for (int64_t place = 0; place < places; ++place) {
    const Range mine = block.channelsOf(place);
    for (int64_t channel = mine.begin; channel < mine.end; ++channel) {
      const float *from = block.sums(panel, place, channel);
      const int64_t at = filters + channel % plan.depth * plan.filterPlaces + place * inner + channel / plan.depth;
      for (int64_t j = 0; j < cols; ++j) {
        putSum(plan, from[j], out, at + j * filter);
      }
    }
  }
}

// Adds up positions [begin, end) of one image, or of all.
void addRun(const WeightBlock &block, int64_t begin, int64_t end, int64_t firstImage, const char *in, const void *gradient) {
  const ConvPlan &plan = block.plan;
  const ConvGrid &grid = plan.grids[0];
  const bool isNarrow = plan.desc.narrow != 0;
  const int64_t places = grid.places(), together = std::min(places, pairLists(plan)), row = plan.desc.groups * plan.cols * plan.numberBytes;
  ConvPair *pairs = static_cast<ConvPair *>(block.memory.table);
  for (int64_t position = begin; position < end; position += kPositions) {
    const int64_t count = std::min(kPositions, end - position);
    // The rows of floats are copied next to each other; those of others are when it is known which of them are neighbours.
    const char *rows = isNarrow ? static_cast<const char *>(gradient) + position * row : reinterpret_cast<char *>(block.memory.gradient);
    const int64_t rowBytes = isNarrow ? row : plan.kernel->tileCols * static_cast<int64_t>(sizeof(float));
    for (int64_t place = 0; place < places; place += together) {
      const int64_t some = std::min(together, places - place);
      grid.fillPairs(position, count, block.memory.places + place, some, firstImage, in, rows, rowBytes, pairs, kPairs,
                     block.memory.counts);
      if (isNarrow) {
        addElements(block, place, some);
      } else {
        addPositions(block, static_cast<const float *>(gradient), position, count, place, some);
      }
    }
  }
}

} // namespace

void runConvWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands) {
  const ConvGrid &grid = plan.grids[0];
  const Range panels = plan.panelRange(part);
  const int64_t strips = ceilDiv(plan.channels, plan.kernel->tileRows);
  grid.listPlaces(memory.places);
  if (plan.desc.narrow != 0) {
    listElements(plan, memory);
  }
  WeightBlock block = {plan, memory, cut(grid.places() * strips, 1, plan.unitPart(part), plan.partUnits), panels};
  const int64_t chunk = plan.chunk(block.panelFloats(), panels);
  for (int64_t begin = panels.begin; begin < panels.end; begin += chunk) {
    block.panels = {begin, std::min(panels.end, begin + chunk)};
    std::memset(memory.panels, 0, (block.panels.end - begin) * block.panelFloats() * sizeof(float));
    if (plan.copied) {
      for (int64_t image = 0; image < plan.desc.batch; ++image) {
        plan.copyImage(operands.in, image, memory.image);
        addRun(block, image * grid.positionsOfImage(), (image + 1) * grid.positionsOfImage(), image, memory.image, operands.weights);
      }
    } else {
      addRun(block, 0, grid.positions(), 0, operands.in, operands.weights);
    }
    for (int64_t panel = begin; panel < block.panels.end; ++panel) {
      writePanel(block, panel, operands.out);
    }
  }
}

void runConvDepthwiseWeights(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands) {
  const ConvKernel &kernel = *plan.kernel;
  const ConvGrid &grid = plan.grids[0];
  const int64_t places = grid.places(), groups = plan.desc.groups;
  const Range channels = cut(groups, kernel.tileCols, part, plan.partUnits);
  const int64_t width = channels.end - channels.begin;
  const int64_t together = std::clamp<int64_t>(plan.tablePointers / places, 1, kPositions);
  const char **table = static_cast<const char **>(memory.table);
  std::memset(memory.panels, 0, places * width * sizeof(float));
  grid.listPlaces(memory.places);
  for (int64_t position = 0; position < grid.positions(); position += together) {
    const int64_t count = std::min(together, grid.positions() - position);
    grid.fillPixels(position, count, memory.places, places, 0, operands.in, memory.zeros, /*tileRows=*/1, table, memory.at);
    const char *gradient = static_cast<const char *>(operands.weights) + (position * groups + channels.begin) * plan.numberBytes;
    kernel.depthwisePositions({count, width, places, table, channels.begin * plan.numberBytes, gradient, groups, memory.panels, width});
  }
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t c = 0; c < width; ++c) {
      putSum(plan, memory.panels[place * width + c], operands.out, (channels.begin + c) * places + place);
    }
  }
}

} // namespace ashlar::rt
