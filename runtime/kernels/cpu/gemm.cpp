// SPDX-License-Identifier: Apache-2.0
//
// Chooses a kernel for the processor and cuts a product into parts for the threads.

#include "runtime/kernels/cpu/gemm.h"

#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/cpu/parts.h"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>

namespace ashlar::rt {

namespace {

const GemmKernel &chooseGemmKernel() {
#if defined(__x86_64__)
  return chooseKernel(gemmKernelGeneric, gemmKernelAvx2, gemmKernelAvx512);
#else
  return chooseKernel(gemmKernelGeneric);
#endif
}

constexpr size_t kLargePage = size_t{2} << 20;

// Parts along the batch, the rows and the columns of `out`.
struct Grid {
  int64_t batch = 1, rows = 1, cols = 1;
};

// Returns the grid of at most `threads` parts whose largest part costs least, in register tiles; packing a panel of B costs about as much
// as half a tile, reading the strips of A for fewer panels nothing that is known.
Grid chooseGrid(const ashlar_rt_gemm_desc &desc, const GemmKernel &kernel, int64_t threads) {
  int64_t strips = ceilDiv(desc.m, kernel.tileRows), panels = ceilDiv(desc.n, kernel.tileCols);
  Grid best;
  double bestCost = 0;
  for (int64_t batch = 1; batch <= std::min(threads, desc.batch); ++batch) {
    for (int64_t rows = 1; rows <= std::min(threads / batch, strips); ++rows) {
      int64_t cols = std::min(threads / (batch * rows), panels);
      int64_t partStrips = ceilDiv(strips, rows), partPanels = ceilDiv(panels, cols);
      double packing = (desc.fixed_weights ? 0 : 0.5 * partPanels) + (desc.transpose_a ? 0.5 * partStrips : 0);
      double cost = ceilDiv(desc.batch, batch) * (static_cast<double>(partStrips) * partPanels + packing);
      if (bestCost == 0 || cost < bestCost) {
        bestCost = cost;
        best = {batch, rows, cols};
      }
    }
  }
  return best;
}

} // namespace

Status GemmWorkspace::reserve(size_t bytes) {
  if (bytes <= size) {
    return {};
  }
  // On pages of 2 MiB a product of few rows, which reads its weights about as fast as memory can, gains 5 to 60 %.
  const bool isLarge = bytes >= kLargePage;
  memory.reset(static_cast<float *>(std::aligned_alloc(isLarge ? kLargePage : ASHLAR_RT_ALIGNMENT, bytes)));
  size = memory ? bytes : 0;
  if (memory && isLarge) {
    madvise(memory.get(), bytes, MADV_HUGEPAGE); // without them it is only slower
  }
  return memory ? Status() : unavailable("{} bytes for library calls: out of memory", bytes);
}

struct Gemm::State {
  ashlar_rt_gemm_desc desc;
  const GemmKernel *kernel;
  Grid grid;
  GemmWorkspace own;
  GemmWorkspace *workspace; // `own` or the caller's; one piece of workspaceFloats for each part

  // Returns B as the kernel sees it, but for where it lies.
  GemmPiece wholeB() const;

