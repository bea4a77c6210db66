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

// A panel's columns in the weights: channels of the result.
struct PanelColumns {
  int64_t group, first, count;

  PanelColumns(const ConvPlan &plan, int64_t panel)
      : group(panel / plan.groupPanels()), first(panel % plan.groupPanels() * plan.kernel->tileCols),
        count(std::min(plan.kernel->tileCols, plan.cols - first)) {}
};

// Orders the numbers of one panel as they are, one by one: those of an element side by side, zeros where there is none.
void orderNumbers(const ConvPlan &plan, const uint16_t *weights, int64_t panel, int64_t perElement, uint16_t *to) {
  const PanelColumns columns(plan, panel);
  const bool isForward = plan.desc.kind == ASHLAR_RT_CONV_FORWARD;
  const int64_t places = plan.filterPlaces, inner = plan.folded ? plan.desc.dims[2].kernel : 1, tileCols = plan.kernel->tileCols;
  const int64_t ofColumn = isForward ? plan.depth * places : places, ofChannel = isForward ? places : plan.cols * places;
  const int64_t first = isForward ? (columns.group * plan.cols + columns.first) * ofColumn
                                  : columns.group * plan.depth * ofChannel + columns.first * ofColumn;
  std::memset(to, 0, plan.panelFloats * perElement * sizeof(uint16_t));
  for (int64_t j = 0; j < columns.count; ++j) {
    for (int64_t channel = 0; channel < plan.depth; ++channel) {
      const uint16_t *number = weights + first + j * ofColumn + channel * ofChannel;
      for (int64_t place = 0; place < places; ++place) {
        const int64_t inChain = place % inner * plan.depth + channel; // at a place of the grids
        const int64_t element = place / inner * plan.placeFloats + inChain / perElement * tileCols + j;
        to[element * perElement + inChain % perElement] = number[place];
      }
    }
  }
}

// Orders the weights of one panel: rows (place, elements of the input), columns channels of the result.
void packPanel(const ConvPlan &plan, const void *weights, int64_t panel, float *to) {
  const ConvKernel &kernel = *plan.kernel;
  const PanelColumns columns(plan, panel);
  const int64_t places = plan.filterPlaces;
  if (plan.folded && kernel.perElement > 1) { // elements reach from column to column of the window
    return orderNumbers(plan, static_cast<const uint16_t *>(weights), panel, kernel.perElement, reinterpret_cast<uint16_t *>(to));
  }
  if (plan.desc.kind == ASHLAR_RT_CONV_FORWARD) {
    const int64_t filter = (columns.group * plan.cols + columns.first) * plan.depth * places;
    kernel.packRows(static_cast<const char *>(weights) + filter * plan.numberBytes, columns.count, plan.depth, places,
                    plan.folded ? plan.depth * kernel.tileCols : plan.placeFloats, to);
  } else {
    const int64_t filter = (columns.group * plan.depth * plan.cols + columns.first) * places;
    kernel.packColumns(static_cast<const char *>(weights) + filter * plan.numberBytes, plan.cols * places, columns.count, plan.depth,
                       places, plan.placeFloats, to);
  }
}

// The same for all channels of a depthwise convolution, whose numbers stay what they are.
template <typename Number> void orderDepthwise(const ConvPlan &plan, const Number *weights, Number *to) {
  const int64_t places = plan.filterPlaces;
  for (int64_t j = 0; j < plan.desc.groups; ++j) {
    for (int64_t place = 0; place < places; ++place) {
      to[place * plan.placeFloats + j] = weights[j * places + place];
    }
  }
}

void packDepthwise(const ConvPlan &plan, const void *weights, void *to) {
  if (plan.desc.narrow != 0) {
    orderDepthwise(plan, static_cast<const uint16_t *>(weights), static_cast<uint16_t *>(to));
  } else {
    orderDepthwise(plan, static_cast<const float *>(weights), static_cast<float *>(to));
  }
}

// Returns a place in numbers of a type; null stays null.
const void *numbersAt(uint32_t narrow, const void *numbers, int64_t at) {
  const int64_t size = narrow != 0 ? sizeof(uint16_t) : sizeof(float);
  return numbers != nullptr ? static_cast<const char *>(numbers) + at * size : nullptr;
}

// A block of pixels of one grid, whose places are in the memory, and the panels that are ordered.
struct PixelBlock {
  const ConvPlan &plan;
  const ConvMemory &memory;
  const ConvOperands &operands;
  const ConvGrid &grid;
  int64_t places;
  Range panels;
  const float *ordered; // their weights
  int64_t begin, count;
  int64_t firstImage;
  const char *in;
  // Pixels are copied: to become elements, or because they are so far apart that the rows of a tile would share lines of the L1 cache.
  bool copies;
};

// A piece of the chains of a block: places [place, place + places) and elements [element, element + elements) of each.
struct Piece {
  int64_t place, places, element, elements;
  bool isWhole; // all of the chains
};

