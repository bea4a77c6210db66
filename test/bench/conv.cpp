// SPDX-License-Identifier: Apache-2.0
//
// All distinct convolutions of ResNet-50 (batch 8 at 224 x 224, batch 64 at 32 x 32), with both gradients, on one and on two threads: time,
// GFLOP/s and share of the peak that a loop of fused multiply-adds reaches in the same run, of f32; the same of bf16 and f16 (results too,
// except gradients of weights, which are f32) and how many times as fast that is; and oneDNN where its headers are installed, of f32.
// FLOPs are 2 * elements of y * channels in * places, padding included. The best of a few calls, in turns with oneDNN, each after one that
// is not timed: on one thread its CPU time, on two the time that passes. Ours orders the weights in every call. oneDNN computes on channels
// last, with the weights in the order that it asks for; the reorders that a training step needs for that are counted.
//
//   bench_conv [--seconds S] [--only TEXT] [--threads N]     S: for each side of each line, default 0.3; TEXT: lines that contain it

#include "runtime/kernels/cpu/conv/conv.h"
#include "runtime/base/half.h"
#include "runtime/device/cpu/thread_pool.h"
#include "test/bench/peak.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#if ASHLAR_HAVE_ONEDNN
#include "test/bench/conv_onednn.h"
#endif

using namespace ashlar::rt;

namespace {

struct Layer {
  std::string name;
  int64_t in, channelsIn, channelsOut, kernel, stride;
  int count; // how many convolutions of the network are like this
};

// Returns the distinct convolutions of ResNet-50 for images of `size` x `size`; strides are in the 3 x 3 convolutions, as in torchvision.
std::vector<Layer> resnet50(int64_t size) {
  std::vector<Layer> layers = {{"conv1", size, 3, 64, 7, 2, 1}};
  const int64_t blocks[4] = {3, 4, 6, 3};
  int64_t side = size / 4, channels = 64;
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t width = 64 << stage, stride = stage == 0 ? 1 : 2, out = side / stride;
    const std::string prefix = "layer" + std::to_string(stage + 1);
    layers.push_back({prefix + " reduce first", side, channels, width, 1, 1, 1});
    layers.push_back({prefix + " 3x3 first", side, width, width, 3, stride, 1});
    layers.push_back({prefix + " shortcut", side, channels, 4 * width, 1, stride, 1});
    layers.push_back({prefix + " expand", out, width, 4 * width, 1, 1, static_cast<int>(blocks[stage])});
    layers.push_back({prefix + " reduce", out, 4 * width, width, 1, 1, static_cast<int>(blocks[stage] - 1)});
    layers.push_back({prefix + " 3x3", out, width, width, 3, 1, static_cast<int>(blocks[stage] - 1)});
    side = out;
    channels = 4 * width;
  }
  return layers;
}

ashlar_rt_conv_desc descOf(const Layer &layer, uint32_t kind, int64_t batch) {
  const int64_t low = (layer.kernel - 1) / 2;
  const ashlar_rt_conv_dim dim = {layer.in, (layer.in + 2 * low - layer.kernel) / layer.stride + 1, layer.kernel, layer.stride, 1, low};
  return {kind, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 2, batch, 1, layer.channelsIn, layer.channelsOut, {{1, 1, 1, 1, 1, 0}, dim, dim},
          0,    0};
}

struct Totals {
  double own = 0, bf16 = 0, f16 = 0, other = 0, flops = 0;
};

struct Options {
  double seconds = 0.3;
  std::string only;
  int threads = 0; // 0: 1 and 2
};

constexpr float kValue = 0.25f; // of all operands

constexpr const char *kKinds[] = {"", "forward", "data", "weights"};

// A convolution with its threads, ready to run.
class Side {
public:
  Side(const ashlar_rt_conv_desc &desc, int threads, const void *a, const void *b, void *out) : a(a), b(b), out(out) {
    const Status status = Conv::prepare(desc, threads, conv);
    if (!status.ok()) {
      std::printf("%s\n", status.message().c_str());
      std::exit(1);
    }
    pool = std::make_unique<ThreadPool>(conv.parts());
  }

  void run() {
    pool->parallelFor(
        conv.parts(), /*grain=*/1,
        [](void *context, int64_t begin, int64_t end) {
          auto &side = *static_cast<Side *>(context);
          for (int64_t part = begin; part < end; ++part) {
            side.conv.runPart(static_cast<int>(part), side.a, side.b, nullptr, nullptr, nullptr, side.out);
          }
        },
        this);
  }

private:
  Conv conv;
  std::unique_ptr<ThreadPool> pool;
  const void *a, *b;
  void *out;
};

