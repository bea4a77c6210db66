// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of one training step of the MLP 784-512-512-10, in GFLOP/s and as a share of the peak that a loop of fused multiply-adds
// reaches in the same run, beside dnnl_sgemm where oneDNN is installed; and of a transformer's step in f32, bf16 and f16, where a product
// of bf16 may exceed that peak. GFLOP/s = 2 m n k / time; the best call of 0.3 s; operands are in cache, as they are in a step. One thread.
//
//     bench_gemm --decode [THREADS]   the products of GPT-2 (124M parameters) for one token, or a few, in GB/s of fixed weights, which come
//                                     from memory, and as a share of a loop that only reads, in the same run; 2 threads

#include "runtime/kernels/cpu/gemm.h"
#include "runtime/abi/memory_sizes.h"
#include "runtime/device/cpu/thread_pool.h"
#include "test/bench/peak.h"
#include "test/bench/read_loop.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <dlfcn.h>

using namespace ashlar::rt;

namespace {

using DnnlSgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float, float *,
                          int64_t);

double bestTime(const std::function<void()> &work) {
  return bestTimes({work}, 0.3)[0];
}

struct Shape {
  const char *what;
  int64_t m, k, n;
  uint32_t transposeA, transposeB, bias;
};

constexpr Shape kShapes[] = {
    {"forward 1", 256, 784, 512, 0, 0, 1},
    {"forward 2", 256, 512, 512, 0, 0, 1},
    {"forward 3", 256, 512, 10, 0, 0, 1},
    {"dW 3", 512, 256, 10, 1, 0, 0},
    {"dX 3", 256, 10, 512, 0, 1, 0},
    {"dW 2", 512, 256, 512, 1, 0, 0},
    {"dX 2", 256, 512, 512, 0, 1, 0},
    {"dW 1", 784, 256, 512, 1, 0, 0},
    {"forward 1, 128 rows", 128, 784, 512, 0, 0, 1},
    {"dW 1, 128 rows", 784, 128, 512, 1, 0, 0},
    {"dX 2, 128 rows", 128, 512, 512, 0, 1, 0},
    {"square", 1024, 1024, 1024, 0, 0, 0},
};

void measure(const Shape &shape, double peak, DnnlSgemm sgemm) {
  std::vector<float> a(shape.m * shape.k, 0.5f), b(shape.k * shape.n, 0.25f), bias(shape.n, 1), out(shape.m * shape.n);
  const ashlar_rt_gemm_desc desc = {1, shape.m, shape.n, shape.k, shape.transposeA, shape.transposeB, shape.bias, shape.bias};
  Gemm gemm;
  const Status status = Gemm::prepare(desc, 1, gemm);
  if (!status.ok()) {
    std::printf("%s\n", status.message().c_str());
    return;
  }
  const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) * 1e-9;
  const double own = flops / bestTime([&] { gemm.run(a.data(), b.data(), bias.data(), out.data()); });
  std::printf("%-20s %5lld x %4lld x %4lld %c%c  %s  %7.1f GFLOP/s", shape.what, static_cast<long long>(shape.m),
              static_cast<long long>(shape.k), static_cast<long long>(shape.n), shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N',
              gemm.kernelName(), own);
  if (peak > 0) {
    std::printf("  %3.0f %% of peak", 100 * own / peak);
  }
  if (sgemm) {
    const double other =
        flops / bestTime([&] {
          sgemm(shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N', shape.m, shape.n, shape.k, 1, a.data(),
                shape.transposeA ? shape.m : shape.k, b.data(), shape.transposeB ? shape.k : shape.n, 0, out.data(), shape.n);
        });
    std::printf("  dnnl_sgemm %7.1f  ratio %.2f", other, own / other);
  }
  std::printf("\n");
}

