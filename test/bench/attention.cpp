// SPDX-License-Identifier: Apache-2.0
//
// Attention, forward and backward, in milliseconds: f32, batch 8, 6 heads of width 64, square, causal and not. attention_torch.py runs it
// beside PyTorch.
//
//     bench_attention [THREADS [SEQUENCE [SECONDS]]]   2 threads, sequences 256, 1024 and 4096, a second for each figure, the best call
//     bench_attention --decode [THREADS [KEYS [SECONDS]]]   a step of generation: one row, 12 heads, keys from memory, for 256, 1024 and
//     4096
//                                                           keys, all of them and half of them seen, beside a loop that only reads
//
// One thread is timed by its own clock, several by the wall.

#include "runtime/kernels/cpu/attention/attention.h"
#include "runtime/device/cpu/thread_pool.h"
#include "test/bench/peak.h"
#include "test/bench/read_loop.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

using namespace ashlar::rt;

namespace {

struct Call {
  Attention attention;
  std::vector<void *> buffers;

  void run(ThreadPool &pool) {
    pool.parallelFor(
        attention.parts(), 1,
        [](void *context, int64_t begin, int64_t end) {
          auto *call = static_cast<Call *>(context);
          for (int64_t part = begin; part < end; ++part) {
            call->attention.runPart(static_cast<int>(part), call->buffers.data());
          }
        },
        this);
  }
};

// Prints "sequence causal forward_ms backward_ms", for scripts, and the speed in GFLOP/s: 4 and 10 operations for each score that is seen
// and each of its columns.
bool measure(int64_t sequence, bool isCausal, double seconds, ThreadPool &pool) {
  constexpr int64_t batch = 8, heads = 6, width = 64;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> tensors(8, std::vector<float>(batch * heads * sequence * width));
  for (std::vector<float> &tensor : tensors) {
    for (float &x : tensor) {
      x = normal(random);
    }
  }
  std::vector<float> lse(batch * heads * sequence);
  ashlar_rt_attention_desc desc{};
  desc.kind = ASHLAR_RT_ATTENTION_FORWARD;
  desc.dtype = ASHLAR_RT_F32;
  desc.batch = batch;
  desc.heads = desc.key_heads = heads;
  desc.rows = desc.keys = sequence;
  desc.width = desc.value_width = width;
  desc.causal = isCausal ? 1 : 0;
  desc.scale = 0.125f;
  Call forward, backward;
  Status status = Attention::prepare(desc, pool.threads(), forward.attention);
  desc.kind = ASHLAR_RT_ATTENTION_BACKWARD;
  status = status.ok() ? Attention::prepare(desc, pool.threads(), backward.attention) : status;
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return false;
  }
  const auto data = [&](int i) { return tensors[i].data(); };
  forward.buffers = {data(0), data(1), data(2), data(3), lse.data()};
  backward.buffers = {data(0), data(1), data(2), data(3), lse.data(), data(4), data(5), data(6), data(7)};
  const std::vector<double> best =
      bestTimes({[&] { forward.run(pool); }, [&] { backward.run(pool); }}, seconds, pool.threads() == 1 ? threadTime : now);
  const auto size = static_cast<double>(sequence);
  const double scores = batch * heads * (isCausal ? size * (size + 1) / 2 : size * size) * width * 1e-9;
  std::printf("%5lld %d %9.3f %9.3f   %s, %.0f and %.0f GFLOP/s\n", static_cast<long long>(sequence), isCausal ? 1 : 0, best[0] * 1e3,
              best[1] * 1e3, forward.attention.kernelName(), 4 * scores / best[0], 10 * scores / best[1]);
  return true;
}

