// SPDX-License-Identifier: Apache-2.0
//
// Prepares convolutions: the kernel for the processor, grids of positions, parts for the threads, the workspace.

#include "runtime/kernels/cpu/conv/conv.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/conv/conv_plan.h"

#include <cstring>

namespace ashlar::rt {

namespace {

Status check(const ashlar_rt_conv_desc &desc) {
  if (desc.kind < ASHLAR_RT_CONV_FORWARD || desc.kind > ASHLAR_RT_CONV_WEIGHTS) {
    return internal("convolution of kind {}: the last known one is {}", desc.kind, static_cast<int>(ASHLAR_RT_CONV_WEIGHTS));
  }
  if (desc.epilogue > ASHLAR_RT_EPILOGUE_TANH) {
    return internal("convolution with epilogue {}: the last known one is {}", desc.epilogue, static_cast<int>(ASHLAR_RT_EPILOGUE_TANH));
  }
  if (desc.kind == ASHLAR_RT_CONV_WEIGHTS &&
      (desc.has_scale || desc.has_bias || desc.has_residual || desc.epilogue != ASHLAR_RT_EPILOGUE_NONE)) {
    return internal("gradient of a filter with scale {}, bias {}, residual {}, epilogue {}: it has none of them", desc.has_scale,
                    desc.has_bias, desc.has_residual, desc.epilogue);
  }
  if (desc.kind == ASHLAR_RT_CONV_WEIGHTS && desc.fixed_weights != 0) {
    return internal("gradient of a filter with fixed weights {}: it has none", desc.fixed_weights);
  }
  if ((desc.narrow != 0 && desc.narrow != ASHLAR_RT_BF16 && desc.narrow != ASHLAR_RT_F16) || (desc.narrow == 0 && desc.narrow_out != 0)) {
    return internal("convolution of type {}, narrow result {}: the types are {} and {}", desc.narrow, desc.narrow_out,
                    static_cast<int>(ASHLAR_RT_BF16), static_cast<int>(ASHLAR_RT_F16));
  }
  if (desc.batch < 1 || desc.groups < 1 || desc.channels_in < 1 || desc.channels_out < 1) {
    return internal("convolution with batch {}, {} groups, {} channels in and {} out: every size must be at least 1", desc.batch,
                    desc.groups, desc.channels_in, desc.channels_out);
  }
  for (const ashlar_rt_conv_dim &dim : desc.dims) {
    if (dim.in < 1 || dim.out < 1 || dim.kernel < 1 || dim.stride < 1 || dim.dilation < 1) {
      return internal("convolution over a dim with in {}, out {}, kernel {}, stride {}, dilation {}: every one must be at least 1", dim.in,
                      dim.out, dim.kernel, dim.stride, dim.dilation);
    }
  }
  return Status();
}

void makeGrids(ConvPlan &plan) {
  const ashlar_rt_conv_desc &desc = plan.desc;
  const int64_t columns = plan.copied ? static_cast<int64_t>(foldedColumns(desc.dims[2])) : desc.dims[2].in;
  for (int d = 0; d < 3; ++d) {
    plan.runs[d] = runsOf(desc.kind, desc.dims[d], plan.folded && d == 2, columns);
  }
  const int64_t in = desc.groups * plan.depth * plan.numberBytes, out = desc.groups * plan.cols;
  for (const ConvRun &run0 : plan.runs[0]) {
    for (const ConvRun &run1 : plan.runs[1]) {
      for (const ConvRun &run2 : plan.runs[2]) {
        plan.grids.emplace_back(desc.batch, run0, run1, run2, in, out);
      }
    }
  }
}

// Cuts `units` x `panels` tiles into at most `threads` parts so that the largest costs least. Beside its units, a panel costs
// `extraUnits` of them in every part, and beside its panels a unit `extraPanels`.
void chooseParts(ConvPlan &plan, int64_t units, int64_t panels, double extraUnits, double extraPanels, int64_t threads) {
  double best = 0;
  for (int64_t unitParts = 1; unitParts <= std::min(threads, units); ++unitParts) {
    const int64_t panelParts = std::min(threads / unitParts, panels);
    const double cost = (ceilDiv(units, unitParts) + extraUnits) * (ceilDiv(panels, panelParts) + extraPanels);
    if (best == 0 || cost < best) {
      best = cost;
      plan.partUnits = unitParts;
      plan.partPanels = panelParts;
    }
  }
}

// Ordering a panel of weights costs about as much as 1.5 strips of pixels, reading one that is ordered as 0.5, fetching a strip for all
// places as 0.4 panels of one place. A weight gradient of one place waits for memory: fetching and copying a panel of the gradient costs as
// much as 1.3 strips of channels, fetching those as 0.4 panels.
void makeParts(ConvPlan &plan, int64_t threads) {
  const int64_t tileRows = plan.kernel->tileRows, panels = plan.depthwise ? 1 : plan.panels;
  if (plan.desc.kind == ASHLAR_RT_CONV_WEIGHTS) {
    const int64_t places = plan.grids[0].places();
    const int64_t units = plan.depthwise ? ceilDiv(plan.desc.groups, plan.kernel->tileCols) : places * ceilDiv(plan.channels, tileRows);
    chooseParts(plan, units, panels, 1.3, places == 1 ? 0.4 : 0, threads);
    return;
  }
  int64_t pixels = 0;
  for (const ConvGrid &grid : plan.grids) {
    pixels += grid.positions();
  }
  chooseParts(plan, ceilDiv(pixels, tileRows), panels, plan.desc.fixed_weights != 0 ? 0.5 : 1.5,
              0.4 / static_cast<double>(plan.filterPlaces), threads);
}

void makePlan(const ashlar_rt_conv_desc &desc, const ConvKernel &kernel, int64_t threads, ConvPlan &plan) {
  plan.desc = desc;
  plan.kernel = &kernel;
  plan.depthwise = isDepthwise(desc);
  plan.folded = foldsColumns(desc);
  plan.copied = plan.folded && (desc.dims[2].low != 0 || desc.dims[2].in < static_cast<int64_t>(foldedColumns(desc.dims[2])));
  const bool data = desc.kind == ASHLAR_RT_CONV_DATA;
  plan.numberBytes = desc.narrow != 0 ? sizeof(uint16_t) : sizeof(float);
  plan.outNarrow = desc.narrow_out != 0 ? desc.narrow : 0;
  plan.filterPlaces = convPlaces(desc);
  plan.depth = data ? desc.channels_out : desc.channels_in;
  plan.cols = data ? desc.channels_in : desc.channels_out;
  plan.channels = plan.folded ? desc.dims[2].kernel * plan.depth : plan.depth;
  plan.elements = ceilDiv(plan.channels, kernel.perElement);
  plan.copiesPixels = !kernel.readsNumbers || plan.channels % kernel.perElement != 0;
  plan.panels = desc.groups * ceilDiv(plan.cols, kernel.tileCols);
  plan.tablePointers = std::max<int64_t>(kConvTableBytes / sizeof(void *), 2 * kConvTileRows * plan.filterPlaces);
  // A row more from place to place, for the places of a channel not to fall into the same lines of the L1 cache. Folded columns are
  // contiguous.
  plan.placeFloats =
      plan.depthwise ? ceilDiv(desc.groups, kernel.lanes) * kernel.lanes : (plan.elements + (plan.folded ? 0 : 1)) * kernel.tileCols;
  plan.panelFloats = plan.filterPlaces / (plan.folded ? desc.dims[2].kernel : 1) * plan.placeFloats;
  makeGrids(plan);
  makeParts(plan, threads);
}

// Returns the bytes of zeros: of the channels of a pixel, and of a panel's columns.
uint64_t zeroBytes(const ConvPlan &plan) {
  return (plan.desc.groups * plan.channels + plan.kernel->tileCols) * sizeof(float);
}

// Lays out the memory of a part, and returns its bytes.
uint64_t layOut(const ConvPlan &plan, void *begin, ConvMemory &memory) {
  const auto first = reinterpret_cast<uintptr_t>(begin);
  uintptr_t end = first;
  const auto take = [&](uint64_t bytes) {
    const uintptr_t piece = end;
    end += roundUp(bytes, ASHLAR_RT_ALIGNMENT);
    return reinterpret_cast<void *>(piece);
  };
  const ConvKernel &kernel = *plan.kernel;
  const bool isFixed = plan.desc.fixed_weights != 0;
  uint64_t panelBytes = isFixed ? 0 : plan.pieceBytes();
  if (!plan.depthwise && (!isFixed || plan.widensOrdered())) {
    const uint64_t sums = plan.grids[0].places() * roundUp(plan.channels, kernel.tileRows) * kernel.tileCols;
    const uint64_t one = (plan.desc.kind == ASHLAR_RT_CONV_WEIGHTS ? sums : plan.panelFloats) * sizeof(float);
    panelBytes = std::min(plan.panels * one, std::max(one, kConvPanelBytes));
  } else if (plan.desc.kind == ASHLAR_RT_CONV_WEIGHTS) {
    panelBytes = plan.filterPlaces * plan.placeFloats * sizeof(float);
  }
  const ashlar_rt_conv_dim *dims = plan.desc.dims;
  const bool copies = plan.channels > kConvBlockChain || plan.desc.narrow != 0;
  memory.panels = static_cast<float *>(take(panelBytes));
  memory.zeros = static_cast<char *>(take(zeroBytes(plan)));
  memory.table = take(plan.tablePointers * sizeof(void *));
  memory.at = static_cast<int64_t *>(take(kConvPositions * sizeof(int64_t)));
  memory.places = static_cast<ConvPlace *>(take(plan.filterPlaces * sizeof(ConvPlace)));
  memory.panelAt = static_cast<int64_t *>(take(plan.filterPlaces * sizeof(int64_t)));
  memory.counts = static_cast<int64_t *>(take(plan.filterPlaces * sizeof(int64_t)));
  memory.gradient = static_cast<float *>(take(kConvPositions * kernel.tileCols * sizeof(float)));
  memory.pixels = static_cast<float *>(take(copies ? kConvBlockPixels * kConvCopiedPixel * sizeof(float) : 0));
  memory.sums = static_cast<float *>(take(convSumBytes(plan.desc)));
  memory.image =
      static_cast<char *>(take(plan.copied ? dims[0].in * dims[1].in * foldedColumns(dims[2]) * plan.depth * plan.numberBytes : 0));
  return end - first;
}

} // namespace

int64_t ConvPlan::chunk(int64_t floats, Range range) const {
  const int64_t fitting = static_cast<int64_t>(kConvPanelBytes / sizeof(float)) / std::max<int64_t>(floats, 1);
  return std::max<int64_t>(1, std::min(fitting, range.end - range.begin));
}

void ConvPlan::copyImage(const char *x, int64_t image, char *copy) const {
  const ashlar_rt_conv_dim &dim = desc.dims[2];
  const int64_t rows = desc.dims[0].in * desc.dims[1].in, columns = foldedColumns(dim), pixel = depth * numberBytes;
  const int64_t begin = std::clamp<int64_t>(dim.low, 0, columns), end = std::clamp<int64_t>(dim.in + dim.low, begin, columns);
  const char *from = x + image * rows * dim.in * pixel;
  for (int64_t row = 0; row < rows; ++row, from += dim.in * pixel, copy += columns * pixel) {
    std::memset(copy, 0, begin * pixel);
    std::memcpy(copy + begin * pixel, from + (begin - dim.low) * pixel, (end - begin) * pixel);
    std::memset(copy + end * pixel, 0, (columns - end) * pixel);
  }
}

struct Conv::State {
  ConvPlan plan;
  GemmWorkspace own;
  GemmWorkspace *workspace; // `own` or the caller's
  uint64_t partBytes;
};

Conv::Conv() = default;
Conv::Conv(Conv &&) noexcept = default;
Conv &Conv::operator=(Conv &&) noexcept = default;
Conv::~Conv() = default;

Status Conv::prepare(const ashlar_rt_conv_desc &desc, int threads, Conv &conv, GemmWorkspace *workspace) {
  const bool hasKernel =
      desc.narrow != 0 ? ASHLAR_RT_COMPONENT(convolutions_narrow) != nullptr : ASHLAR_RT_COMPONENT(convolutions_f32) != nullptr;
  if (!hasKernel) {
    return internal("convolution of type {}: the program was linked without its kernels", desc.narrow);
  }
  const ConvKernel *kernel =
      desc.narrow != 0 ? ASHLAR_RT_COMPONENT(convolutions_narrow)(desc.narrow == ASHLAR_RT_F16) : ASHLAR_RT_COMPONENT(convolutions_f32)();
  return prepare(desc, threads, *kernel, conv, workspace);
}

Status Conv::prepare(const ashlar_rt_conv_desc &desc, int threads, const ConvKernel &kernel, Conv &conv, GemmWorkspace *workspace) {
  ASHLAR_RETURN_IF_ERROR(check(desc));
  auto state = std::make_unique<State>();
  makePlan(desc, kernel, std::max(threads, 1), state->plan);
  state->workspace = workspace ? workspace : &state->own;
  state->partBytes = convWorkspaceBytes(desc);
  ConvMemory memory;
  const uint64_t bytes = layOut(state->plan, nullptr, memory);
  if (bytes > state->partBytes) {
    return internal("convolution: the {} kernel needs {} bytes of workspace, the plan has {}", kernel.name, bytes, state->partBytes);
  }
  const uint64_t ordered = state->plan.orderedPieces() * state->plan.pieceBytes();
  if (desc.fixed_weights != 0 && ordered > orderedWeightBytes(desc)) {
    return internal("convolution: the {} kernel needs {} bytes for ordered weights, the plan has {}", kernel.name, ordered,
                    orderedWeightBytes(desc));
  }
  ASHLAR_RETURN_IF_ERROR(state->workspace->reserve(state->partBytes * state->plan.partUnits * state->plan.partPanels));
  conv.state = std::move(state);
  return Status();
}

int Conv::parts() const {
  return static_cast<int>(state->plan.partUnits * state->plan.partPanels);
}

const char *Conv::kernelName() const {
  return state->plan.kernel->name;
}

int Conv::orderedPieces() const {
  return static_cast<int>(state->plan.orderedPieces());
}

void Conv::order(int piece, const void *weights, void *ordered) const {
  orderWeights(state->plan, weights, piece, static_cast<char *>(ordered) + piece * state->plan.pieceBytes());
}

void Conv::runPart(int part, const void *a, const void *b, const void *scale, const void *bias, const void *residual, void *out) {
  const ConvPlan &plan = state->plan;
  ConvMemory memory;
  layOut(plan, reinterpret_cast<char *>(state->workspace->data()) + part * state->partBytes, memory);
  std::memset(memory.zeros, 0, zeroBytes(plan));
  const ConvOperands operands = {static_cast<const char *>(a),
                                 b,
                                 plan.desc.has_scale ? scale : nullptr,
                                 plan.desc.has_bias ? bias : nullptr,
                                 plan.desc.has_residual ? residual : nullptr,
                                 out};
  if (plan.desc.kind == ASHLAR_RT_CONV_WEIGHTS) {
    plan.depthwise ? runConvDepthwiseWeights(plan, memory, part, operands) : runConvWeights(plan, memory, part, operands);
  } else {
    plan.depthwise ? runConvDepthwise(plan, memory, part, operands) : runConvPixels(plan, memory, part, operands);
  }
}

void Conv::run(const void *a, const void *b, const void *scale, const void *bias, const void *residual, void *out) {
  for (int part = 0; part < parts(); ++part) {
    runPart(part, a, b, scale, bias, residual, out);
  }
}

} // namespace ashlar::rt
