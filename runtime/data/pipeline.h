// SPDX-License-Identifier: Apache-2.0
//
// From a data set to the input tensors: which samples make up each global batch, which piece of it each device of this process holds, and
// threads that keep the next batches ready. The order of the samples depends on the seed and the pass alone, never on the mesh; every
// process works it out for itself and decodes only the samples that its devices need.

#ifndef ASHLAR_RUNTIME_DATA_PIPELINE_H
#define ASHLAR_RUNTIME_DATA_PIPELINE_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"
#include "runtime/data/data_facts.h"

#include <cstdint>
#include <memory>
#include <string>

namespace ashlar::rt {

// The parts of a pipeline. The ABI structs must outlive the pipeline.
struct PipelineOptions {
  const ashlar_rt_training *training = nullptr;
  const ashlar_rt_variant *variant = nullptr; // axes and tensors
  uint32_t firstDevice = 0;                   // the devices of this process: firstDevice .. firstDevice + numDevices - 1
  uint32_t numDevices = 1;
  Split split = Split::kTrain; // kEval: in order, once, no shuffling; a last batch that is not full is filled up from the first sample on
  std::string directory;       // --data; empty: not given
  uint64_t seed = 0;           // --seed; decides the order, not the samples
  int threads = 1;             // that prepare batches; their number changes no bit
};

// One staged batch of this process. Valid until the following next() or goTo().
class Batch {
public:
  // Returns the piece of feature `feature` that device `device` of this process (0 .. numDevices - 1) holds: dense, row major, in the dtype
  // and local shape of its tensor. Devices that hold the same piece share it.
  const void *data(uint32_t device, uint32_t feature) const { return base + offsets[device * numFeatures + feature]; }

  // Returns the first byte of the whole batch.
  const void *data() const { return base; }

private:
  friend class Pipeline;
  const char *base = nullptr;
  const size_t *offsets = nullptr;
  uint32_t numFeatures = 0;
};

// Batches of one split, in order; without bytes where the variant, a stage of a pipeline, has none of the inputs. Used by one thread.
// Nothing is allocated after create().
class Pipeline {
public:
  Pipeline();
  Pipeline(Pipeline &&) noexcept;
  Pipeline &operator=(Pipeline &&) noexcept;
  // Ends the threads that prepare batches.
  ~Pipeline();

  // Opens the data set, checks that it fits the tensors, and begins to prepare the batches of epoch 0.
  static Status create(const PipelineOptions &options, Pipeline &pipeline);

  // Returns the batches of one epoch: repeat x (samples / global batch), in whole steps. Of the evaluation split: enough for all samples.
  uint64_t stepsPerEpoch() const;

  // Returns the number of samples of the split.
  uint64_t samples() const;

  // Returns the facts that identify the split.
  const DataFacts &facts() const;

  // Returns the number of features that go to inputs of the variant, and for each the index of its tensor in the variant and the bytes of a
  // device's piece.
  uint32_t numFeatures() const;
  uint32_t featureTensor(uint32_t feature) const;
  size_t featureBytes(uint32_t feature) const;

  // Returns where the batches lie, all of them: whole pages of their own, to be page-locked; and of one batch, its bytes and where in it
  // the piece of a device lies. Who holds on to the memory keeps it, whatever becomes of the pipeline.
  const std::shared_ptr<char> &memory() const;
  size_t memoryBytes() const;
  size_t batchBytes() const;
  size_t offsetInBatch(uint32_t device, uint32_t feature) const;

  // Goes to a step, counted from the first of epoch 0. Costs nothing when that is where the pipeline stands already.
  void goTo(uint64_t step);

  // Returns the batch of the next step, waiting until it is ready. After the last step of an epoch comes the first of the following one.
  const Batch &next();

  // Returns the seconds that next() has waited for batches that were not ready.
  double waitedSeconds() const;

  // Fails when a file of the data set was changed, so that the batches prepared since cannot be trusted. Cheap.
  Status check() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_PIPELINE_H
