// SPDX-License-Identifier: Apache-2.0
//
// The CPU features that a program may need and that are checked at start: the vector and bit instructions that the code generator chooses
// by itself. Compiler and runtime share the list.

#ifndef ASHLAR_RUNTIME_ABI_CPU_FEATURES_H
#define ASHLAR_RUNTIME_ABI_CPU_FEATURES_H

// Calls X(name) for each; LLVM's code generator and __builtin_cpu_supports() share the name. Empty where there is no such builtin: nothing
// is checked there.
#if defined(__x86_64__)
#define ASHLAR_CPU_FEATURES(X)                                                                                                             \
  X("sse4.1")                                                                                                                              \
  X("sse4.2")                                                                                                                              \
  X("popcnt")                                                                                                                              \
  X("avx")                                                                                                                                 \
  X("avx2")                                                                                                                                \
  X("fma")                                                                                                                                 \
  X("bmi")                                                                                                                                 \
  X("bmi2")                                                                                                                                \
  X("avx512f")                                                                                                                             \
  X("avx512bw")                                                                                                                            \
  X("avx512cd")                                                                                                                            \
  X("avx512dq")                                                                                                                            \
  X("avx512vl")                                                                                                                            \
  X("avx512ifma")                                                                                                                          \
  X("avx512vbmi")                                                                                                                          \
  X("avx512vbmi2")                                                                                                                         \
  X("avx512vnni")                                                                                                                          \
  X("avx512bitalg")                                                                                                                        \
  X("avx512vpopcntdq")                                                                                                                     \
  X("gfni")                                                                                                                                \
  X("vpclmulqdq")
#else
#define ASHLAR_CPU_FEATURES(X)
#endif

#endif // ASHLAR_RUNTIME_ABI_CPU_FEATURES_H