// Runs the kernel on a piece for panels [first, end) of one group.
void computePanels(const PixelBlock &block, const Piece &piece, int64_t first, int64_t end) {
  const ConvPlan &plan = block.plan;
  const ConvOperands &operands = block.operands;
  const int64_t tileCols = plan.kernel->tileCols;
  ConvPixels call = {};
  call.pixels = block.count;
  call.places = piece.places;
  call.elements = piece.elements;
  call.in = static_cast<const char *const *>(block.memory.table) + (block.copies ? plan.tablePointers / 2 : 0);
  call.panelAt = block.memory.panelAt + piece.place;
  call.to.at = block.memory.at;
  call.to.narrow = plan.outNarrow;
  call.to.sumsRow = (block.panels.end - block.panels.begin) * tileCols + static_cast<int64_t>(kConvSumPadding);
  call.to.first = piece.place == 0 && piece.element == 0;
  call.to.last = piece.place + piece.places == block.places && piece.element + piece.elements == plan.elements;
  call.to.epilogue = plan.desc.epilogue;
  for (int64_t panel = first; panel < end; ++panel) {
    const PanelColumns columns(plan, panel);
    const int64_t column = columns.group * plan.cols + columns.first, inOrder = panel - block.panels.begin;
    call.cols = columns.count;
    call.inBytes = block.copies ? 0 : (columns.group * plan.channels + piece.element * plan.kernel->perElement) * plan.numberBytes;
    call.panel = block.ordered + inOrder * plan.panelFloats + piece.element * tileCols;
    call.to.out = const_cast<void *>(numbersAt(plan.outNarrow, operands.out, column));
    call.to.scale = numbersAt(plan.outNarrow, operands.scale, column);
    call.to.bias = numbersAt(plan.outNarrow, operands.bias, column);
    call.to.residual = numbersAt(plan.outNarrow, operands.residual, column);
    call.to.sums = plan.outNarrow == 0 || piece.isWhole ? nullptr : block.memory.sums + inOrder * tileCols;
    plan.kernel->pixels(call);
  }
}

// Copies a piece of the pixels of a group next to each other, as elements, and lets the table point there.
void copyPixels(const PixelBlock &block, const Piece &piece, int64_t group) {
  const ConvPlan &plan = block.plan;
  const int64_t tileRows = plan.kernel->tileRows, per = plan.kernel->perElement;
  const int64_t first = group * plan.channels + piece.element * per;
  const int64_t count = std::min(piece.elements * per, plan.channels - piece.element * per);
  const char **table = static_cast<const char **>(block.memory.table), **copies = table + plan.tablePointers / 2;
  for (int64_t i = 0; i < block.count; ++i) {
    float *copy = block.memory.pixels + i * kConvCopiedPixel;
    int64_t entry = i / tileRows * tileRows * piece.places + i % tileRows;
    for (int64_t place = 0; place < piece.places; ++place, entry += tileRows, copy += piece.elements) {
      plan.kernel->copyAlong(table[entry] + first * plan.numberBytes, count, copy);
      copies[entry] = reinterpret_cast<const char *>(copy);
    }
  }
}

// Computes the block, one piece of the chains after the other, empty ones where there are no places.
void computeBlock(const PixelBlock &block) {
  const ConvPlan &plan = block.plan;
  const int64_t pieces = block.places == 0 ? 1 : ceilDiv(plan.elements, kBlockChain), elements = ceilDiv(plan.elements, pieces);
  const int64_t pointers = block.copies ? plan.tablePointers / 2 : plan.tablePointers, groupPanels = plan.groupPanels();
  const int64_t fitting = pointers / (ceilDiv(block.count, plan.kernel->tileRows) * plan.kernel->tileRows);
  const int64_t together = std::clamp<int64_t>(pieces > 1 ? 1 : kBlockChain / plan.elements, 1, fitting);
  int64_t place = 0;
  do {
    const int64_t places = std::min(together, block.places - place);
    block.grid.fillPixels(block.begin, block.count, block.memory.places + place, places, block.firstImage, block.in, nullptr,
                          plan.kernel->tileRows, static_cast<const char **>(block.memory.table), block.memory.at);
    for (int64_t element = 0; element < plan.elements; element += elements) {
      const Piece piece = {place, places, element, std::min(elements, plan.elements - element), places == block.places && pieces == 1};
      for (int64_t panel = block.panels.begin, end; panel < block.panels.end; panel = end) {
        const int64_t group = panel / groupPanels;
        end = block.copies ? std::min((group + 1) * groupPanels, block.panels.end) : block.panels.end;
        if (block.copies && places > 0) {
          copyPixels(block, piece, group);
        }
        computePanels(block, piece, panel, end);
      }
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
void computeImage(PixelBlock block, int part, int64_t image) {
  const ConvPlan &plan = block.plan;
  const int64_t blockPixels = kBlockPixels / plan.kernel->tileRows * plan.kernel->tileRows;
  bool copied = false;
  for (size_t i = 0; i < plan.grids.size(); ++i) {
    const ConvGrid &grid = plan.grids[i];
    Range rows = plan.rows(part, i);
    block.in = block.operands.in;
    block.firstImage = 0;
    if (plan.copied) {
      rows.begin = std::max(rows.begin, image * grid.positionsOfImage());
      rows.end = std::min(rows.end, (image + 1) * grid.positionsOfImage());
      block.in = block.memory.image;
      block.firstImage = image;
      if (rows.begin < rows.end && !copied) {
        plan.copyImage(block.operands.in, image, block.memory.image);
        copied = true;
      }
    }
    const int64_t places = rows.begin < rows.end ? listPlaces(plan, grid, block.memory) : 0;
    // Pixels that no place reaches are only stored: all channels of a few at a time.
    const int64_t step = places > 0 ? blockPixels : plan.kernel->tileRows;
    for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
      computeBlock({plan, block.memory, block.operands, grid, places, block.panels, block.ordered, begin, std::min(step, rows.end - begin),
                    block.firstImage, block.in, block.copies});
    }
  }
}

// Orders the weights of panels in the workspace, or widens those that are ordered as numbers; returns where they are.
const float *findPanels(const ConvPlan &plan, const ConvMemory &memory, const void *weights, Range panels) {
  const bool isFixed = plan.desc.fixed_weights != 0;
  if (isFixed && !plan.widensOrdered()) {
    return static_cast<const float *>(weights) + panels.begin * plan.panelFloats;
  }
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    float *to = memory.panels + (panel - panels.begin) * plan.panelFloats;
    if (isFixed) {
      plan.kernel->copyAlong(static_cast<const uint16_t *>(weights) + panel * plan.panelFloats, plan.panelFloats, to);
    } else {
      packPanel(plan, weights, panel, to);
    }
  }
  return memory.panels;
}

} // namespace

