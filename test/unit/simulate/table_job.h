// SPDX-License-Identifier: Apache-2.0
//
// Hand-made tables of a job, for simulations: instructions are times and collectives, without code or buffers.

#ifndef ASHLAR_TEST_UNIT_SIMULATE_TABLE_JOB_H
#define ASHLAR_TEST_UNIT_SIMULATE_TABLE_JOB_H

#include "runtime/simulate/simulator.h"

#include <deque>
#include <string>
#include <vector>

namespace ashlar::test {

// An instruction as the tables have it.
struct TableInstr {
  uint32_t kind;
  uint64_t ps = 0; // of computation
  uint32_t owner = 0;
  std::vector<uint32_t> axes = {}; // of an all-reduce
  uint64_t messages = 0, bytes = 0;
  uint32_t token = 0;
  uint64_t count = 0; // of a repeat of the next `instrs`
  uint32_t instrs = 0;
};

TableInstr computeFor(uint64_t ps, uint32_t owner = 0);
TableInstr allReduce(std::vector<uint32_t> axes, uint64_t bytes, uint32_t token = 0);
TableInstr waitFor(uint32_t token);
TableInstr repeatOf(uint64_t count, uint32_t instrs);

// A link of one rate: a byte takes so many picoseconds, a message none.
ashlar_rt_link linkOf(uint64_t psPerByte, bool movesBeside);

// A job of stages on one mesh each. Programs are numbered as they are added.
class TableJob {
public:
  TableJob(uint32_t stages, const std::vector<uint32_t> &axisSizes);

  uint32_t addProgram(uint32_t stage, const std::string &name, const std::vector<TableInstr> &instrs, uint64_t otherPs = 0);
  void addMessage(uint32_t from, uint32_t fromProgram, uint32_t to, uint32_t toProgram, uint64_t bytes);
  void addRun(uint32_t stage, uint32_t program, uint32_t microBatch, bool takesBatch = false);
  void setSlots(uint32_t stage, uint32_t slots) { stages[stage].slots = slots; }

  // Gives all axes and messages the same links.
  void setLinks(const ashlar_rt_link &link, uint64_t ranksPerHost = UINT64_MAX, uint64_t adapters = 1);

  uint32_t ranks() const;

  // Simulates; a failure is one of the test.
  rt::Simulation simulate(const rt::SimulationOptions &options = {});
  rt::Status trySimulate(const rt::SimulationOptions &options, rt::Simulation &result);

  rt::SimulatedMachine machine;
  uint64_t microBatches = 1;

private:
  struct Program {
    std::string name;
    std::vector<ashlar_rt_instr> instrs;
    std::vector<ashlar_rt_transfer> receives, sends;
    uint64_t otherPs;
  };
  struct Stage {
    std::deque<Program> programs;
    std::vector<ashlar_rt_tensor> tensors;
    std::vector<ashlar_rt_run> runs;
    std::vector<ashlar_rt_program> tables;
    uint32_t slots = 1;
  };

  std::vector<ashlar_rt_axis> axes;
  std::deque<Stage> stages;
  std::vector<ashlar_rt_variant> variants;
  std::deque<ashlar_rt_collective_desc> collectives;
  std::deque<ashlar_rt_wait_desc> waits;
  std::deque<ashlar_rt_repeat_desc> repeats;
  std::deque<std::vector<uint32_t>> axisLists;
  uint32_t channels = 0;
};

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_SIMULATE_TABLE_JOB_H
