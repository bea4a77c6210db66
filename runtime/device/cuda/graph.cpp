// SPDX-License-Identifier: Apache-2.0
//
// Capture in thread-local mode: other threads, those of NCCL among them, may call the driver meanwhile.

#include "runtime/device/cuda/graph.h"

namespace ashlar::rt {

CudaGraph::~CudaGraph() {
  reset();
}

void CudaGraph::reset() {
  if (executable != nullptr) {
    cuda.cuGraphExecDestroy(executable);
    executable = nullptr;
  }
}

Status CudaGraph::capture(CUstream stream, const std::function<Status()> &enqueue) {
  const char *what = "cannot capture the step as a graph (--no-graph runs without)";
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), what));
  Status enqueued = enqueue();
  CUgraph graph = nullptr;
  CUresult ended = cuda.cuStreamEndCapture(stream, &graph);
  if (enqueued.ok()) {
    enqueued = cuda.check(ended, what);
  }
  if (enqueued.ok()) {
    enqueued = cuda.check(cuda.cuGraphInstantiateWithFlags(&executable, graph, /*flags=*/0), what);
  }
  if (graph != nullptr) {
    cuda.cuGraphDestroy(graph);
  }
  return enqueued;
}

Status CudaGraph::launch(CUstream stream) const {
  return cuda.check(cuda.cuGraphLaunch(executable, stream), "cannot launch the graph of the step");
}

} // namespace ashlar::rt