void orderWeights(const ConvPlan &plan, const void *weights, int64_t piece, void *to) {
  if (plan.depthwise) {
    packDepthwise(plan, weights, to);
  } else if (plan.widensOrdered()) {
    orderNumbers(plan, static_cast<const uint16_t *>(weights), piece, /*perElement=*/1, static_cast<uint16_t *>(to));
  } else {
    packPanel(plan, weights, piece, static_cast<float *>(to));
  }
}

void runConvPixels(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands) {
  const Range panels = plan.panelRange(part);
  const int64_t sumPanels = static_cast<int64_t>(kConvSumCols) / plan.kernel->tileCols;
  const int64_t fitting = plan.chunk(plan.panelFloats, panels);
  const int64_t chunk = convSumBytes(plan.desc) != 0 ? std::min(fitting, sumPanels) : fitting;
  const int64_t distance = plan.grids[0].pixelDistance();
  const bool isFar = distance % kWay == 0 && plan.elements > kBlockChain && plan.desc.groups == 1 && panels.end - panels.begin > 1;
  for (int64_t begin = panels.begin; begin < panels.end; begin += chunk) {
    const Range some = {begin, std::min(panels.end, begin + chunk)};
    const float *ordered = findPanels(plan, memory, operands.weights, some);
    for (int64_t image = 0; image < (plan.copied ? plan.desc.batch : 1); ++image) {
      computeImage({plan, memory, operands, plan.grids[0], 0, some, ordered, 0, 0, 0, nullptr, isFar || plan.copiesPixels}, part, image);
    }
  }
}

void runConvDepthwise(const ConvPlan &plan, const ConvMemory &memory, int part, const ConvOperands &operands) {
  const ConvKernel &kernel = *plan.kernel;
  const char **table = static_cast<const char **>(memory.table);
  const void *ordered = plan.desc.fixed_weights != 0 ? operands.weights : memory.panels;
  if (plan.desc.fixed_weights == 0) {
    packDepthwise(plan, operands.weights, memory.panels);
  }
  for (size_t i = 0; i < plan.grids.size(); ++i) {
    const ConvGrid &grid = plan.grids[i];
    const Range rows = plan.rows(part, i);
    const int64_t gridPlaces = listPlaces(plan, grid, memory);
    const int64_t fitting = std::min(kBlockPixels, plan.tablePointers / std::max<int64_t>(gridPlaces, 1));
    const int64_t blockPixels = fitting / kernel.tileRows * kernel.tileRows;
    for (int64_t begin = rows.begin; begin < rows.end; begin += blockPixels) {
      const int64_t count = std::min(blockPixels, rows.end - begin);
      grid.fillPixels(begin, count, memory.places, gridPlaces, 0, operands.in, nullptr, kernel.tileRows, table, memory.at);
      const ConvOut to = {operands.out,     memory.at,         operands.scale, operands.bias, operands.residual, plan.outNarrow,
                          /*sums=*/nullptr,
                          /*sumsRow=*/0,
                          /*first=*/true,
                          /*last=*/true,    plan.desc.epilogue};
      kernel.depthwise({count, plan.desc.groups, gridPlaces, table, ordered, memory.panelAt, to});
    }
  }
}

} // namespace ashlar::rt
