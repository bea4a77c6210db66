// SPDX-License-Identifier: Apache-2.0
//
// Attention of a compiled program on a GPU, by cuDNN's graph API. A call is prepared once, with an engine of the library, and then put on a
// stream any number of times without allocating. Scores are in no memory.

#ifndef ASHLAR_RUNTIME_KERNELS_CUDA_ATTENTION_H
#define ASHLAR_RUNTIME_KERNELS_CUDA_ATTENTION_H

#include "runtime/device/cuda/device.h"
#include "runtime/kernels/cuda/attention_plan.h"

#include <memory>
#include <string>
#include <vector>

namespace ashlar::rt {

// Fails when number, sizes or types of the buffers of an instruction do not fit its descriptor.
Status checkAttentionOperands(const ashlar_rt_instr &instr);

// The attentions of one device. Owns the library's handle. Used by one thread.
class Attentions {
public:
  Attentions();
  ~Attentions();
  Attentions(const Attentions &) = delete;
  Attentions &operator=(const Attentions &) = delete;

  // Loads the library, and reads ASHLAR_CUDNN_RELAX. Assumes that the context of the device, which outlives the attentions, is current.
  // `workspace`: as many bytes of device memory as deviceAttentionMemory() returns for each that is prepared.
  Status create(CudaDevice &gpu, CUdeviceptr workspace);

  // Lays out an attention on buffers in the order of its descriptor, and returns its number. Equal ones share the engine. `name` is its
  // name in an error.
  Status prepare(const ashlar_rt_attention_desc &desc, const std::vector<CUdeviceptr> &buffers, const char *name, size_t &number);

  // Makes prepared attentions ready to run. Takes memory where a chosen engine needs more than the plan has.
  Status finish();

  // Puts an attention on the stream. Assumes finish().
  Status enqueue(size_t number, CUstream stream) const;

  // Returns the plan that prepare() asked for last, whether it found an engine or not; null: none.
  AttentionPlan *lastPlan() const { return last; }

  // Returns a line for each engine that was taken in spite of a promise that it breaks.
  const std::vector<std::string> &relaxed() const { return warnings; }

  // Returns the bytes that finish() took.
  uint64_t extraBytes() const { return extra; }

private:
  struct Prepared;

  Status describe(Prepared &each) const;

  CudaDevice *device = nullptr;
  CudnnLibrary dnn;
  cudnnHandle_t handle = nullptr;
  CUdeviceptr workspace = 0, extraWorkspace = 0;
  uint32_t relaxations = 0;
  uint64_t extra = 0;
  std::vector<std::unique_ptr<AttentionPlan>> plans; // one for each distinct attention
  AttentionPlan *last = nullptr;
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<std::string> warnings;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_KERNELS_CUDA_ATTENTION_H
