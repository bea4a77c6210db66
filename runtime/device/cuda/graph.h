// SPDX-License-Identifier: Apache-2.0
//
// Work on streams, captured once and replayed by one call.

#ifndef ASHLAR_RUNTIME_DEVICE_CUDA_GRAPH_H
#define ASHLAR_RUNTIME_DEVICE_CUDA_GRAPH_H

#include "runtime/device/cuda/driver_library.h"

#include <functional>

namespace ashlar::rt {

// Owns an instantiated graph.
class CudaGraph {
public:
  explicit CudaGraph(const DriverLibrary &library) : cuda(library) {}
  CudaGraph(const CudaGraph &) = delete;
  CudaGraph &operator=(const CudaGraph &) = delete;
  ~CudaGraph();

  // Captures the work that `enqueue` puts on `stream`, and on streams that wait for it and that it waits for again. Nothing runs.
  Status capture(CUstream stream, const std::function<Status()> &enqueue);

  // Whether there is something to launch.
  bool captured() const { return executable != nullptr; }

  // Runs the captured work, in order with the other work of the stream.
  Status launch(CUstream stream) const;

  // Drops the captured work. NCCL keeps a communicator while a graph that uses it lives.
  void reset();

private:
  const DriverLibrary &cuda;
  CUgraphExec executable = nullptr;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_CUDA_GRAPH_H
