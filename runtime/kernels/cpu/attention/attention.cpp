// SPDX-License-Identifier: Apache-2.0
//
// Chooses a kernel for the processor and cuts an attention into parts for the threads.
//
// Forward, a unit of work is a block of rows of a head; of few rows, a block of keys of the heads that share them, whose sums are added up
// in the order of the keys, by the last part that has some of them. Backward, one pass over all blocks of the heads that share keys
// computes all gradients, five products for each; where there are too few such groups for the threads, dk and dv of a block of keys and dq
// of a block of rows are units of their own, seven products in all. Either way numbers have the same bits (attention_kernel.h).

#include "runtime/kernels/cpu/attention/attention.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cpu/attention/attention_kernel.h"
#include "runtime/kernels/cpu/parts.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace ashlar::rt {

namespace {

Status check(const ashlar_rt_attention_desc &desc) {
  if (desc.kind != ASHLAR_RT_ATTENTION_FORWARD && desc.kind != ASHLAR_RT_ATTENTION_BACKWARD) {
    return internal("attention of kind {}: the last known one is {}", desc.kind, static_cast<int>(ASHLAR_RT_ATTENTION_BACKWARD));
  }
  if (std::min({desc.batch, desc.heads, desc.key_heads, desc.rows, desc.keys, desc.width, desc.value_width}) < 1) {
    return internal("attention of size {} x {} x {} x {} x {} x {} x {} (batch, heads, key heads, rows, keys, width, value width): every "
                    "size must be at least 1",
                    desc.batch, desc.heads, desc.key_heads, desc.rows, desc.keys, desc.width, desc.value_width);
  }
  if (desc.heads % desc.key_heads != 0) {
    return internal("attention with {} heads and {} key heads: no multiple", desc.heads, desc.key_heads);
  }
  if (desc.dtype != ASHLAR_RT_F32 && desc.dtype != ASHLAR_RT_BF16) {
    return internal("attention of type {}: it must be f32 or bf16", desc.dtype);
  }
  if (desc.window < 0 || (desc.window != 0 && desc.causal == 0)) {
    return internal("attention with a window of {}: it must be positive, and of a causal one", desc.window);
  }
  if (desc.positions != 0 && desc.causal == 0) {
    return internal("attention with positions: it must be a causal one");
  }
  if (!(desc.dropout >= 0 && desc.dropout < 1)) {
    return internal("attention with a dropout of {}: it must be in [0, 1)", desc.dropout);
  }
  if (constexpr uint64_t kAll = 2 * ASHLAR_RT_ATTENTION_D_V - 1; desc.heads_inside > kAll) {
    return internal("attention with heads inside rows of tensors {:#x}: all there are are {:#x}", desc.heads_inside, kAll);
  }
  if (desc.mask != 0 && desc.mask != ASHLAR_RT_F32 && desc.mask != ASHLAR_RT_BF16 && desc.mask != ASHLAR_RT_BOOL) {
    return internal("attention with a mask of type {}: it must be f32, bf16 or bool", desc.mask);
  }
  return {};
}

int64_t bytesOf(uint32_t dtype) {
  return dtype == ASHLAR_RT_BOOL ? 1 : dtype == ASHLAR_RT_BF16 ? 2 : 4;
}

// Returns the rows of a head, counted over all batch entries, of a tensor with so many heads, rows and columns.
AttentionRows rowsOf(const ashlar_rt_attention_desc &desc, ashlar_rt_attention_tensor tensor, void *buffer, int64_t head, int64_t heads,
                     int64_t rows, int64_t width) {
  const bool isInside = (desc.heads_inside & tensor) != 0;
  const int64_t row = isInside ? heads * width : width, nextHead = isInside ? width : rows * width;
  const int64_t offset = head / heads * heads * rows * width + head % heads * nextHead;
  return {static_cast<char *>(buffer) + offset * bytesOf(desc.dtype), row, nextHead, desc.dtype == ASHLAR_RT_BF16};
}

// Cuts units, with these costs again and again, into `parts` runs of about equal cost; returns where each begins, and the end.
std::vector<int64_t> cutByCost(const std::vector<double> &costs, int64_t repeats, int64_t parts) {
  double total = 0, before = 0;
  for (double cost : costs) {
    total += cost;
  }
  total *= static_cast<double>(repeats);
  const int64_t count = static_cast<int64_t>(costs.size()) * repeats;
  std::vector<int64_t> begins = {0};
  for (int64_t unit = 0; unit < count && static_cast<int64_t>(begins.size()) < parts; ++unit) {
    const double cost = costs[unit % costs.size()], target = total * static_cast<double>(begins.size()) / static_cast<double>(parts);
    if (unit > begins.back() && before + cost / 2 > target) {
      begins.push_back(unit);
    }
    before += cost;
  }
  begins.push_back(count);
  return begins;
}

// Calls run(head, first, last) for the units [begin, end) of heads with `blocks` blocks each.
template <typename Run> void forEachHead(int64_t begin, int64_t end, int64_t blocks, const Run &run) {
  for (int64_t unit = begin; unit < end;) {
    const int64_t head = unit / blocks, next = std::min(end, (head + 1) * blocks);
    run(head, unit - head * blocks, next - head * blocks);
    unit = next;
  }
}

// What backward does at once.
enum class Pass { All, Keys, Rows };

} // namespace

