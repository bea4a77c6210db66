// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of a compiled program on the CPU. A Gemm is prepared once (kernel chosen for this processor, work cut into parts,
// workspace allocated) and then run any number of times without allocating. It owns no thread: the caller hands each part to a thread of
// its pool.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_GEMM_H
#define ASHLAR_RUNTIME_KERNELS_CPU_GEMM_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace ashlar::rt {

// Memory that products run in, one after the other: about 600 KiB a part. Products that share one reuse the same cache lines.
class GemmWorkspace {
public:
  // Grows to at least `bytes`, aligned to ASHLAR_RT_ALIGNMENT. Invalidates earlier results of data().
  Status reserve(size_t bytes);

  // Returns the memory; null before the first reserve().
  float *data() const { return memory.get(); }

  // Returns how much there is.
  size_t bytes() const { return size; }

private:
  struct Free {
    void operator()(float *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<float, Free> memory;
  size_t size = 0;
};

// One prepared product: out[b] = epilogue(op(A[b]) op(B[b]) + bias), see ashlar_rt_gemm_desc. f32, bf16 or f16 summed in f32, or integers
// of 8 bits to i32; dense, row major. Every element of `out` is one chain of fused multiply-adds over k (docs/matrix_products.md: of bf16
// on some processors two), cut where that follows from k alone, so it has the same bits for every number of threads and whatever the other
// rows and columns of the product are. Movable, not copyable. One run at a time for each workspace.
class Gemm {
public:
  Gemm();
  Gemm(Gemm &&) noexcept;
  Gemm &operator=(Gemm &&) noexcept;
  ~Gemm();

  // Chooses the kernel for `desc`, cuts the work into at most `threads` (>= 1) parts and reserves their memory: in `workspace`, which must
  // outlive the product, or in memory of its own when that is null.
  static Status prepare(const ashlar_rt_gemm_desc &desc, int threads, Gemm &gemm, GemmWorkspace *workspace = nullptr);

  // Returns the number of parts, 1 <= parts() <= threads. They write disjoint pieces of `out`, about equal in work.
  int parts() const;

  // Returns the number of pieces in which fixed weights are ordered.
  int orderedPieces() const;

  // Orders piece `piece` of fixed weights, `b` of the descriptor. Different pieces may be ordered at the same time. `ordered` has
  // orderedWeightBytes(), aligned to ASHLAR_RT_ALIGNMENT.
  void order(int piece, const void *weights, void *ordered) const;

  // Computes part `part` of the product. Different parts may run at the same time. `b` is the output of order() where weights are fixed;
  // `bias` is ignored unless the desc has one; `out` overlaps no operand. Does not allocate.
  void runPart(int part, const void *a, const void *b, const void *bias, void *out);

  // Computes all parts on the calling thread.
  void run(const void *a, const void *b, const void *bias, void *out);

  // Returns the name of the chosen kernel, for the profile: "avx512 12x32", "avx2 6x16", "generic 6x8"; of bf16
  // and f16 these with "widened", "avx512 bf16 12x32" or "amx bf16 32x32"; of bytes "amx 32x32", "avx512 vnni 12x32", "avx2 4x16" or
  // "generic 4x8".
  const char *kernelName() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_GEMM_H
