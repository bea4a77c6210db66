// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of a compiled program on the CPU. As a Gemm, a Conv is prepared once (kernel chosen for this processor, work cut into parts,
// tables of places made, workspace reserved) and then run any number of times without allocating; it owns no thread.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_H
#define ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"
#include "runtime/kernels/cpu/gemm.h"

#include <memory>

namespace ashlar::rt {

struct ConvKernel;

// One prepared convolution, its data gradient or its weight gradient, see ashlar_rt_conv_desc. f32, or bf16 or f16 summed in f32, channels
// last.
// Every element of the result is one chain of fused multiply-adds: of y over (kernel place, channel in), of x over (kernel place, channel
// out), of w over (batch, position), each in row-major order. So it has the same bits for every number of threads, and a pixel has them
// whatever the other samples of the batch are. Where bf16 is multiplied in pairs, the second one of two neighbours along the chain
// (channels, in a weight gradient positions) comes first. Padding, and places that strides leave out, are not part of the chain; only where
// few channels are folded with the kernel's columns, and in depthwise weight gradients, padding counts as zeros that are multiplied.
// Movable, not copyable. One run at a time for each workspace.
class Conv {
public:
  Conv();
  Conv(Conv &&) noexcept;
  Conv &operator=(Conv &&) noexcept;
  ~Conv();

  // Chooses the kernel for `desc`, cuts the work into at most `threads` (>= 1) parts and reserves their memory: in `workspace`, which must
  // outlive the convolution, or in memory of its own when that is null.
  static Status prepare(const ashlar_rt_conv_desc &desc, int threads, Conv &conv, GemmWorkspace *workspace = nullptr);

  // The same with a given kernel, for tests.
  static Status prepare(const ashlar_rt_conv_desc &desc, int threads, const ConvKernel &kernel, Conv &conv,
                        GemmWorkspace *workspace = nullptr);

  // Returns the number of parts, 1 <= parts() <= threads. They write disjoint pieces of the result, about equal in work.
  int parts() const;

  // Returns the number of pieces in which fixed weights are ordered.
  int orderedPieces() const;

  // Orders piece `piece` of fixed weights. Different pieces may be ordered at the same time. `ordered` has orderedWeightBytes(), aligned to
  // ASHLAR_RT_ALIGNMENT.
  void order(int piece, const void *weights, void *ordered) const;

  // Computes part `part`. Different parts may run at the same time. `a`, `b` and `out` are the first two buffers and the result in the
  // order of the descriptor, `b` the output of order() where weights are fixed; `scale`, `bias` and `residual` are ignored unless it has
  // them. `out` overlaps no operand. Does not allocate.
  void runPart(int part, const void *a, const void *b, const void *scale, const void *bias, const void *residual, void *out);

  // Computes all parts on the calling thread.
  void run(const void *a, const void *b, const void *scale, const void *bias, const void *residual, void *out);

  // Returns the name of the chosen kernel, for the profile: "avx512 12x32", "avx2 6x16", "generic 6x8"; of bf16 and f16 these with
  // "widened", or "avx512 bf16 12x32".
  const char *kernelName() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_CONV_CONV_H
