// SPDX-License-Identifier: Apache-2.0
//
// Cutting the work of a library call between threads, and picking the kernel for the processor.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_PARTS_H
#define ASHLAR_RUNTIME_KERNELS_CPU_PARTS_H

#include <algorithm>
#include <cstdint>

namespace ashlar::rt {

inline int64_t ceilDiv(int64_t numerator, int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

struct Range {
  int64_t begin, end;
};

// Returns piece `index` of `count` pieces of [0, total), cut at multiples of `unit`, sizes as equal as that allows.
inline Range cut(int64_t total, int64_t unit, int64_t index, int64_t count) {
  int64_t units = ceilDiv(total, unit);
  return {units * index / count * unit, std::min(total, units * (index + 1) / count * unit)};
}

// Returns the fastest of three kernels, made by the functions, that this processor can run.
template <typename Kernel>
const Kernel &chooseKernel(const Kernel &(*generic)(), const Kernel &(*avx2)() = nullptr, const Kernel &(*avx512)() = nullptr) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return avx512();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    return avx2();
  }
#endif
  return generic();
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_PARTS_H
