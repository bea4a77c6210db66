// SPDX-License-Identifier: Apache-2.0
//
// Batches on their way to a GPU: from page-locked memory to a staging area, on a stream of its own while the step before runs, and from
// there to the input tensors at the start of the step.

#ifndef ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_FEED_H
#define ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_FEED_H

#include "runtime/execute/cuda/cuda_program.h"

namespace ashlar::rt {

class CudaFeed final : public Feed {
public:
  // All outlive the feed. `staging`: device memory for one batch.
  CudaFeed(CudaContext &context, Pipeline &pipeline, CUdeviceptr staging) : context(context), pipeline(pipeline), staging(staging) {}
  ~CudaFeed() override;

  // Page-locks the pipeline's memory.
  Status create(const ashlar_rt_variant &variant);

  Status next(uint64_t microBatch) override;
  Status prefetch() override;

private:
  CudaContext &context;
  Pipeline &pipeline;
  CUdeviceptr staging;
  // Of one feature: from the staging area to the input tensor, which lies so many bytes further in each next slot.
  struct Target {
    StridedCopy copy;
    uint64_t stride;
  };

  std::vector<Target> targets;
  uint64_t slots = 1;
  CUevent copied = nullptr;   // the staging area is full
  CUevent consumed = nullptr; // the staging area was emptied
  bool staged = false;        // a batch is on its way to the staging area
  bool copying = false;       // `copied` was recorded
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_EXECUTE_CUDA_CUDA_FEED_H
