// SPDX-License-Identifier: Apache-2.0
//
// Streams and events.

#include "test/emulator/driver/device.h"

#include "test/emulator/driver/settings.h"

#include <algorithm>

namespace ashlar::emulator {

CUstream Driver::streamOf(CUstream handle) {
  if (handle && handle != CU_STREAM_LEGACY) {
    return streams.count(handle) != 0 ? handle : nullptr;
  }
  auto &stream = nullStreams[current()];
  if (!stream) {
    stream.reset(new CUstream_st{current(), /*blocking=*/true, nullptr});
  }
  return stream.get();
}

CUresult enqueue(CUstream stream, Work work) {
  if (CUgraph graph = stream->capture) {
    if (graph->invalid) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    graph->nodes.push_back({std::move(work), {stream->captureTail.begin(), stream->captureTail.end()}});
    stream->captureTail = {graph->nodes.size() - 1};
    return CUDA_SUCCESS;
  }
  std::vector<TaskPtr> after{stream->tail};
  Driver &driver = Driver::get();
  CUstream null = driver.streamOf(nullptr);
  if (stream == null) {
    for (CUstream other : driver.streams) {
      if (other->blocking && other->device == stream->device) {
        after.push_back(other->tail);
      }
    }
  } else if (stream->blocking) {
    after.push_back(null->tail);
  }
  stream->tail = Engine::get().submit(std::move(work), after);
  return CUDA_SUCCESS;
}

CUresult refuseDuringCapture() {
  bool refused = false;
  for (CUgraph capture : Driver::get().captures) {
    const bool forbids = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
                         (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && capture->thread == std::this_thread::get_id());
    capture->invalid |= forbids;
    refused |= forbids;
  }
  if (refused) {
    say("a call that a capture in progress forbids");
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

} // namespace ashlar::emulator

using namespace ashlar::emulator;

namespace {

// Waiting for a captured stream or event has no meaning.
CUresult refuseWait(bool captured, CUresult error) {
  if (captured) {
    return error;
  }
  return refuseDuringCapture();
}

CUresult answerOf(const TaskPtr &task) {
  Engine::get().progress();
  if (const CUresult sticky = stickyError()) {
    return sticky;
  }
  return !task || task->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

} // namespace

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
  ASHLAR_EMULATOR_ENTER();
  if (flags > CU_STREAM_NON_BLOCKING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *stream = new CUstream_st{Driver::current(), flags == CU_STREAM_DEFAULT, nullptr};
  Driver::get().streams.insert(*stream);
  return CUDA_SUCCESS;
}

// Work runs in any order that streams and events allow, so priorities change nothing.
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int) {
  return cuStreamCreate(stream, flags);
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  ASHLAR_EMULATOR_ENTER();
  if (Driver::get().streams.erase(stream) == 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  delete stream; // its work goes on
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult refused = refuseWait(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)) {
    return refused;
  }
  return answerOf(stream->tail);
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult refused = refuseWait(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)) {
    return refused;
  }
  Engine::get().wait(stream->tail);
  return stickyError();
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || !event) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->capture) {
    // The stream joins the capture of the event.
    if (stream->capture && stream->capture != event->capture) {
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (Driver::get().captures.count(event->capture) == 0) {
      return CUDA_ERROR_CAPTURED_EVENT;
    }
    stream->capture = event->capture;
    stream->captureTail.insert(event->captureTail.begin(), event->captureTail.end());
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    // Work from before the capture is not in the graph.
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->recorded) {
    stream->tail = Engine::get().submit(once([] {}), {stream->tail, event->recorded});
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
  ASHLAR_EMULATOR_ENTER();
  *event = new CUevent_st{(flags & CU_EVENT_DISABLE_TIMING) == 0, nullptr};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  ASHLAR_EMULATOR_ENTER();
  if (!event) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  delete event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream handle) {
  ASHLAR_EMULATOR_ENTER();
  CUstream stream = Driver::get().streamOf(handle);
  if (!stream || !event) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  event->capture = stream->capture;
  event->captureTail = stream->captureTail;
  if (stream->capture) {
    return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  }
  const CUresult result = enqueue(stream, once([] {}));
  event->recorded = stream->tail;
  return result;
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
  ASHLAR_EMULATOR_ENTER();
  if (!event) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult refused = refuseWait(event->capture, CUDA_ERROR_CAPTURED_EVENT)) {
    return refused;
  }
  return answerOf(event->recorded);
}

CUresult CUDAAPI cuEventSynchronize(CUevent event) {
  ASHLAR_EMULATOR_ENTER();
  if (!event) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult refused = refuseWait(event->capture, CUDA_ERROR_CAPTURED_EVENT)) {
    return refused;
  }
  Engine::get().wait(event->recorded);
  return stickyError();
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  ASHLAR_EMULATOR_ENTER();
  if (!start || !end || !start->timed || !end->timed || !start->recorded || !end->recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->recorded->done || !end->recorded->done) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded->doneAt - start->recorded->doneAt).count();
  return CUDA_SUCCESS;
}

} // extern "C"
