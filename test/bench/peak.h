// SPDX-License-Identifier: Apache-2.0
//
// The common part of the benchmarks of library calls: the peak of a core, and best times.

#ifndef ASHLAR_TEST_BENCH_PEAK_H
#define ASHLAR_TEST_BENCH_PEAK_H

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include <time.h>

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the time that this thread has run: other programs count only by the cache and bandwidth that they take.
inline double threadTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

#if defined(__x86_64__)
// Ten independent chains of fused multiply-adds, enough for two units of latency 4 or 5, on registers "ymm" or "zmm".
#define CHAIN(registers, number) "vfmadd231ps %%" registers "0,%%" registers "0,%%" registers #number "\n"
#define CHAINS(registers)                                                                                                                  \
  asm volatile(CHAIN(registers, 1) CHAIN(registers, 2) CHAIN(registers, 3) CHAIN(registers, 4) CHAIN(registers, 5) CHAIN(registers, 6)     \
                   CHAIN(registers, 7) CHAIN(registers, 8) CHAIN(registers, 9) CHAIN(registers, 10)::                                      \
                       : "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10")

__attribute__((target("avx2,fma"))) inline void chainsAvx2(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    CHAINS("ymm");
  }
}

__attribute__((target("avx512f"))) inline void chainsAvx512(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    CHAINS("zmm");
  }
}
#undef CHAINS
#undef CHAIN
#endif

// Returns the peak of one core in GFLOP/s; 0 where it is not known how to measure it.
inline double peakOfOneCore() {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma")) {
    return 0;
  }
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const int64_t count = 1000000;
    const double start = threadTime();
    wide ? chainsAvx512(count) : chainsAvx2(count);
    best = std::max(best, static_cast<double>(count) * 10 * 2 * (wide ? 16 : 8) / (threadTime() - start) * 1e-9);
  }
  return best;
#else
  return 0;
#endif
}

// Returns the best time of each of `works` in seconds by `clock`, taken in turns for `seconds` each and at least three times. Each call is
// timed by itself: on a busy machine a few run undisturbed. One call before it wakes threads and is not timed.
inline std::vector<double> bestTimes(const std::vector<std::function<void()>> &works, double seconds, double (*clock)() = now) {
  std::vector<double> best(works.size(), 1e9);
  const double begin = clock();
  for (int round = 0; round < 3 || clock() - begin < seconds * static_cast<double>(works.size()); ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      works[i]();
      const double start = clock();
      works[i]();
      best[i] = std::min(best[i], clock() - start);
    }
  }
  return best;
}

#endif // ASHLAR_TEST_BENCH_PEAK_H
