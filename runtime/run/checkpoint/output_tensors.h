// SPDX-License-Identifier: Apache-2.0
//
// Global tensors that a run writes as .npy files: outputs of a model, parameters after a training. The files appear together, when all of
// them are written.

#ifndef ASHLAR_RUNTIME_RUN_CHECKPOINT_OUTPUT_TENSORS_H
#define ASHLAR_RUNTIME_RUN_CHECKPOINT_OUTPUT_TENSORS_H

#include "runtime/run/session.h"

#include <string>
#include <utility>
#include <vector>

namespace ashlar::rt {

// A tensor of a stage and the file that it goes to.
struct OutputTensor {
  const ashlar_rt_tensor *tensor;
  std::string path;
  uint32_t stage;
};

// Returns whether an output of a variant is there only to count the elements of others (ashlar_rt_tensor.counts): no file has it.
bool isCount(const ashlar_rt_variant &variant, const ashlar_rt_tensor &tensor);

// Returns NAME.npy; a name with slashes must not leave its folder.
std::string outputFileName(std::string name);

// Checks that rank 0 can write the files of the tensors.
Status checkOutputTensors(const Session &session, const std::vector<OutputTensor> &tensors);

// Puts the pieces of a tensor of a stage together on rank 0; empty on other ranks. Every rank calls it, after a barrier.
Status fetchGlobal(Session &session, const ashlar_rt_tensor &tensor, uint32_t stage, std::vector<char> &global);

// Joins the pieces of the tensors and lets rank 0 write them, all or none; of dims that have a count, the valid elements. Every rank calls
// it, after a barrier; only the status of rank 0 reports errors of files.
Status writeOutputTensors(Session &session, const std::vector<OutputTensor> &tensors);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_CHECKPOINT_OUTPUT_TENSORS_H
