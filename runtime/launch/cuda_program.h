// SPDX-License-Identifier: Apache-2.0
//
// A program laid out on a GPU: kernels, matrix products and copies on the compute stream, collectives on a stream of their own.

#ifndef ASHLAR_RUNTIME_LAUNCH_CUDA_PROGRAM_H
#define ASHLAR_RUNTIME_LAUNCH_CUDA_PROGRAM_H

#include "runtime/device/cuda/graph.h"
#include "runtime/launch/cuda_context.h"
#include "runtime/launch/executor.h"
#include "runtime/launch/schedule.h"

namespace ashlar::rt {

class CudaProgram final : public Program {
public:
  CudaProgram(const ashlar_rt_program &program, CudaContext &context);

  // Plans the collectives, at the seat, and the order of the instructions, whose buffers were checked.
  Status plan();

  // Lays out the instructions once memory and connections are there. `profile`: with events around each of them.
  Status create(bool profile);

  // Puts the whole program on the streams, captures it, or replays what was captured. What follows on the compute stream comes after it.
  Status enqueue();
  Status capture();
  Status replay() { return graph.launch(context.compute); }
  bool captured() const { return graph.captured(); }
  void forgetCapture() { graph.reset(); }

  // Puts one instruction on its stream, and makes the compute stream wait for it.
  Status enqueueAlone(size_t instr);

  // Adds the times of the last run, which is over, to `seconds` and `besideSeconds`. Assumes profile.
  Status collectTimes();

private:
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

  Status createStep(const ashlar_rt_instr &instr, Step &step);
  Status createKernel(const ashlar_rt_instr &instr, Step &step);
  Status run(const Step &step) const;
  Status record(CUevent event, CUstream stream) const;
  Status await(CUstream stream, CUevent event) const;
  Status secondsBetween(CUevent from, CUevent to, double &result) const;

  CudaContext &context;
  CudaGraph graph;
  std::vector<size_t> numbers; // by instruction: of a collective, its number at the seat
  std::vector<Placement> placements;
  std::vector<Step> steps;
  std::deque<std::vector<CUdeviceptr>> addresses; // by step
  std::deque<std::vector<void *>> parameters;     // of kernels: where each address is
  CUevent start = nullptr;                        // the streams part here
  CUevent joined = nullptr;                       // the last collective is done; null: there is none
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_LAUNCH_CUDA_PROGRAM_H
