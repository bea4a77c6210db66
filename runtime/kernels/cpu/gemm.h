// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of a compiled program on the CPU. A Gemm is prepared once (library loaded, workspace allocated, kernel chosen) and then run
// any number of times without allocating.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_GEMM_H
#define ASHLAR_RUNTIME_KERNELS_CPU_GEMM_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <memory>

namespace ashlar::rt {

// One prepared product: out[b] = epilogue(op(A[b]) op(B[b]) + bias), see ashlar_rt_gemm_desc.  f32, dense, row major.
// Movable, not copyable. One run at a time per object: the workspace is the object's own.
class Gemm {
public:
  Gemm();
  Gemm(Gemm &&) noexcept;
  Gemm &operator=(Gemm &&) noexcept;
  ~Gemm();

  // Chooses the kernel for `desc` and allocates what run() needs. `threads` >= 1 is the number of threads run() may use.
  static Status prepare(const ashlar_rt_gemm_desc &desc, int threads, Gemm &gemm);

  // Computes the product. `bias` is ignored unless the desc has one. `out` overlaps no operand. Does not allocate.
  void run(const float *a, const float *b, const float *bias, float *out);

  // Returns the name of the chosen kernel, for the profile.
  const char *kernelName() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_GEMM_H