  // Returns the floats of one ordered panel.
  int64_t orderedFloats() const;
};

Gemm::Gemm() = default;
Gemm::Gemm(Gemm &&) noexcept = default;
Gemm &Gemm::operator=(Gemm &&) noexcept = default;
Gemm::~Gemm() = default;

Status Gemm::prepare(const ashlar_rt_gemm_desc &desc, int threads, Gemm &gemm, GemmWorkspace *workspace) {
  if (desc.batch < 1 || desc.m < 1 || desc.n < 1 || desc.k < 1) {
    return internal("matrix product of size {} x {} x {} x {} (batch, m, n, k): every size must be at least 1", desc.batch, desc.m, desc.n,
                    desc.k);
  }
  if (desc.epilogue > ASHLAR_RT_EPILOGUE_TANH) {
    return internal("matrix product with epilogue {}: the last known one is {}", desc.epilogue, static_cast<int>(ASHLAR_RT_EPILOGUE_TANH));
  }
  auto state = std::make_unique<State>();
  state->desc = desc;
  state->kernel = &chooseGemmKernel();
  state->grid = chooseGrid(desc, *state->kernel, std::max(threads, 1));
  size_t parts = state->grid.batch * state->grid.rows * state->grid.cols;
  size_t bytes = parts * state->kernel->workspaceFloats * sizeof(float);
  state->workspace = workspace ? workspace : &state->own;
  ASHLAR_RETURN_IF_ERROR(state->workspace->reserve(bytes));
  gemm.state = std::move(state);
  return {};
}

GemmPiece Gemm::State::wholeB() const {
  GemmPiece whole{};
  whole.cols = desc.n;
  whole.k = desc.k;
  whole.bRow = desc.transpose_b ? 1 : desc.n;
  whole.bCol = desc.transpose_b ? desc.k : 1;
  whole.isOrdered = desc.fixed_weights != 0;
  return whole;
}

int64_t Gemm::State::orderedFloats() const {
  return desc.k * kernel->tileCols;
}

int Gemm::orderedPieces() const {
  return static_cast<int>(state->desc.batch * ceilDiv(state->desc.n, state->kernel->tileCols));
}

void Gemm::order(int piece, const float *weights, float *ordered) const {
  const ashlar_rt_gemm_desc &desc = state->desc;
  int64_t panels = ceilDiv(desc.n, state->kernel->tileCols);
  Range cols = cut(desc.n, state->kernel->tileCols, piece % panels, panels);
  GemmPiece panel = state->wholeB();
  panel.cols = cols.end - cols.begin;
  panel.b = weights + piece / panels * desc.k * desc.n + cols.begin * panel.bCol;
  state->kernel->order(panel, ordered + piece * state->orderedFloats());
}

int Gemm::parts() const {
  return static_cast<int>(state->grid.batch * state->grid.rows * state->grid.cols);
}

const char *Gemm::kernelName() const {
  return state->kernel->name;
}

void Gemm::runPart(int part, const float *a, const float *b, const float *bias, float *out) {
  const ashlar_rt_gemm_desc &desc = state->desc;
  const Grid &grid = state->grid;
  Range batches = cut(desc.batch, 1, part / (grid.rows * grid.cols), grid.batch);
  Range rows = cut(desc.m, state->kernel->tileRows, part / grid.cols % grid.rows, grid.rows);
  Range cols = cut(desc.n, state->kernel->tileCols, part % grid.cols, grid.cols);
  GemmPiece piece = state->wholeB();
  piece.rows = rows.end - rows.begin;
  piece.cols = cols.end - cols.begin;
  piece.aRow = desc.transpose_a ? 1 : desc.k;
  piece.aCol = desc.transpose_a ? desc.m : 1;
  piece.bias = desc.has_bias ? bias + cols.begin : nullptr;
  piece.outRow = desc.n;
  piece.epilogue = desc.epilogue;
  const int64_t panels = ceilDiv(desc.n, state->kernel->tileCols);
  float *workspace = state->workspace->data() + part * state->kernel->workspaceFloats;
  for (int64_t batch = batches.begin; batch < batches.end; ++batch) {
    piece.a = a + batch * desc.m * desc.k + rows.begin * piece.aRow;
    int64_t panel = batch * panels + cols.begin / state->kernel->tileCols;
    piece.b = piece.isOrdered ? b + panel * state->orderedFloats() : b + batch * desc.k * desc.n + cols.begin * piece.bCol;
    piece.out = out + batch * desc.m * desc.n + rows.begin * desc.n + cols.begin;
    state->kernel->compute(piece, workspace);
  }
}

void Gemm::run(const float *a, const float *b, const float *bias, float *out) {
  for (int part = 0; part < parts(); ++part) {
    runPart(part, a, b, bias, out);
  }
}

} // namespace ashlar::rt
