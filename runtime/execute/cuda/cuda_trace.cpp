// SPDX-License-Identifier: Apache-2.0
//
// Events on the compute stream.

#include "runtime/execute/cuda/cuda_trace.h"

#include <algorithm>
#include <cmath>

namespace ashlar::rt {

Status CudaTrace::mark(CUevent event) {
  const DriverLibrary &cuda = context.device.driver();
  return cuda.check(cuda.cuEventRecord(event, context.compute), "cannot record an event");
}

Status CudaTrace::reserve(size_t count) {
  ASHLAR_RETURN_IF_ERROR(context.device.createEvent(zero, /*timing=*/true));
  runs.resize(std::min(count, kMostCudaSpans));
  for (Run &run : runs) {
    ASHLAR_RETURN_IF_ERROR(context.device.createEvent(run.begin, /*timing=*/true));
    ASHLAR_RETURN_IF_ERROR(context.device.createEvent(run.end, /*timing=*/true));
  }
  return Status();
}

Status CudaTrace::open() {
  ASHLAR_RETURN_IF_ERROR(context.wait());
  ASHLAR_RETURN_IF_ERROR(mark(zero));
  ASHLAR_RETURN_IF_ERROR(context.device.wait(zero));
  zeroTime = nanoseconds();
  return Status();
}

Status CudaTrace::begin(const Recorder &recorder, uint16_t program) {
  if (used == runs.size()) {
    ++lost;
    return Status();
  }
  runs[used].span = recorder.spanOf(SpanKind::kProgram, program, /*index=*/0);
  return mark(runs[used].begin);
}

Status CudaTrace::end() {
  return lost != 0 ? Status() : mark(runs[used++].end);
}

Status CudaTrace::close(Recorder &recorder) {
  ASHLAR_RETURN_IF_ERROR(context.wait());
  const DriverLibrary &cuda = context.device.driver();
  auto timeOf = [&](CUevent event, int64_t &time) {
    float milliseconds = 0;
    Status status = cuda.check(cuda.cuEventElapsedTime_v2(&milliseconds, zero, event), "cannot measure a program");
    time = zeroTime + std::llround(1e6 * static_cast<double>(milliseconds));
    return status;
  };
  for (size_t i = 0; i < used; ++i) {
    Span span = runs[i].span;
    ASHLAR_RETURN_IF_ERROR(timeOf(runs[i].begin, span.begin));
    ASHLAR_RETURN_IF_ERROR(timeOf(runs[i].end, span.end));
    recorder.add(span);
  }
  recorder.lose(lost);
  return Status();
}

} // namespace ashlar::rt
