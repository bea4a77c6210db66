// SPDX-License-Identifier: Apache-2.0
//
// Weights in the order in which library calls read them. All programs of an executor share them: a program for many rows and one for a
// single row, as in the generation of text, read one copy.

#ifndef ASHLAR_RUNTIME_EXECUTE_CPU_ORDERED_WEIGHTS_H
#define ASHLAR_RUNTIME_EXECUTE_CPU_ORDERED_WEIGHTS_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/kernels/cpu/gemm.h"

#include <functional>
#include <map>

namespace ashlar::rt {

// Weights of one device that are ordered once, in pieces, for all calls that read them in one order: fixed ones, or ones that a repeat
// keeps, each time that it begins.
struct OrderedWeights {
  const ashlar_rt_instr *instr;  // the first call that reads them
  const ashlar_rt_instr *keeper; // the repeat; null: they are fixed
  void *ordered = nullptr;
  int pieces = 0;
  std::function<void(int piece, int64_t shift)> order; // where they are moved by `shift` bytes
  uint64_t change = 0;                                 // of the variables, at which fixed ones were ordered last; 0: they never were

  // Orders them where they are moved by `shift` bytes.
  void run(ThreadPool &pool, int64_t shift) const;
};

// The ordered weights of all programs of an executor: first all of them are added, then they get memory, one behind the other, so that
// large pages hold many. Not movable: programs refer to them.
class OrderStore {
public:
  // Adds the weights at `place` in the order of `instr`, a product or a convolution, unless a call before has them.
  void add(const void *place, const ashlar_rt_instr &instr, const ashlar_rt_instr *keeper);

  // Reserves the memory of all of them.
  Status reserve();

  // Returns weights that were added; null: they were not.
  OrderedWeights *find(const void *place, const ashlar_rt_instr &instr, const ashlar_rt_instr *keeper);

  // Returns the bytes of all of them.
  uint64_t bytes() const { return memory.bytes(); }

private:
  std::multimap<const void *, OrderedWeights> all; // by where the weights are, in the first iterations
  GemmWorkspace memory;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CPU_ORDERED_WEIGHTS_H
