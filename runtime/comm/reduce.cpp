// SPDX-License-Identifier: Apache-2.0
//
// Element-wise reduction of n arrays in one fixed binary tree. The loops are compiled twice, for the base instruction set and for AVX2;
// both give the same bits because every element is computed alone.

#include "runtime/comm/reduce.h"

#include "runtime/base/dtype.h"
#include "runtime/base/half.h"

#include <algorithm>
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

// Combines two elements; those of two bytes as floats, rounded again.
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

// Bytes that one tree handles at a time: its temporaries, two a level, stay in the first-level cache.
constexpr size_t kBlockBytes = 4096;

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
};

Status Reducer::create(uint32_t dtype, uint32_t reduction, Reducer &reducer) {
  bool known = false;
  bool isType = withDtype(dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, bool>) {
      known = ReducerKernels::setType<uint8_t>(reduction == ASHLAR_RT_SUM ? static_cast<uint32_t>(ASHLAR_RT_MAX) : reduction, reducer);
    } else if constexpr (std::is_integral_v<T>) {
      // Sums wrap around, so they are done without a sign.
      known = reduction == ASHLAR_RT_SUM ? ReducerKernels::setType<std::make_unsigned_t<T>>(reduction, reducer)
                                         : ReducerKernels::setType<T>(reduction, reducer);
    } else {
      known = ReducerKernels::setType<T>(reduction, reducer);
    }
  });
  if (!isType) {
    return internal("cannot reduce elements of unknown type {}", dtype);
  }
  return known ? Status() : internal("unknown reduction {}", reduction);
}

void Reducer::run(const char *const *inputs, size_t numInputs, size_t inputOffset, char *const *outputs, size_t numOutputs,
                  size_t outputOffset, size_t bytes) const {
  for (size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    size_t length = std::min(kBlockBytes, bytes - begin);
    char *out = outputs[0] + outputOffset + begin;
    tree(inputs, numInputs, inputOffset + begin, out, length);
    for (size_t i = 1; i < numOutputs; ++i) {
      copy(out, outputs[i] + outputOffset + begin, length);
    }
  }
}

void Reducer::tree(const char *const *in, size_t numInputs, size_t offset, char *out, size_t bytes) const {
  size_t count = bytes / elementBytes;
  switch (numInputs) {
  case 1:
    std::memmove(out, in[0] + offset, bytes);
    return;
  case 2:
    pair(in[0] + offset, in[1] + offset, out, count);
    return;
  case 4:
    quad(in[0] + offset, in[1] + offset, in[2] + offset, in[3] + offset, out, count);
    return;
  default:
    // Both halves go to temporaries: `out` may be one of the inputs of either.
    alignas(64) char left[kBlockBytes];
    alignas(64) char right[kBlockBytes];
    size_t half = (numInputs + 1) / 2;
    tree(in, half, offset, left, bytes);
    tree(in + half, numInputs - half, offset, right, bytes);
    pair(left, right, out, count);
  }
}

} // namespace ashlar::rt
