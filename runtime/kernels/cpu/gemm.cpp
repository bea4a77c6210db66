// SPDX-License-Identifier: Apache-2.0
//
// Chooses a kernel for the processor and cuts a product into parts for the threads.

#include "runtime/kernels/cpu/gemm.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/bytes.h"
#include "runtime/kernels/cpu/gemm_kernel.h"
#include "runtime/kernels/cpu/parts.h"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>

namespace ashlar::rt {

namespace {

// Whether the executable has the kernels of a product.
bool hasKernel(const ashlar_rt_gemm_desc &desc) {
  return desc.bytes != 0    ? ASHLAR_RT_COMPONENT(products_bytes) != nullptr
         : desc.narrow != 0 ? ASHLAR_RT_COMPONENT(products_narrow) != nullptr
                            : ASHLAR_RT_COMPONENT(products_f32) != nullptr;
}

constexpr size_t kLargePage = size_t{2} << 20;

// Parts along the batch, the rows and the columns of `out`.
struct Grid {
  int64_t batch = 1, rows = 1, cols = 1;
};

// Returns the grid of at most `threads` parts whose largest part costs least, in register tiles; packing a panel of B costs about as much
// as half a tile, reading the strips of A for fewer panels nothing that is known.
Grid chooseGrid(const ashlar_rt_gemm_desc &desc, int64_t tileRows, int64_t tileCols, int64_t threads) {
  int64_t strips = ceilDiv(desc.m, tileRows), panels = ceilDiv(desc.n, tileCols);
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
  const size_t alignment = isLarge ? kLargePage : ASHLAR_RT_ALIGNMENT;
  const size_t whole = roundUp(bytes, alignment); // as C wants it; the rest is not touched
  memory.reset(static_cast<float *>(std::aligned_alloc(alignment, whole)));
  size = memory ? bytes : 0;
  if (memory && isLarge) {
    madvise(memory.get(), bytes, MADV_HUGEPAGE); // without them it is only slower
  }
  return memory ? Status() : unavailable("{} bytes for library calls: out of memory", bytes);
}

struct Gemm::State {
  ashlar_rt_gemm_desc desc;
  const GemmKernel *kernel = nullptr;   // of floats, or
  const NarrowKernel *narrow = nullptr; // of bf16 or f16, or
  const ByteKernel *bytes = nullptr;    // of integers
  const char *name = nullptr;
  int64_t tileRows = 0, tileCols = 0;
  Grid grid;
  GemmWorkspace own;
  GemmWorkspace *workspace = nullptr; // `own` or the caller's; one piece of partBytes for each part
  uint64_t partBytes = 0;

  template <typename Kernel> void use(const Kernel &chosen) {
    name = chosen.name;
    tileRows = chosen.tileRows;
    tileCols = chosen.tileCols;
  }

  int64_t panels() const { return ceilDiv(desc.n, tileCols); }

  // Returns the bytes of an ordered matrix.
  int64_t orderedMatrix() const { return panels() * tileCols * static_cast<int64_t>(orderedRows(desc) * sizeof(float)); }

  // Returns the numbers of an ordered panel of bf16 or f16.
  int64_t panelNumbers() const { return 2 * static_cast<int64_t>(orderedRows(desc)) * tileCols; }

  // Returns B as the kernel sees it, but for where it lies.
  template <typename Piece> Piece wholeB() const;

  // Sets what pieces of floats and of narrow ones have in common.
  template <typename Piece> Piece pieceOf(Range rows, Range cols) const;