// Products of few rows, with weights read in place and with weights that are ordered once, as in inference: few rows read them about as
// fast as memory can.
void measureFewRows(int64_t m, int64_t k, int64_t n) {
  std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f), out(m * n);
  ashlar_rt_gemm_desc desc = {1, m, n, k, 0, 0, 0, 0};
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * 1e-9;
  double speed[2] = {};
  for (uint32_t fixed : {0, 1}) {
    desc.fixed_weights = fixed;
    Gemm gemm;
    GemmWorkspace ordered;
    Status status = Gemm::prepare(desc, 1, gemm);
    status = status.ok() ? ordered.reserve(orderedWeightBytes(desc)) : status;
    if (!status.ok()) {
      std::printf("%s\n", status.message().c_str());
      return;
    }
    for (int piece = 0; fixed != 0 && piece < gemm.orderedPieces(); ++piece) {
      gemm.order(piece, b.data(), ordered.data());
    }
    const float *weights = fixed != 0 ? ordered.data() : b.data();
    speed[fixed] = flops / bestTime([&] { gemm.run(a.data(), weights, nullptr, out.data()); });
  }
  std::printf("%4lld x %4lld x %4lld  in place %6.1f GFLOP/s, ordered %6.1f: %4.1f GB/s of weights\n", static_cast<long long>(m),
              static_cast<long long>(k), static_cast<long long>(n), speed[0], speed[1],
              speed[1] / flops * static_cast<double>(k * n) * 4e-9);
}

// Products of a transformer of width 384 on 8 sequences of 256, in f32, bf16 and f16. The gradients of weights have f32 results.
struct NarrowShape {
  const char *what;
  int64_t batch, m, k, n;
  uint32_t transposeA, transposeB;
};

constexpr NarrowShape kNarrowShapes[] = {
    {"query", 1, 2048, 384, 384, 0, 0},          {"up", 1, 2048, 384, 1536, 0, 0},      {"down", 1, 2048, 1536, 384, 0, 0},
    {"head", 1, 2048, 384, 8000, 0, 0},          {"dX head", 1, 2048, 8000, 384, 0, 1}, {"dX up", 1, 2048, 1536, 384, 0, 1},
    {"dW query", 1, 384, 2048, 384, 1, 0},       {"dW head", 1, 384, 2048, 8000, 1, 0}, {"scores", 48, 256, 64, 256, 0, 1},
    {"scores x values", 48, 256, 256, 64, 0, 0}, {"d values", 48, 256, 256, 64, 1, 0},
};

