// SPDX-License-Identifier: Apache-2.0
//
// A program as a list of everything that runs, for devices that get the addresses of all work in advance.

#ifndef ASHLAR_RUNTIME_EXECUTE_UNROLLED_PROGRAM_H
#define ASHLAR_RUNTIME_EXECUTE_UNROLLED_PROGRAM_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <deque>
#include <vector>

namespace ashlar::rt {

// Most instructions of an unrolled program.
constexpr size_t kMostUnrolled = size_t{1} << 20;

// The instructions of a program in the order in which they run, without repeats: in a repeat once for each iteration, with buffers at the
// place of that iteration. For example, for
//   0 repeat 2 {1 kernel of bytes 64 to 128, moved by 64}; 2 copy
// it has the kernel of 64 to 128, the kernel of 128 to 192 and the copy, of the sources 1, 1 and 2.
class UnrolledProgram {
public:
  UnrolledProgram() = default;
  UnrolledProgram(const UnrolledProgram &) = delete;
  UnrolledProgram &operator=(const UnrolledProgram &) = delete;

  // Unrolls a program, which outlives this and whose repeats were checked. Fails where it has more than `most` instructions then.
  Status unroll(const ashlar_rt_program &program, size_t most = kMostUnrolled);

  // The program without repeats. It has everything else of the first one.
  const ashlar_rt_program &get() const { return unrolled; }

  // Returns the number that an instruction has in the first program.
  uint32_t sourceOf(size_t instr) const { return sources[instr]; }

private:
  ashlar_rt_program unrolled = {};
  std::vector<ashlar_rt_instr> instrs;
  std::vector<uint32_t> sources;
  std::deque<std::vector<ashlar_rt_buffer>> moved; // of instructions with buffers that move
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_UNROLLED_PROGRAM_H