  void runNarrow(Range rows, Range cols, int64_t batch, const void *a, const void *b, const void *bias, void *out, float *memory) const;
};

template <typename Piece> Piece Gemm::State::wholeB() const {
  Piece whole{};
  whole.cols = desc.n;
  whole.k = desc.k;
  whole.bRow = desc.transpose_b != 0 ? 1 : desc.n;
  whole.bCol = desc.transpose_b != 0 ? desc.k : 1;
  whole.isOrdered = desc.fixed_weights != 0;
  return whole;
}

template <typename Piece> Piece Gemm::State::pieceOf(Range rows, Range cols) const {
  Piece piece = wholeB<Piece>();
  piece.rows = rows.end - rows.begin;
  piece.cols = cols.end - cols.begin;
  piece.aRow = desc.transpose_a != 0 ? 1 : desc.k;
  piece.aCol = desc.transpose_a != 0 ? desc.m : 1;
  piece.outRow = desc.n;
  piece.epilogue = desc.epilogue;
  piece.accumulates = desc.addend == ASHLAR_RT_ADDEND_OUT;
  return piece;
}

void Gemm::State::runNarrow(Range rows, Range cols, int64_t batch, const void *a, const void *b, const void *bias, void *out,
                            float *memory) const {
  auto piece = pieceOf<NarrowPiece>(rows, cols);
  const bool isNarrow = desc.narrow_out != 0;
  const int64_t ofOut = batch * desc.m * desc.n + rows.begin * desc.n + cols.begin, size = isNarrow ? sizeof(uint16_t) : sizeof(float);
  piece.isF16 = desc.narrow == ASHLAR_RT_F16;
  piece.isOutNarrow = isNarrow;
  piece.a = static_cast<const uint16_t *>(a) + batch * desc.m * desc.k + rows.begin * piece.aRow;
  if (piece.isOrdered) {
    piece.b =
        reinterpret_cast<const uint16_t *>(static_cast<const char *>(b) + batch * orderedMatrix()) + cols.begin / tileCols * panelNumbers();
  } else {
    piece.b = static_cast<const uint16_t *>(b) + batch * desc.k * desc.n + cols.begin * piece.bCol;
  }
  piece.bias = desc.addend == ASHLAR_RT_ADDEND_BIAS ? static_cast<const char *>(bias) + cols.begin * size : nullptr;
  piece.out = static_cast<char *>(out) + ofOut * size;
  narrow->compute(piece, memory);
}

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
  if (desc.bytes != 0 && (desc.addend != ASHLAR_RT_ADDEND_NONE || desc.epilogue != ASHLAR_RT_EPILOGUE_NONE)) {
    return internal("matrix product of integers with addend {}, epilogue {}: it has none", desc.addend, desc.epilogue);
  }
  if ((desc.narrow != 0 && desc.narrow != ASHLAR_RT_BF16 && desc.narrow != ASHLAR_RT_F16) || (desc.narrow == 0 && desc.narrow_out != 0)) {
    return internal("matrix product of type {}, narrow result {}: the types are {} and {}", desc.narrow, desc.narrow_out,
                    static_cast<int>(ASHLAR_RT_BF16), static_cast<int>(ASHLAR_RT_F16));
  }
  if (desc.addend == ASHLAR_RT_ADDEND_OUT && desc.narrow_out != 0) {
    return internal("matrix product that is added to a result of type {}, which has to be f32", desc.narrow);
  }
  auto state = std::make_unique<State>();
  state->desc = desc;
  if (!hasKernel(desc)) {
    return internal("matrix product of type {}, bytes {}: the program was linked without its kernels", desc.narrow, desc.bytes);
  }
  if (desc.bytes != 0) {
    state->bytes = ASHLAR_RT_COMPONENT(products_bytes)();
    state->use(*state->bytes);
  } else if (desc.narrow != 0) {
    state->narrow = ASHLAR_RT_COMPONENT(products_narrow)(desc.narrow == ASHLAR_RT_F16);
    state->use(*state->narrow);
  } else {
    state->kernel = ASHLAR_RT_COMPONENT(products_f32)();
    state->use(*state->kernel);
  }
  state->grid = chooseGrid(desc, state->tileRows, state->tileCols, std::max(threads, 1));
  state->partBytes = productWorkspaceBytes(desc);
  size_t parts = state->grid.batch * state->grid.rows * state->grid.cols;
  state->workspace = workspace ? workspace : &state->own;
  ASHLAR_RETURN_IF_ERROR(state->workspace->reserve(parts * state->partBytes));
  gemm.state = std::move(state);
  return {};
}

int Gemm::orderedPieces() const {
  return static_cast<int>(state->desc.batch * state->panels());
}

void Gemm::order(int piece, const void *weights, void *ordered) const {
  const ashlar_rt_gemm_desc &desc = state->desc;
  const int64_t batch = piece / state->panels(), panel = piece % state->panels();
  auto *matrix = static_cast<char *>(ordered) + batch * state->orderedMatrix();
  if (state->bytes != nullptr) {
    const auto *b = static_cast<const uint8_t *>(weights) + batch * desc.k * desc.n;
    return orderBytes(desc, *state->bytes, panel, b, reinterpret_cast<uint32_t *>(matrix));
  }
  const Range cols = cut(desc.n, state->tileCols, panel, state->panels());
  if (state->narrow != nullptr) {
    NarrowPiece columns = state->wholeB<NarrowPiece>();
    columns.cols = cols.end - cols.begin;
    columns.b = static_cast<const uint16_t *>(weights) + batch * desc.k * desc.n + cols.begin * columns.bCol;
    return state->narrow->order(columns, reinterpret_cast<uint16_t *>(matrix) + panel * state->panelNumbers());
  }
  GemmPiece columns = state->wholeB<GemmPiece>();
  columns.cols = cols.end - cols.begin;
  columns.b = static_cast<const float *>(weights) + batch * desc.k * desc.n + cols.begin * columns.bCol;
  state->kernel->order(columns, reinterpret_cast<float *>(matrix) + panel * desc.k * state->tileCols);
}

int Gemm::parts() const {
  return static_cast<int>(state->grid.batch * state->grid.rows * state->grid.cols);
}

const char *Gemm::kernelName() const {
  return state->name;
}

void Gemm::runPart(int part, const void *a, const void *b, const void *bias, void *out) {
  const ashlar_rt_gemm_desc &desc = state->desc;
  const Grid &grid = state->grid;
  Range batches = cut(desc.batch, 1, part / (grid.rows * grid.cols), grid.batch);
  Range rows = cut(desc.m, state->tileRows, part / grid.cols % grid.rows, grid.rows);
  Range cols = cut(desc.n, state->tileCols, part % grid.cols, grid.cols);
  float *workspace = state->workspace->data() + part * (state->partBytes / sizeof(float));
  auto piece = state->pieceOf<GemmPiece>(rows, cols);
  piece.bias = desc.addend == ASHLAR_RT_ADDEND_BIAS ? static_cast<const float *>(bias) + cols.begin : nullptr;
  for (int64_t batch = batches.begin; batch < batches.end; ++batch) {
    const int64_t ofA = batch * desc.m * desc.k, ofB = batch * desc.k * desc.n, ofOut = batch * desc.m * desc.n;
    const void *ordered = static_cast<const char *>(b) + batch * state->orderedMatrix();
    if (state->bytes != nullptr) {
      multiplyBytes(desc, *state->bytes, rows, cols, static_cast<const uint8_t *>(a) + ofA,
                    piece.isOrdered ? ordered : static_cast<const uint8_t *>(b) + ofB, static_cast<uint32_t *>(out) + ofOut, workspace);
      continue;
    }
    if (state->narrow != nullptr) {
      state->runNarrow(rows, cols, batch, a, b, bias, out, workspace);
      continue;
    }
    piece.a = static_cast<const float *>(a) + ofA + rows.begin * piece.aRow;
    piece.b = piece.isOrdered ? static_cast<const float *>(ordered) + cols.begin * desc.k
                              : static_cast<const float *>(b) + ofB + cols.begin * piece.bCol;
    piece.out = static_cast<float *>(out) + ofOut + rows.begin * desc.n + cols.begin;
    state->kernel->compute(piece, workspace);
  }
}

void Gemm::run(const void *a, const void *b, const void *bias, void *out) {
  for (int part = 0; part < parts(); ++part) {
    runPart(part, a, b, bias, out);
  }
}

} // namespace ashlar::rt