void measure(const Layer &layer, uint32_t kind, int64_t batch, int threads, double peak, const Options &options, Totals &totals) {
  const ashlar_rt_conv_desc desc = descOf(layer, kind, batch);
  const ashlar_rt_conv_dim &dim = desc.dims[1];
  const auto floats = [](int64_t count) { return std::vector<float>(count, kValue); };
  const auto x = floats(batch * dim.in * dim.in * layer.channelsIn), y = floats(batch * dim.out * dim.out * layer.channelsOut),
             w = floats(layer.channelsIn * layer.channelsOut * layer.kernel * layer.kernel);
  const std::vector<float> &a = kind == ASHLAR_RT_CONV_DATA ? y : x, &b = kind == ASHLAR_RT_CONV_WEIGHTS ? y : w;
  std::vector<float> out = kind == ASHLAR_RT_CONV_FORWARD ? y : kind == ASHLAR_RT_CONV_DATA ? x : w;
  const auto narrowed = [&](uint32_t narrow) {
    ashlar_rt_conv_desc result = desc;
    result.narrow = narrow;
    result.narrow_out = kind != ASHLAR_RT_CONV_WEIGHTS;
    return result;
  };
  const std::vector<Bf16> bf16A(a.size(), Bf16(kValue)), bf16B(b.size(), Bf16(kValue));
  const std::vector<F16> f16A(a.size(), F16(kValue)), f16B(b.size(), F16(kValue));
  std::vector<float> narrowOut(out.size()); // of floats, or of fewer bytes
  Side wide(desc, threads, a.data(), b.data(), out.data());
  Side bf16(narrowed(ASHLAR_RT_BF16), threads, bf16A.data(), bf16B.data(), narrowOut.data());
  Side f16(narrowed(ASHLAR_RT_F16), threads, f16A.data(), f16B.data(), narrowOut.data());
  std::vector<std::function<void()>> sides = {[&] { wide.run(); }, [&] { bf16.run(); }, [&] { f16.run(); }};
#if ASHLAR_HAVE_ONEDNN
  std::vector<float> theirs(out.size());
  ashlar::bench::OnednnConv library(desc, threads, a.data(), b.data(), theirs.data());
  sides.push_back([&] { library.run(); });
#endif
  const std::vector<double> best = bestTimes(sides, options.seconds, threads == 1 ? threadTime : now);
#if ASHLAR_HAVE_ONEDNN
  for (size_t i = 0; i < out.size(); i += 97) {
    if (std::abs(out[i] - theirs[i]) > 1e-3f * std::abs(theirs[i]) + 1e-3f) {
      std::printf("element %zu is %g, with oneDNN %g\n", i, out[i], theirs[i]);
      break;
    }
  }
#endif
  const double flops = 2e-9 * static_cast<double>(y.size()) * static_cast<double>(layer.channelsIn * layer.kernel * layer.kernel);
  totals.own += best[0] * layer.count;
  totals.bf16 += best[1] * layer.count;
  totals.f16 += best[2] * layer.count;
  totals.flops += flops * layer.count;
  std::printf("%-20s %-8s %3lldx%-3lld %4lld -> %4lld k%lld s%lld x%d  %8.3f ms %6.1f GFLOP/s %3.0f %%", layer.name.c_str(), kKinds[kind],
              static_cast<long long>(dim.in), static_cast<long long>(dim.in), static_cast<long long>(layer.channelsIn),
              static_cast<long long>(layer.channelsOut), static_cast<long long>(layer.kernel), static_cast<long long>(layer.stride),
              layer.count, best[0] * 1e3, flops / best[0], 100 * flops / best[0] / peak);
  std::printf("  bf16 %8.3f ms %6.1f  ratio %.2f", best[1] * 1e3, flops / best[1], best[0] / best[1]);
  std::printf("  f16 %8.3f ms %6.1f  ratio %.2f", best[2] * 1e3, flops / best[2], best[0] / best[2]);
  if (best.size() > 3) {
    totals.other += best[3] * layer.count;
    std::printf("  oneDNN %8.3f ms %6.1f  ratio %.2f", best[3] * 1e3, flops / best[3], best[3] / best[0]);
  }
  std::printf("\n");
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
#if ASHLAR_HAVE_ONEDNN
  // The library's threads would go on spinning on the processors in our turns. They read this before main.
  if (!std::getenv("OMP_WAIT_POLICY")) {
    setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/1);
    execv("/proc/self/exe", argv);
  }
#endif
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) {
      options.seconds = std::atof(argv[i + 1]);
    } else if (std::strcmp(argv[i], "--only") == 0) {
      options.only = argv[i + 1];
    } else if (std::strcmp(argv[i], "--threads") == 0) {
      options.threads = std::atoi(argv[i + 1]);
    } else {
      std::fprintf(stderr, "bench_conv: unknown option %s; known: --seconds, --only, --threads\n", argv[i]);
      return 2;
    }
  }
  const double peak = peakOfOneCore();
  std::printf("peak of one core: %.1f GFLOP/s\n", peak);
  const std::pair<int64_t, int64_t> inputs[] = {{224, 8}, {32, 64}};
  for (const auto &[size, batch] : inputs) {
    for (int threads = options.threads ? options.threads : 1; threads <= (options.threads ? options.threads : 2); ++threads) {
      std::printf("\nResNet-50, %lld x %lld, batch %lld, %d threads\n", static_cast<long long>(size), static_cast<long long>(size),
                  static_cast<long long>(batch), threads);
      for (uint32_t kind = ASHLAR_RT_CONV_FORWARD; kind <= ASHLAR_RT_CONV_WEIGHTS; ++kind) {
        Totals totals;
        for (const Layer &layer : resnet50(size)) {
          const bool first = layer.channelsIn == 3 && kind == ASHLAR_RT_CONV_DATA; // nobody asks for it
          if (!first && (std::string(kKinds[kind]) + " " + layer.name).find(options.only) != std::string::npos) {
            measure(layer, kind, batch, threads, peak * threads, options, totals);
          }
        }
        if (totals.own == 0) {
          continue;
        }
        std::printf("sum of %s: %.2f ms, %.0f %% of peak; bf16 %.2f ms, ratio %.2f; f16 %.2f ms, ratio %.2f", kKinds[kind],
                    totals.own * 1e3, 100 * totals.flops / totals.own / (peak * threads), totals.bf16 * 1e3, totals.own / totals.bf16,
                    totals.f16 * 1e3, totals.own / totals.f16);
        if (totals.other > 0) {
          std::printf("; oneDNN %.2f ms, ratio %.2f", totals.other * 1e3, totals.other / totals.own);
        }
        std::printf("\n");
      }
    }
  }
  return 0;
}
