// SPDX-License-Identifier: Apache-2.0
//
// One batch is in the staging area or on its way there; the pipeline holds it until the copy is done.

#include "runtime/execute/cuda/cuda_feed.h"

#include "runtime/base/clock.h"

namespace ashlar::rt {

CudaFeed::~CudaFeed() {
  // After a failure the device may never finish: a collective waits for a rank that is gone. Taking back memory may wait for all that the
  // device does, not for the copies alone.
  const DriverLibrary &cuda = context.device.driver();
  bool idle = true;
  std::vector<CUstream> streams = {context.copies, context.compute, context.communication};
  for (size_t link = 0; context.links && link < context.links->size(); ++link) {
    streams.push_back(context.links->stream(link));
  }
  for (CUstream stream : streams) {
    idle = idle && cuda.cuStreamQuery(stream) == CUDA_SUCCESS;
  }
  if (pipeline.memoryBytes() == 0 || copied == nullptr) {
    return;
  }
  if (idle) {
    context.device.unpin(pipeline.memory().get());
  } else {
    context.stranded.push_back(pipeline.memory());
  }
}

Status CudaFeed::create(const ashlar_rt_variant &variant) {
  if (pipeline.memoryBytes() > 0) {
    ASHLAR_RETURN_IF_ERROR(context.device.pin(pipeline.memory().get(), pipeline.memoryBytes()));
  }
  slots = slotsOf(variant);
  for (uint32_t feature = 0; feature < pipeline.numFeatures(); ++feature) {
    const ashlar_rt_tensor &tensor = variant.tensors[pipeline.featureTensor(feature)];
    CUdeviceptr source = staging + pipeline.offsetInBatch(/*device=*/0, feature);
    CUdeviceptr target = context.memory.address(bufferInArena(variant, tensor.buffer, /*slot=*/0));
    const uint64_t stride = tensor.buffer.space == ASHLAR_RT_SLOT ? variant.slot_bytes : 0;
    targets.push_back({StridedCopy{source, target, pipeline.featureBytes(feature)}, stride});
  }
  ASHLAR_RETURN_IF_ERROR(context.device.createEvent(consumed));
  return context.device.createEvent(copied);
}

Status CudaFeed::prefetch() {
  if (repeats && copying) {
    staged = true;
    return Status();
  }
  const DriverLibrary &cuda = context.device.driver();
  double before = seconds();
  if (copying) {
    ASHLAR_RETURN_IF_ERROR(context.device.wait(copied)); // the pipeline may have the memory of the last batch again
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuStreamWaitEvent(context.copies, consumed, /*flags=*/0), "cannot wait for an event"));
  }
  const Batch &batch = pipeline.next();
  ASHLAR_RETURN_IF_ERROR(pipeline.check());
  waitedSeconds += seconds() - before;
  if (pipeline.batchBytes() > 0) {
    CUresult result = cuda.cuMemcpyHtoDAsync_v2(staging, batch.data(), pipeline.batchBytes(), context.copies);
    ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy a batch to the GPU"));
  }
  staged = copying = true;
  return cuda.check(cuda.cuEventRecord(copied, context.copies), "cannot record an event");
}

Status CudaFeed::next(uint64_t microBatch) {
  if (!staged) {
    ASHLAR_RETURN_IF_ERROR(prefetch());
  }
  const DriverLibrary &cuda = context.device.driver();
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuStreamWaitEvent(context.compute, copied, /*flags=*/0), "cannot wait for an event"));
  for (const Target &target : targets) {
    StridedCopy copy = target.copy;
    copy.target += microBatch % slots * target.stride;
    ASHLAR_RETURN_IF_ERROR(copy.enqueue(cuda, context.compute));
  }
  staged = false;
  return cuda.check(cuda.cuEventRecord(consumed, context.compute), "cannot record an event");
}

} // namespace ashlar::rt