struct Attention::State {
  ashlar_rt_attention_desc desc;
  AttentionMemory memory;
  const AttentionKernel *kernel = nullptr;
  GemmWorkspace own;
  GemmWorkspace *workspace = nullptr; // `own` or the caller's; memory.bytes for each part
  int parts = 1;
  bool isSplit = false;                      // backward: keys and rows are units of their own
  std::vector<int64_t> rowBegins, keyBegins; // units of each part: blocks of rows of all heads; of keys of all key heads
  std::vector<int64_t> groupBegins;          // groups of heads that share keys
  // Few rows: of a group whose blocks of keys are in several parts, by the first of these, how many of them are done.
  std::vector<std::atomic<int>> done;

  int64_t rowBlocks() const { return ceilDiv(desc.rows, memory.blockRows); }
  int64_t keyBlocks() const { return ceilDiv(desc.keys, memory.blockKeys); }

  // Whether it is known before the run what rows see.
  bool isKnown() const { return desc.causal != 0 && desc.positions == 0; }

  // Returns how many keys a row sees, all where that is not known.
  int64_t seenBy(int64_t row) const {
    const int64_t end = row + desc.diagonal + 1, first = desc.window != 0 ? end - desc.window : 0;
    return isKnown() ? std::clamp<int64_t>(end, 0, desc.keys) - std::clamp<int64_t>(first, 0, desc.keys) : desc.keys;
  }

  // Returns the costs of the blocks of rows of a head: scores that are seen, and something for each row.
  std::vector<double> rowCosts() const;

  // Returns the costs of the blocks of keys of a head.
  std::vector<double> keyCosts() const;

  // Cuts the gradients into at most `threads` parts.
  void cutBackward(int threads);

  // Returns the whole of `heads` heads that share keys; `head` is the first of them, counted over all batch entries.
  AttentionPiece pieceAt(int64_t head, int64_t heads, Pass pass, void *const *buffers) const;

  // Compute a part in its memory.
  void runForward(int part, void *const *buffers, float *memory) const;
  void runFew(int part, void *const *buffers);
  void runBackward(int part, void *const *buffers, float *memory) const;

  float *memoryOf(int part) const { return workspace->data() + part * (memory.bytes / sizeof(float)); }
};

std::vector<double> Attention::State::rowCosts() const {
  std::vector<double> costs(rowBlocks());
  for (int64_t row = 0; row < desc.rows; ++row) {
    costs[row / memory.blockRows] += static_cast<double>(seenBy(row) + 8);
  }
  return costs;
}

std::vector<double> Attention::State::keyCosts() const {
  std::vector<double> costs(keyBlocks());
  for (int64_t key = 0; key < desc.keys; ++key) {
    const int64_t first = isKnown() ? std::clamp<int64_t>(key - desc.diagonal, 0, desc.rows) : 0;
    const int64_t end =
        isKnown() && desc.window != 0 ? std::clamp<int64_t>(key - desc.diagonal + desc.window, first, desc.rows) : desc.rows;
    costs[key / memory.blockKeys] += static_cast<double>(end - first + 8);
  }
  return costs;
}

