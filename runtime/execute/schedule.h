// SPDX-License-Identifier: Apache-2.0
//
// A program on two streams: collectives that talk to other devices go on one, in order, everything else on the other, in order. Which
// instruction has to wait for which one of the other stream follows from the bytes they read and write.

#ifndef ASHLAR_RUNTIME_EXECUTE_SCHEDULE_H
#define ASHLAR_RUNTIME_EXECUTE_SCHEDULE_H

#include "runtime/abi/ashlar_rt.h"

#include <cstddef>
#include <vector>

namespace ashlar::rt {

// Where an instruction stands.
struct Placement {
  bool communicates = false;
  int waitsFor = -1;    // the last instruction of the other stream that must be done before; -1: none that is not waited for already
  bool signals = false; // whether some instruction, or the end of the program, waits for this one
  bool joins = false;   // may start together with the instruction before it: both communicate, and neither waits for the other or for more
};

// Returns the placement of every instruction. The program ends when the last of both streams is done. Example: kernel writes a; all-reduce
// of a; kernel that does not touch a; kernel that reads a -> the collective waits for 0, the last kernel for 1. Two instructions that only
// read shared bytes need no order: a kernel and a collective may read one buffer at the same time.
std::vector<Placement> schedule(const ashlar_rt_program &program, const std::vector<bool> &communicates);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_SCHEDULE_H