void measureNarrow(const NarrowShape &shape, double peak) {
  const int64_t ofA = shape.batch * shape.m * shape.k, ofB = shape.batch * shape.k * shape.n;
  const std::vector<float> a(ofA, 0.5f), b(ofB, 0.25f);
  const std::vector<uint16_t> narrowA(ofA, 0x3800), narrowB(ofB, 0x3400); // normal numbers of both types
  std::vector<float> out(shape.batch * shape.m * shape.n);
  constexpr uint32_t kTypes[] = {0, ASHLAR_RT_BF16, ASHLAR_RT_F16};
  Gemm gemms[3];
  std::vector<std::function<void()>> works;
  for (int i = 0; i < 3; ++i) {
    ashlar_rt_gemm_desc desc = {shape.batch, shape.m, shape.n, shape.k, shape.transposeA, shape.transposeB, 0, 0};
    desc.narrow = kTypes[i];
    desc.narrow_out = kTypes[i] != 0 && shape.transposeA == 0;
    if (const Status status = Gemm::prepare(desc, 1, gemms[i]); !status.ok()) {
      std::printf("%s\n", status.message().c_str());
      return;
    }
    works.push_back([&, i] {
      i == 0 ? gemms[i].run(a.data(), b.data(), nullptr, out.data()) : gemms[i].run(narrowA.data(), narrowB.data(), nullptr, out.data());
    });
  }
  const std::vector<double> times = bestTimes(works, 0.3, threadTime);
  std::printf("%-16s %2lld x %4lld x %4lld x %4lld %c%c ", shape.what, static_cast<long long>(shape.batch), static_cast<long long>(shape.m),
              static_cast<long long>(shape.k), static_cast<long long>(shape.n), shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N');
  const double flops = 2e-9 * static_cast<double>(shape.batch * shape.m) * static_cast<double>(shape.n * shape.k);
  for (int i = 0; i < 3; ++i) {
    std::printf("  %s %6.1f GFLOP/s, %3.0f %%", gemms[i].kernelName(), flops / times[i], peak > 0 ? 100 * flops / times[i] / peak : 0);
  }
  std::printf("\n");
}

// Products with weights of their own, which take kReadBytes in all, one after the other.
class Decode {
public:
  Decode(int64_t m, int64_t k, int64_t n, uint32_t isTransposed, uint32_t narrow, ThreadPool &pool) : pool(pool) {
    desc = {1, m, n, k, 0, isTransposed, 0, 0};
    desc.fixed_weights = 1;
    desc.narrow = narrow;
    desc.narrow_out = narrow != 0;
    bytes = static_cast<size_t>(k * n) * (narrow != 0 ? 2 : 4);
    a.assign(m * k, 0);
    out.assign(m * n, 0);
  }

  Status prepare() {
    ASHLAR_RETURN_IF_ERROR(Gemm::prepare(desc, pool.threads(), gemm));
    const std::vector<float> b(desc.k * desc.n, 0);
    copies = (kReadBytes + bytes - 1) / bytes;
    ASHLAR_RETURN_IF_ERROR(ordered.reserve(copies * orderedWeightBytes(desc))); // as a program has them
    for (size_t copy = 0; copy < copies; ++copy) {
      for (int piece = 0; piece < gemm.orderedPieces(); ++piece) {
        gemm.order(piece, b.data(), orderedAt(copy));
      }
    }
    return Status();
  }

  void run() {
    weights = orderedAt(next++ % copies);
    pool.parallelFor(
        gemm.parts(), 1,
        [](void *context, int64_t begin, int64_t end) {
          auto *call = static_cast<Decode *>(context);
          for (int64_t part = begin; part < end; ++part) {
            call->gemm.runPart(static_cast<int>(part), call->a.data(), call->weights, nullptr, call->out.data());
          }
        },
        this);
  }

  size_t weightBytes() const { return bytes; }
  const char *kernelName() const { return gemm.kernelName(); }

private:
  float *orderedAt(size_t copy) const { return ordered.data() + copy * (orderedWeightBytes(desc) / sizeof(float)); }

  ThreadPool &pool;
  ashlar_rt_gemm_desc desc{};
  size_t bytes;
  std::vector<float> a, out;
  GemmWorkspace ordered;
  size_t copies = 0, next = 0;
  const void *weights = nullptr;
  Gemm gemm;
};

int measureDecode(int threads) {
  constexpr struct {
    const char *what;
    int64_t k, n;
    uint32_t isTransposed;
  } kProducts[] = {{"query, key, value", 768, 2304, 0},
                   {"projection", 768, 768, 0},
                   {"up", 768, 3072, 0},
                   {"down", 3072, 768, 0},
                   {"logits", 768, 50257, 1}};
  ThreadPool pool(threads);
  GemmWorkspace memory;
  if (!memory.reserve(kReadBytes).ok()) {
    return 1;
  }
  std::memset(memory.data(), 0, memory.bytes());
  for (uint32_t narrow : {uint32_t{0}, static_cast<uint32_t>(ASHLAR_RT_BF16), static_cast<uint32_t>(ASHLAR_RT_F16)}) {
    for (const auto &[what, k, n, isTransposed] : kProducts) {
      for (int64_t m : {1, 2, 4}) {
        Decode decode(m, k, n, isTransposed, narrow, pool);
        if (const Status status = decode.prepare(); !status.ok()) {
          std::printf("%s\n", status.message().c_str());
          return 1;
        }
        Reader reader(memory, decode.weightBytes(), pool);
        const std::vector<double> times = goodTimes({[&] { reader.run(); }, [&] { decode.run(); }}, 0.5);
        const double bound = reader.bytes() / times[0] * 1e-9, own = static_cast<double>(decode.weightBytes()) / times[1] * 1e-9;
        std::printf("%-18s %lld x %4lld x %5lld  %-18s %5.1f GB/s of weights, %3.0f %% of a loop that reads (%.1f)\n", what,
                    static_cast<long long>(m), static_cast<long long>(k), static_cast<long long>(n), decode.kernelName(), own,
                    100 * own / bound, bound);
      }
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && std::strcmp(argv[1], "--decode") == 0) {
    return measureDecode(argc > 2 ? std::atoi(argv[2]) : 2);
  }
  // oneDNN is held to the one thread that our side uses. It has its OpenMP from libgomp.
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/1);
  void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  DnnlSgemm sgemm = library ? reinterpret_cast<DnnlSgemm>(dlsym(library, "dnnl_sgemm")) : nullptr;
  const double peak = peakOfOneCore();
  std::printf("peak of one core: %.1f GFLOP/s; dnnl_sgemm %s (it adds no bias and no relu, ours does in the forward products)\n", peak,
              sgemm ? "in the same run" : "not installed");
  for (const Shape &shape : kShapes) {
    measure(shape, peak, sgemm);
  }
  for (const NarrowShape &shape : kNarrowShapes) {
    measureNarrow(shape, peak);
  }
  for (int64_t size : {256, 1024, 4096}) {
    for (int64_t rows : {1, 4, 12, 16, 24, 32, 64, 256}) {
      measureFewRows(rows, size, size);
    }
  }
  return 0;
}
