// SPDX-License-Identifier: Apache-2.0
//
// Captures and graphs. A graph is launched as one task a node, ordered by nothing but the dependencies the capture found.

#include "test/emulator/driver/device.h"

using namespace ashlar::emulator;

namespace {

// Ends a capture: no stream records into it any more. Returns whether everything that other streams recorded leads to the origin.
bool close(CUgraph graph) {
  std::set<size_t> reached(graph->origin->captureTail);
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    if (reached.count(i) != 0) {
      reached.insert(graph->nodes[i].after.begin(), graph->nodes[i].after.end());
    }
  }
  Driver &driver = Driver::get();
  driver.captures.erase(graph);
  for (CUstream stream : driver.streams) {
    if (stream->capture == graph) {
      stream->capture = nullptr;
      stream->captureTail.clear();
    }
  }
  return reached.size() == graph->nodes.size();
}

} // namespace

extern "C" {

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  ASHLAR_EMULATOR_ENTER();
  if (!handle || handle == CU_STREAM_LEGACY) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || stream->capture) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  stream->capture = new CUgraph_st{{}, mode, std::this_thread::get_id(), stream};
  Driver::get().captures.insert(stream->capture);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *result) {
  ASHLAR_EMULATOR_ENTER();
  *result = nullptr;
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || !stream->capture || stream->capture->origin != stream) {
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUgraph graph = stream->capture;
  const bool joined = close(graph);
  if (graph->invalid || !joined) {
    const CUresult error = graph->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    delete graph;
    return error;
  }
  *result = graph;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
  ASHLAR_EMULATOR_ENTER();
  if (!graph || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *executable = new CUgraphExec_st{graph->nodes, nullptr};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || !executable) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (const CUresult failed = enqueue(stream, once([] {}))) {
    return failed;
  }
  std::vector<TaskPtr> tasks;
  for (const Node &node : executable->nodes) {
    // A graph does not overlap with itself.
    std::vector<TaskPtr> after{stream->tail, executable->last};
    for (const size_t other : node.after) {
      after.push_back(tasks[other]);
    }
    tasks.push_back(Engine::get().submit(node.work, after));
  }
  tasks.push_back(stream->tail);
  stream->tail = executable->last = Engine::get().submit(once([] {}), tasks);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) {
  ASHLAR_EMULATOR_ENTER();
  delete executable;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  ASHLAR_EMULATOR_ENTER();
  delete graph;
  return CUDA_SUCCESS;
}

} // extern "C"
