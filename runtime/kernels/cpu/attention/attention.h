// SPDX-License-Identifier: Apache-2.0
//
// Attention of a compiled program on the CPU, and its gradients. As a Gemm, an Attention is prepared once (kernel chosen for this
// processor, work cut into parts, workspace reserved) and then run any number of times without allocating; it owns no thread.

#ifndef ASHLAR_RUNTIME_KERNELS_CPU_ATTENTION_H
#define ASHLAR_RUNTIME_KERNELS_CPU_ATTENTION_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"
#include "runtime/kernels/cpu/gemm.h"

#include <memory>

namespace ashlar::rt {

struct AttentionKernel;

// One prepared attention, or the gradients of one, see ashlar_rt_attention_desc. Scores are computed in blocks that stay in the cache, with
// a running maximum and sum; the gradients compute them again. Blocks that causal rows do not see are left out.
// Results have the same bits for every number of threads, whatever the other batch entries, heads and (forward) rows are.
// Error, to first order, u = 2^-24: a score is off by e = (width + 4) u |scale| sum |q| |k| + 5e-7 softcap + 3 u |score|, a weight p by
// twice the largest e of its row and (2 keys + 40) u, relative, backward by 4 u min(|lse|, 256) more; a weight below 2^-125 of the row's
// largest one counts as 0. Sums of n terms add (n + 4) u of the sum of their sizes. bf16 results are rounded once.
//
// Movable, not copyable. One run at a time for each workspace.
class Attention {
public:
  Attention();
  Attention(Attention &&) noexcept;
  Attention &operator=(Attention &&) noexcept;
  ~Attention();

  // Chooses the kernel for `desc`, cuts the work into at most `threads` (>= 1) parts and reserves their memory: in `workspace`, which must
  // outlive the attention, or in memory of its own when that is null.
  static Status prepare(const ashlar_rt_attention_desc &desc, int threads, Attention &attention, GemmWorkspace *workspace = nullptr);

  // The same with a given kernel, for tests.
  static Status prepare(const ashlar_rt_attention_desc &desc, int threads, const AttentionKernel &kernel, Attention &attention,
                        GemmWorkspace *workspace = nullptr);

  // Returns the number of parts, 1 <= parts() <= threads. They write disjoint pieces of the results, about equal in work.
  int parts() const;

  // Computes part `part`. Different parts may run at the same time. `buffers` are in the order of the descriptor. Does not allocate.
  void runPart(int part, void *const *buffers);

  // Computes all parts on the calling thread.
  void run(void *const *buffers);

  // Returns the name of the chosen kernel, for the profile: "avx512 12x32", "avx2 6x16" or "generic 6x8".
  const char *kernelName() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CPU_ATTENTION_H