void Attention::State::cutBackward(int threads) {
  const int64_t groups = desc.batch * desc.key_heads, most = std::min<int64_t>(threads, groups);
  isSplit = 5 * ceilDiv(groups, most) * threads > 7 * groups && threads > 1;
  if (!isSplit) {
    parts = static_cast<int>(most);
    groupBegins = cutByCost({1}, groups, most);
    return;
  }
  const int64_t rowUnits = desc.batch * desc.heads * rowBlocks(), keyUnits = groups * keyBlocks();
  rowBegins = cutByCost(rowCosts(), desc.batch * desc.heads, std::min<int64_t>(threads, rowUnits));
  keyBegins = cutByCost(keyCosts(), groups, std::min<int64_t>(threads, keyUnits));
  parts = static_cast<int>(std::max(rowBegins.size(), keyBegins.size())) - 1;
}

AttentionPiece Attention::State::pieceAt(int64_t head, int64_t heads, Pass pass, void *const *buffers) const {
  const int64_t batch = head / desc.heads, headOfBatch = head % desc.heads;
  const auto ofRows = [&](ashlar_rt_attention_tensor tensor, void *buffer, int64_t width) {
    return rowsOf(desc, tensor, buffer, head, desc.heads, desc.rows, width);
  };
  const auto ofKeys = [&](ashlar_rt_attention_tensor tensor, void *buffer, int64_t width) {
    return rowsOf(desc, tensor, buffer, head / (desc.heads / desc.key_heads), desc.key_heads, desc.keys, width);
  };
  AttentionPiece piece{};
  piece.desc = &desc;
  piece.memory = &memory;
  piece.q = ofRows(ASHLAR_RT_ATTENTION_Q, buffers[0], desc.width);
  piece.k = ofKeys(ASHLAR_RT_ATTENTION_K, buffers[1], desc.width);
  piece.v = ofKeys(ASHLAR_RT_ATTENTION_V, buffers[2], desc.value_width);
  if (desc.mask != 0) {
    const int64_t offset = batch * desc.mask_strides[0] + headOfBatch * desc.mask_strides[1];
    piece.mask = static_cast<char *>(buffers[3]) + offset * bytesOf(desc.mask);
    ++buffers;
  }
  piece.diagonal = desc.diagonal;
  if (desc.positions != 0) {
    piece.diagonal += *static_cast<const int64_t *>(buffers[3]) - *static_cast<const int64_t *>(buffers[4]);
    buffers += 2;
  }
  if (desc.dropout != 0) {
    piece.rowIndex = static_cast<const int64_t *>(buffers[3]) + head * desc.rows;
    piece.keyIndex = static_cast<const int64_t *>(buffers[4]);
    const uint64_t seed = *static_cast<const uint64_t *>(buffers[5]);
    piece.seed[0] = static_cast<uint32_t>(seed);
    piece.seed[1] = static_cast<uint32_t>(seed >> 32);
    piece.step = static_cast<uint32_t>(*static_cast<const uint64_t *>(buffers[6]));
    piece.stream = *static_cast<const uint32_t *>(buffers[7]);
    buffers += 5;
  }
  piece.out = ofRows(ASHLAR_RT_ATTENTION_OUT, buffers[3], desc.value_width);
  piece.lse = static_cast<float *>(buffers[4]) + head * desc.rows;
  if (desc.kind == ASHLAR_RT_ATTENTION_BACKWARD) {
    piece.dOut = ofRows(ASHLAR_RT_ATTENTION_D_OUT, buffers[5], desc.value_width);
    if (pass != Pass::Keys) {
      piece.dq = ofRows(ASHLAR_RT_ATTENTION_D_Q, buffers[6], desc.width);
    }
    if (pass != Pass::Rows) {
      piece.dk = ofKeys(ASHLAR_RT_ATTENTION_D_K, buffers[7], desc.width);
      piece.dv = ofKeys(ASHLAR_RT_ATTENTION_D_V, buffers[8], desc.value_width);
    }
  }
  piece.heads = heads;
  piece.lastRowBlock = rowBlocks();
  piece.lastKeyBlock = keyBlocks();
  return piece;
}

