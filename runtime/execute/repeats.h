// SPDX-License-Identifier: Apache-2.0
//
// Repeats of instructions: the order in which a program runs, and where buffers are that move.

#ifndef ASHLAR_RUNTIME_EXECUTE_REPEATS_H
#define ASHLAR_RUNTIME_EXECUTE_REPEATS_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

#include <functional>
#include <vector>

namespace ashlar::rt {

// Goes through the instructions of a program as they run: in a repeat as often as it runs them. For example, for
//   0 kernel; 1 repeat 2 {2 gemm; 3 repeat 2 {4 copy}}; 5 kernel
// it is at 0, 1, 2, 3, 4, 4, 2, 3, 4, 4, 5: at a repeat when its iterations begin. The program outlives it, and its repeats were checked.
class InstrCursor {
public:
  explicit InstrCursor(const ashlar_rt_program &program) : program(program) {}

  // Goes to the next instruction. Returns false at the end.
  bool next();

  // At a repeat: its condition does not hold, so the next instruction is the one behind its end.
  void skip() { skips = true; }

  // The number of the instruction.
  uint32_t instr() const { return at; }

  // Returns the bytes by which a buffer of the instruction is moved in these iterations; at a repeat, one of the instructions in it.
  int64_t shiftOf(const ashlar_rt_buffer &buffer) const;

private:
  struct Repeat {
    uint32_t begin, end; // instructions
    uint64_t count, iteration;
  };

  const ashlar_rt_program &program;
  uint32_t at = 0;
  bool hasBegun = false, skips = false;
  std::vector<Repeat> around; // outermost first
};

// Calls `visit` with each instruction, and the counts of the repeats around it, outermost first. Fails where a repeat ends behind the one
// around it, or where a visit does.
Status visitInstrs(const ashlar_rt_program &program,
                   const std::function<Status(const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts)> &visit);

// Returns how often each instruction runs in a run of the program.
std::vector<uint64_t> timesOf(const ashlar_rt_program &program);

// The bytes from the lowest place of a buffer to the end of its highest one, in repeats of these counts: [low, high), from the begin of its
// space. `low` is negative, or `high` less than `low`, only of a wrong image.
struct SweptBytes {
  int64_t low, high;
};
SweptBytes sweep(const ashlar_rt_buffer &buffer, const std::vector<uint64_t> &counts);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_REPEATS_H
