// SPDX-License-Identifier: Apache-2.0
//
// The times of programs on a GPU, for --trace: an event before each and one after it, on the compute stream. The host runs ahead, so it
// cannot use its clock; times are read when all is done.

#ifndef ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_TRACE_H
#define ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_TRACE_H

#include "runtime/base/recorder.h"
#include "runtime/execute/cuda/cuda_context.h"

#include <vector>

namespace ashlar::rt {

// Most runs of programs with times; later ones are counted as lost.
constexpr size_t kMostCudaSpans = size_t{1} << 14;

// One trace. The context outlives it.
class CudaTrace {
public:
  explicit CudaTrace(CudaContext &context) : context(context) {}

  // Makes events for so many runs of programs.
  Status reserve(size_t runs);

  // Waits for the device and looks at both clocks: the moment that all times are counted from.
  Status open();

  // Called before and after a run, while the recorder records.
  Status begin(const Recorder &recorder, uint16_t program);
  Status end();

  // Waits for the device and adds the times to the recorder.
  Status close(Recorder &recorder);

private:
  struct Run {
    Span span; // without times
    CUevent begin, end;
  };

  Status mark(CUevent event);

  CudaContext &context;
  CUevent zero = nullptr;
  int64_t zeroTime = 0; // on the clock of the host
  std::vector<Run> runs;
  size_t used = 0;
  uint64_t lost = 0;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_TRACE_H