void Attention::State::runForward(int part, void *const *buffers, float *memoryOfPart) const {
  int64_t keyHead = -1;
  forEachHead(rowBegins[part], rowBegins[part + 1], rowBlocks(), [&](int64_t head, int64_t first, int64_t last) {
    AttentionPiece piece = pieceAt(head, /*heads=*/1, Pass::All, buffers);
    piece.firstRowBlock = first;
    piece.lastRowBlock = last;
    piece.hasKeys = head / (desc.heads / desc.key_heads) == keyHead;
    keyHead = head / (desc.heads / desc.key_heads);
    kernel->forward(piece, memoryOfPart);
  });
}

namespace {

// The blocks of keys that the groups see, all alike, in parts, none of them empty: group g has the units [g * blocks, (g + 1) * blocks).
struct FewUnits {
  int64_t firstBlock, blocks, groups, parts;

  int64_t begin(int64_t part) const { return groups * blocks * part / parts; }

  // Returns the part that has a unit.
  int64_t partOf(int64_t unit) const {
    int64_t part = unit * parts / (groups * blocks);
    for (; begin(part + 1) <= unit; ++part) {
    }
    return part;
  }
};

// Returns the units of an attention of few rows; its piece has the positions of this run.
FewUnits unitsOf(const AttentionPiece &piece, int64_t parts) {
  const ashlar_rt_attention_desc &desc = *piece.desc;
  const int64_t blockKeys = piece.memory->blockKeys;
  int64_t first = 0, end = desc.keys;
  if (desc.causal != 0) {
    end = std::clamp<int64_t>(desc.rows + piece.diagonal, 0, desc.keys);
    first = desc.window != 0 ? std::clamp<int64_t>(piece.diagonal + 1 - desc.window, 0, end) : 0;
  }
  first /= blockKeys;
  const int64_t blocks = std::max<int64_t>(ceilDiv(end, blockKeys) - first, 1), groups = desc.batch * desc.key_heads;
  return {first, blocks, groups, std::min(parts, groups * blocks)};
}

} // namespace

void Attention::State::runFew(int part, void *const *buffers) {
  const int64_t shared = desc.heads / desc.key_heads, areaSize = keyBlocks() * memory.sumsSize;
  const FewUnits units = unitsOf(pieceAt(0, shared, Pass::All, buffers), parts);
  if (part >= units.parts) {
    return;
  }
  // A part keeps the sums of a group that began in an earlier part in its second area: others may read them while it goes on.
  const auto sumsOf = [&](int64_t of, int64_t group) {
    return memoryOf(static_cast<int>(of)) + memory.fewSums + (group * units.blocks < units.begin(of) ? areaSize : 0);
  };
  for (int64_t unit = units.begin(part), end = units.begin(part + 1); unit < end;) {
    const int64_t group = unit / units.blocks, first = group * units.blocks, last = first + units.blocks, next = std::min(end, last);
    const AttentionPiece piece = pieceAt(group * shared, shared, Pass::All, buffers);
    for (float *sums = sumsOf(part, group); unit < next; ++unit, sums += memory.sumsSize) {
      kernel->sumBlock(piece, units.firstBlock + unit - first, memoryOf(part), sums);
    }
    const int64_t firstPart = units.partOf(first), lastPart = units.partOf(last - 1);
    const auto others = static_cast<int>(lastPart - firstPart);
    if (others > 0) {
      if (done[firstPart].fetch_add(1, std::memory_order_acq_rel) < others) {
        continue; // another part is the last one
      }
      done[firstPart].store(0, std::memory_order_relaxed);
    }
    float *all = sumsOf(firstPart, group);
    for (int64_t of = firstPart; of <= lastPart; ++of) {
      const int64_t isFirst = of == firstPart ? 1 : 0, count = std::min(last, units.begin(of + 1)) - std::max(first, units.begin(of));
      kernel->addSums(piece, sumsOf(of, group) + isFirst * memory.sumsSize, count - isFirst, all);
    }
    kernel->finishFew(piece, all);
  }
}

