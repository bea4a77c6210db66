// SPDX-License-Identifier: Apache-2.0
//
// A program laid out on a GPU: kernels, matrix products and copies on the compute stream, collectives on a stream of their own. A program
// on a slot is laid out once for each, and the instructions of a repeat once for each iteration, since captured work has addresses.

#ifndef ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_PROGRAM_H
#define ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_PROGRAM_H

#include "runtime/device/cuda/graph.h"
#include "runtime/execute/cuda/cuda_context.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/schedule.h"
#include "runtime/execute/slots.h"
#include "runtime/execute/unrolled_program.h"

#include <deque>

namespace ashlar::rt {

class CudaProgram final : public Program {
public:
  CudaProgram(const ashlar_rt_program &program, CudaContext &context) : Program(program), context(context) {}

  // Plans the collectives, at the seat, and the order of the instructions, whose repeats and buffers were checked.
  Status plan(const ashlar_rt_variant &variant);

  // Lays out the instructions once memory and connections are there. `profile`: with events around each of them.
  Status create(bool profile);

  // How many layouts there are: one a slot, or one where no instruction names a slot.
  size_t numInstances() const { return instances.size(); }

  // Puts the whole program, for a slot, on the streams, captures it, or replays the captured work. Later work on the compute stream comes
  // after it.
  Status enqueue(uint64_t slot);
  Status capture(uint64_t slot);
  Status replay(uint64_t slot) { return instance(slot).graph.launch(context.compute); }
  bool captured(uint64_t slot) { return instance(slot).graph.captured(); }
  void forgetCapture();

  // Puts one step on its stream, and makes the compute stream wait for it: the n-th instruction that runs.
  Status enqueueAlone(size_t number, uint64_t slot);

  // Adds the times of the last run, which is over, to `seconds` and `besideSeconds`. Assumes profile.
  Status collectTimes();

private:
  // An instruction, in one iteration of the repeats around it.
  struct Step {
    uint32_t kind = 0;
    CUfunction kernel = nullptr;
    unsigned grid = 0;
    unsigned block = 0;
    void **parameters = nullptr;
    size_t number = 0; // of the product or collective
    StridedCopy copy;
    CUstream stream = nullptr;
    CUevent waitsFor = nullptr; // before it
    CUevent signal = nullptr;   // after it
    CUevent begin = nullptr;    // only when profiling
    CUevent end = nullptr;
  };

  // The program as it is for one slot.
  struct Instance {
    explicit Instance(const DriverLibrary &cuda) : graph(cuda) {}

    std::deque<InstrInSlot> instrs; // of the unrolled program, as the next two
    std::vector<size_t> numbers;    // of a collective, its number at the seat
    std::vector<Step> steps;
    CudaGraph graph;
  };

  Instance &instance(uint64_t slot) { return instances[instances.size() == 1 ? 0 : slot]; }
  Status planInstance(const ashlar_rt_variant &variant, uint64_t slot);
  Status createInstance(Instance &instance);
  Status createEvents(bool profile);
  Status createStep(const ashlar_rt_instr &instr, Step &step);
  Status createKernel(const ashlar_rt_instr &instr, Step &step);
  Status run(const Step &step) const;
  Status record(CUevent event, CUstream stream) const;
  Status await(CUstream stream, CUevent event) const;
  Status secondsBetween(CUevent from, CUevent to, double &result) const;

  CudaContext &context;
  UnrolledProgram unrolled;
  std::deque<Instance> instances;                 // by slot, or one; they share their events
  std::vector<Placement> placements;              // by step, alike in all
  std::deque<std::vector<CUdeviceptr>> addresses; // of steps
  std::deque<std::vector<void *>> parameters;     // of kernels: where each address is
  CUevent start = nullptr;                        // the streams part here
  CUevent joined = nullptr;                       // the last collective is done; null: there is none
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_PROGRAM_H
