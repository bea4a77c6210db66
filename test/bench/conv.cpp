// SPDX-License-Identifier: Apache-2.0
//
// All distinct convolutions of ResNet-50 (batch 8 at 224 x 224, batch 64 at 32 x 32), with both gradients, on one and on two threads: time,
// GFLOP/s and share of the peak that a loop of fused multiply-adds reaches in the same run; beside oneDNN where its headers are installed.
// FLOPs are 2 * elements of y * channels in * places, padding included. The best of a few calls, in turns with oneDNN, each after one that
// is not timed: on one thread its CPU time, on two the time that passes. Ours orders the weights in every call. oneDNN computes on channels
// last, with the weights in the order that it asks for; the reorders that a training step needs for that are counted.
//
//   bench_conv [--seconds S] [--only TEXT] [--threads N]     S: for each side of each line, default 0.3; TEXT: lines that contain it

#include "runtime/kernels/cpu/conv/conv.h"
#include "runtime/device/cpu/thread_pool.h"
#include "test/bench/peak.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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
  return {kind, 0, 0, 0, ASHLAR_RT_EPILOGUE_NONE, 0, 0, 2, batch, 1, layer.channelsIn, layer.channelsOut, {{1, 1, 1, 1, 1, 0}, dim, dim}};
}

struct Totals {
  double own = 0, other = 0, flops = 0;
};

struct Options {
  double seconds = 0.3;
  std::string only;
  int threads = 0; // 0: 1 and 2
};

constexpr const char *kKinds[] = {"", "forward", "data", "weights"};

void measure(const Layer &layer, uint32_t kind, int64_t batch, int threads, double peak, const Options &options, Totals &totals) {
  const ashlar_rt_conv_desc desc = descOf(layer, kind, batch);
  const ashlar_rt_conv_dim &dim = desc.dims[1];
  const auto floats = [](int64_t count) { return std::vector<float>(count, 0.25f); };
  const auto x = floats(batch * dim.in * dim.in * layer.channelsIn), y = floats(batch * dim.out * dim.out * layer.channelsOut),
             w = floats(layer.channelsIn * layer.channelsOut * layer.kernel * layer.kernel);
  const std::vector<float> &a = kind == ASHLAR_RT_CONV_DATA ? y : x, &b = kind == ASHLAR_RT_CONV_WEIGHTS ? y : w;
  std::vector<float> out = kind == ASHLAR_RT_CONV_FORWARD ? y : kind == ASHLAR_RT_CONV_DATA ? x : w;
  Conv conv;
  const Status status = Conv::prepare(desc, threads, conv);
  if (!status.ok()) {
    std::printf("%s\n", status.message().c_str());
    return;
  }
  ThreadPool pool(conv.parts());
  const auto part = [&](int64_t index) {
    conv.runPart(static_cast<int>(index), a.data(), b.data(), nullptr, nullptr, nullptr, out.data());
  };
  const auto range = [](void *context, int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      (*static_cast<decltype(part) *>(context))(index);
    }
  };
  std::vector<std::function<void()>> sides = {
      [&] { pool.parallelFor(conv.parts(), 1, range, const_cast<void *>(static_cast<const void *>(&part))); }};
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
  totals.flops += flops * layer.count;
  std::printf("%-20s %-8s %3lldx%-3lld %4lld -> %4lld k%lld s%lld x%d  %8.3f ms %6.1f GFLOP/s %3.0f %%", layer.name.c_str(), kKinds[kind],
              static_cast<long long>(dim.in), static_cast<long long>(dim.in), static_cast<long long>(layer.channelsIn),
              static_cast<long long>(layer.channelsOut), static_cast<long long>(layer.kernel), static_cast<long long>(layer.stride),
              layer.count, best[0] * 1e3, flops / best[0], 100 * flops / best[0] / peak);
  if (best.size() > 1) {
    totals.other += best[1] * layer.count;
    std::printf("  oneDNN %8.3f ms %6.1f  ratio %.2f", best[1] * 1e3, flops / best[1], best[1] / best[0]);
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
        std::printf("sum of %s: %.2f ms, %.0f %% of peak", kKinds[kind], totals.own * 1e3,
                    100 * totals.flops / totals.own / (peak * threads));
        if (totals.other > 0) {
          std::printf("; oneDNN %.2f ms, ratio %.2f", totals.other * 1e3, totals.other / totals.own);
        }
        std::printf("\n");
      }
    }
  }
  return 0;
}
