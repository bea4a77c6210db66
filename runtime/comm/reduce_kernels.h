// SPDX-License-Identifier: Apache-2.0
//
// The loops of reduce.cpp by type and reduction. They are compiled twice, for the base instruction set and for AVX2; both give the same
// bits because every element is computed alone.

#ifndef ASHLAR_RUNTIME_COMM_REDUCE_KERNELS_H
#define ASHLAR_RUNTIME_COMM_REDUCE_KERNELS_H

#include "runtime/comm/reduce.h"

#include "runtime/base/half.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ashlar::rt {
namespace {

struct Sum {
  template <typename T> static T apply(T a, T b) { return static_cast<T>(a + b); }
};
struct Max {
  template <typename T> static T apply(T a, T b) { return (a > b || a != a) ? a : b; }
};
struct Min {
  template <typename T> static T apply(T a, T b) { return (a < b || a != a) ? a : b; }
};

// Combines two elements; elements of two bytes as floats, rounded again.
template <typename Op, typename T> [[gnu::always_inline]] inline T combine(T a, T b) {
  if constexpr (std::is_arithmetic_v<T>) {
    return Op::apply(a, b);
  } else {
    return T(Op::apply(static_cast<float>(a), static_cast<float>(b)));
  }
}

// The output may be one of the inputs, element by element: without this the compiler would leave that case to a scalar loop.
#if defined(__clang__)
#define ASHLAR_RT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" // a sanitizer's checks keep loops scalar
#else
#define ASHLAR_RT_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <typename T, typename Op> [[gnu::always_inline]] inline void pairLoop(const char *a, const char *b, char *out, size_t count) {
  auto *x = reinterpret_cast<const T *>(a);
  auto *y = reinterpret_cast<const T *>(b);
  auto *z = reinterpret_cast<T *>(out);
  ASHLAR_RT_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    z[i] = combine<Op>(x[i], y[i]);
  }
}

template <typename T, typename Op>
[[gnu::always_inline]] inline void quadLoop(const char *a, const char *b, const char *c, const char *d, char *out, size_t count) {
  auto *x = reinterpret_cast<const T *>(a);
  auto *y = reinterpret_cast<const T *>(b);
  auto *u = reinterpret_cast<const T *>(c);
  auto *v = reinterpret_cast<const T *>(d);
  auto *z = reinterpret_cast<T *>(out);
  ASHLAR_RT_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    z[i] = combine<Op>(combine<Op>(x[i], y[i]), combine<Op>(u[i], v[i]));
  }
}

// Not memcpy: a block is short, and the microcoded copy that some C libraries choose for its size is half as fast.
[[gnu::always_inline]] inline void copyLoop(const char *from, char *to, size_t bytes) {
  struct Line {
    char bytes[64];
  };
  size_t i = 0;
  for (; i + sizeof(Line) <= bytes; i += sizeof(Line)) {
    Line line;
    std::memcpy(&line, from + i, sizeof(Line));
    std::memcpy(to + i, &line, sizeof(Line));
    asm volatile("" : : : "memory"); // or the compiler finds that this is memcpy
  }
  std::memcpy(to + i, from + i, bytes - i);
}

#if defined(__x86_64__)
#define ASHLAR_RT_AVX2 __attribute__((target("avx2")))
#else
#define ASHLAR_RT_AVX2
#endif

template <typename T, typename Op> void pairBase(const char *a, const char *b, char *out, size_t count) {
  pairLoop<T, Op>(a, b, out, count);
}
template <typename T, typename Op> ASHLAR_RT_AVX2 void pairAvx2(const char *a, const char *b, char *out, size_t count) {
  pairLoop<T, Op>(a, b, out, count);
}
template <typename T, typename Op> void quadBase(const char *a, const char *b, const char *c, const char *d, char *out, size_t count) {
  quadLoop<T, Op>(a, b, c, d, out, count);
}
template <typename T, typename Op>
ASHLAR_RT_AVX2 void quadAvx2(const char *a, const char *b, const char *c, const char *d, char *out, size_t count) {
  quadLoop<T, Op>(a, b, c, d, out, count);
}

void copyBase(const char *from, char *to, size_t bytes) {
  copyLoop(from, to, bytes);
}
ASHLAR_RT_AVX2 void copyAvx2(const char *from, char *to, size_t bytes) {
  copyLoop(from, to, bytes);
}

bool hasAvx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

} // namespace

// Fills in the kernels of a reducer.
struct ReducerKernels {
  template <typename T, typename Op> static void set(Reducer &reducer) {
    bool wide = hasAvx2();
    reducer.pair = wide ? pairAvx2<T, Op> : pairBase<T, Op>;
    reducer.quad = wide ? quadAvx2<T, Op> : quadBase<T, Op>;
    reducer.copy = wide ? copyAvx2 : copyBase;
    reducer.elementBytes = sizeof(T);
  }

  template <typename T> static bool setType(uint32_t reduction, Reducer &reducer) {
    switch (reduction) {
    case ASHLAR_RT_SUM:
      set<T, Sum>(reducer);
      return true;
    case ASHLAR_RT_MAX:
      set<T, Max>(reducer);
      return true;
    case ASHLAR_RT_MIN:
      set<T, Min>(reducer);
      return true;
    default:
      return false;
    }
  }

  // Sums of integers wrap around, so they are done without a sign.
  template <typename T> static bool setElement(uint32_t reduction, Reducer &reducer) {
    if constexpr (std::is_integral_v<T>) {
      return reduction == ASHLAR_RT_SUM ? setType<std::make_unsigned_t<T>>(reduction, reducer) : setType<T>(reduction, reducer);
    } else {
      return setType<T>(reduction, reducer);
    }
  }
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_COMM_REDUCE_KERNELS_H