// The attentions of many layers, each with keys and values of its own, of a token at a position.
class Decode {
public:
  Decode(uint32_t dtype, int64_t keys, int64_t position, ThreadPool &pool) : pool(pool) {
    desc.kind = ASHLAR_RT_ATTENTION_FORWARD;
    desc.dtype = dtype;
    desc.batch = desc.rows = 1;
    desc.heads = desc.key_heads = 12;
    desc.keys = keys;
    desc.width = desc.value_width = 64;
    desc.causal = desc.positions = 1;
    desc.scale = 0.125f;
    for (int64_t key = 0; key < keys; ++key) {
      keyPositions.push_back(key);
    }
    rowPosition = position;
    const int64_t size = dtype == ASHLAR_RT_F32 ? 4 : 2;
    bytes = desc.heads * keys * desc.width * size;
    seenBytes = 2 * desc.heads * (position + 1) * desc.width * size;
  }

  Status prepare() {
    ASHLAR_RETURN_IF_ERROR(Attention::prepare(desc, pool.threads(), call.attention));
    copies = kReadBytes / (2 * bytes);
    ASHLAR_RETURN_IF_ERROR(memory.reserve(copies * 2 * bytes));
    std::memset(memory.data(), 0, memory.bytes());
    call.buffers = {row.data(), nullptr, nullptr, &rowPosition, keyPositions.data(), out.data(), lse.data()};
    return Status();
  }

  void run() {
    call.buffers[1] = reinterpret_cast<char *>(memory.data()) + next++ % copies * 2 * bytes;
    call.buffers[2] = static_cast<char *>(call.buffers[1]) + bytes;
    call.run(pool);
  }

  size_t readBytes() const { return seenBytes; }

private:
  ThreadPool &pool;
  ashlar_rt_attention_desc desc{};
  size_t bytes = 0, seenBytes = 0, copies = 0, next = 0;
  int64_t rowPosition = 0;
  std::vector<int64_t> keyPositions;
  std::vector<float> row = std::vector<float>(12 * 64), out = row, lse = row;
  GemmWorkspace memory;
  Call call;
};

// Prints "keys type position us", for scripts, and the speed.
int measureDecode(int threads, const std::vector<int64_t> &lengths, double seconds) {
  ThreadPool pool(threads);
  GemmWorkspace memory;
  if (!memory.reserve(kReadBytes).ok()) {
    return 1;
  }
  std::memset(memory.data(), 0, memory.bytes());
  for (int64_t keys : lengths) {
    for (uint32_t dtype : {ASHLAR_RT_F32, ASHLAR_RT_BF16}) {
      for (int64_t position : {keys / 2 - 1, keys - 1}) {
        Decode decode(dtype, keys, position, pool);
        if (const Status status = decode.prepare(); !status.ok()) {
          std::fprintf(stderr, "%s\n", status.message().c_str());
          return 1;
        }
        Reader reader(memory, decode.readBytes(), pool);
        const std::vector<double> times = goodTimes({[&] { reader.run(); }, [&] { decode.run(); }}, seconds);
        const double bound = reader.bytes() / times[0] * 1e-9, own = static_cast<double>(decode.readBytes()) / times[1] * 1e-9;
        std::printf("%5lld %s %5lld %9.1f   %5.1f GB/s, %3.0f %% of a loop that reads (%.1f)\n", static_cast<long long>(keys),
                    dtype == ASHLAR_RT_F32 ? "f32 " : "bf16", static_cast<long long>(position), times[1] * 1e6, own, 100 * own / bound,
                    bound);
      }
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && std::strcmp(argv[1], "--decode") == 0) {
    return measureDecode(argc > 2 ? std::atoi(argv[2]) : 2,
                         argc > 3 ? std::vector<int64_t>{std::atoll(argv[3])} : std::vector<int64_t>{256, 1024, 4096},
                         argc > 4 ? std::atof(argv[4]) : 1);
  }
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 2);
  const std::vector<int64_t> sequences = argc > 2 ? std::vector<int64_t>{std::atoll(argv[2])} : std::vector<int64_t>{256, 1024, 4096};
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1;
  for (int64_t sequence : sequences) {
    for (bool isCausal : {false, true}) {
      if (!measure(sequence, isCausal, seconds, pool)) {
        return 1;
      }
    }
  }
  return 0;
}