void Attention::State::runBackward(int part, void *const *buffers, float *memoryOfPart) const {
  const int64_t shared = desc.heads / desc.key_heads;
  if (!isSplit) {
    for (int64_t group = groupBegins[part]; group < groupBegins[part + 1]; ++group) {
      kernel->backward(pieceAt(group * shared, shared, Pass::All, buffers), memoryOfPart);
    }
    return;
  }
  if (part + 1 < static_cast<int>(keyBegins.size())) {
    forEachHead(keyBegins[part], keyBegins[part + 1], keyBlocks(), [&](int64_t group, int64_t first, int64_t last) {
      AttentionPiece piece = pieceAt(group * shared, shared, Pass::Keys, buffers);
      piece.firstKeyBlock = first;
      piece.lastKeyBlock = last;
      kernel->backward(piece, memoryOfPart);
    });
  }
  if (part + 1 < static_cast<int>(rowBegins.size())) {
    forEachHead(rowBegins[part], rowBegins[part + 1], rowBlocks(), [&](int64_t head, int64_t first, int64_t last) {
      AttentionPiece piece = pieceAt(head, /*heads=*/1, Pass::Rows, buffers);
      piece.firstRowBlock = first;
      piece.lastRowBlock = last;
      kernel->backward(piece, memoryOfPart);
    });
  }
}

Attention::Attention() = default;
Attention::Attention(Attention &&) noexcept = default;
Attention &Attention::operator=(Attention &&) noexcept = default;
Attention::~Attention() = default;

Status Attention::prepare(const ashlar_rt_attention_desc &desc, int threads, Attention &attention, GemmWorkspace *workspace) {
  if (ASHLAR_RT_COMPONENT(attention) == nullptr) {
    return internal("attention: the program was linked without its kernels");
  }
  return prepare(desc, threads, *ASHLAR_RT_COMPONENT(attention)(), attention, workspace);
}

Status Attention::prepare(const ashlar_rt_attention_desc &desc, int threads, const AttentionKernel &kernel, Attention &attention,
                          GemmWorkspace *workspace) {
  ASHLAR_RETURN_IF_ERROR(check(desc));
  auto state = std::make_unique<State>();
  state->desc = desc;
  state->memory = attentionMemory(desc);
  state->kernel = &kernel;
  threads = std::max(threads, 1);
  if (hasFewRows(desc)) {
    state->parts = static_cast<int>(std::min<int64_t>(threads, desc.batch * desc.key_heads * state->keyBlocks()));
    state->done = std::vector<std::atomic<int>>(state->parts);
  } else if (desc.kind == ASHLAR_RT_ATTENTION_FORWARD) {
    const int64_t heads = desc.batch * desc.heads;
    state->rowBegins = cutByCost(state->rowCosts(), heads, std::min<int64_t>(threads, heads * state->rowBlocks()));
    state->parts = static_cast<int>(state->rowBegins.size()) - 1;
  } else {
    state->cutBackward(threads);
  }
  state->workspace = workspace ? workspace : &state->own;
  ASHLAR_RETURN_IF_ERROR(state->workspace->reserve(state->parts * state->memory.bytes));
  attention.state = std::move(state);
  return {};
}

int Attention::parts() const {
  return state->parts;
}

const char *Attention::kernelName() const {
  return state->kernel->name;
}

void Attention::runPart(int part, void *const *buffers) {
  if (hasFewRows(state->desc)) {
    state->runFew(part, buffers);
  } else if (state->desc.kind == ASHLAR_RT_ATTENTION_FORWARD) {
    state->runForward(part, buffers, state->memoryOf(part));
  } else {
    state->runBackward(part, buffers, state->memoryOf(part));
  }
}

void Attention::run(void *const *buffers) {
  for (int part = 0; part < parts(); ++part) {
    runPart(part, buffers);
  }
}

} // namespace ashlar::rt
