// SPDX-License-Identifier: Apache-2.0
//
// For each instruction, looks back along the other stream for the last one that it depends on. As each stream keeps its order, waiting for
// that one is waiting for all before it, and what was waited for once is never waited for again.

#include "runtime/execute/schedule.h"

namespace ashlar::rt {
namespace {

bool overlap(const ashlar_rt_buffer &a, const ashlar_rt_buffer &b) {
  return a.space == ASHLAR_RT_ARENA && b.space == ASHLAR_RT_ARENA && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool conflict(const ashlar_rt_instr &a, const ashlar_rt_instr &b) {
  for (uint32_t i = 0; i < a.num_buffers; ++i) {
    for (uint32_t j = 0; j < b.num_buffers; ++j) {
      if (((a.accesses[i] | b.accesses[j]) & ASHLAR_RT_WRITE) != 0 && overlap(a.buffers[i], b.buffers[j])) {
        return true;
      }
    }
  }
  return false;
}

} // namespace

std::vector<Placement> schedule(const ashlar_rt_program &program, const std::vector<bool> &communicates) {
  std::vector<Placement> placements(program.num_instrs);
  std::vector<int> members[2]; // instructions of each stream, in order
  int waited[2] = {-1, -1};    // the last instruction of the other stream that each stream has waited for
  for (int i = 0; i < static_cast<int>(program.num_instrs); ++i) {
    int stream = communicates[static_cast<size_t>(i)] ? 1 : 0;
    Placement &placement = placements[static_cast<size_t>(i)];
    placement.communicates = stream == 1;
    const std::vector<int> &others = members[1 - stream];
    for (size_t k = others.size(); k-- > 0 && others[k] > waited[stream];) {
      if (conflict(program.instrs[i], program.instrs[others[k]])) {
        placement.waitsFor = waited[stream] = others[k];
        placements[static_cast<size_t>(others[k])].signals = true;
        break;
      }
    }
    members[stream].push_back(i);
  }
  for (size_t i = 1, first = 0; i < placements.size(); ++i) { // [first, i): one group so far
    bool together = placements[i - 1].communicates && placements[i].communicates && placements[i].waitsFor < 0;
    for (size_t k = first; k < i && together; ++k) {
      together = !conflict(program.instrs[i], program.instrs[k]);
    }
    placements[i].joins = together;
    first = together ? first : i;
  }
  if (!members[1].empty()) { // the end
    placements[static_cast<size_t>(members[1].back())].signals = true;
  }
  return placements;
}

} // namespace ashlar::rt
