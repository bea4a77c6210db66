// SPDX-License-Identifier: Apache-2.0
//
// For benchmarks of calls that are bound by memory: a loop that only reads, and times of calls whose operands are in no cache.

#ifndef ASHLAR_TEST_BENCH_READ_LOOP_H
#define ASHLAR_TEST_BENCH_READ_LOOP_H

#include "runtime/device/cpu/thread_pool.h"
#include "runtime/kernels/cpu/gemm.h"
#include "test/bench/peak.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace ashlar::rt {

// Far more than any cache has.
constexpr size_t kReadBytes = size_t{512} << 20;

// Adds up pieces of 64 KiB, with vectors that a processor of any kind has: it is memory that counts.
inline double sumOf(const float *from, int64_t begin, int64_t end) {
  using Four = float __attribute__((vector_size(16)));
  Four sums[8] = {};
  for (int64_t at = begin << 14; at < end << 14; at += 64) {
    for (int i = 0; i < 16; ++i) {
      Four value;
      std::memcpy(&value, from + at + 4 * i, sizeof(value));
      sums[i % 8] += value;
    }
  }
  for (int i = 1; i < 8; ++i) {
    sums[0] += sums[i];
  }
  return sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
}

// A loop that reads kReadBytes in pieces, one after the other.
class Reader {
public:
  Reader(const GemmWorkspace &memory, size_t bytes, ThreadPool &pool)
      : memory(memory), units(std::max<int64_t>(bytes >> 16, 1)), count(static_cast<int64_t>(memory.bytes() >> 16) / units), pool(pool) {}

  void run() {
    first = next++ % count * units;
    pool.parallelFor(
        units, 1,
        [](void *context, int64_t begin, int64_t end) {
          const auto *reader = static_cast<const Reader *>(context);
          volatile double sum = sumOf(reader->memory.data(), reader->first + begin, reader->first + end);
          (void)sum;
        },
        this);
  }

  double bytes() const { return static_cast<double>(units << 16); }

private:
  const GemmWorkspace &memory;
  int64_t units, count, next = 0, first = 0;
  ThreadPool &pool;
};

// Returns the time that a tenth of the calls of each of `works` are below, taken in turns, ten at a time, for `seconds` each: on a busy
// machine few calls run undisturbed.
inline std::vector<double> goodTimes(const std::vector<std::function<void()>> &works, double seconds) {
  std::vector<std::vector<double>> times(works.size());
  for (const double begin = now(); now() - begin < seconds * static_cast<double>(works.size());) {
    for (size_t i = 0; i < works.size(); ++i) {
      works[i]();
      for (int call = 0; call < 10; ++call) {
        const double start = now();
        works[i]();
        times[i].push_back(now() - start);
      }
    }
  }
  std::vector<double> good;
  for (std::vector<double> &all : times) {
    std::nth_element(all.begin(), all.begin() + all.size() / 10, all.end());
    good.push_back(all[all.size() / 10]);
  }
  return good;
}

} // namespace ashlar::rt

#endif // ASHLAR_TEST_BENCH_READ_LOOP_H
