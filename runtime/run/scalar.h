// SPDX-License-Identifier: Apache-2.0
//
// A loss, a count or a number for the log that the runtime reads. In a pipeline a later stage may have it, and rank 0, which prints it,
// belongs to the first.

#ifndef ASHLAR_RUNTIME_RUN_SCALAR_H
#define ASHLAR_RUNTIME_RUN_SCALAR_H

#include "runtime/run/session.h"

#include <vector>

namespace ashlar::rt {

// A scalar tensor of the last stage, of this rank's, or of the first that has it.
class Scalar {
public:
  // Finds the tensor `name` and checks that the runtime can read it: an i64 when `integer`, else f32 or f64.
  Status find(const Session &session, const char *name, bool integer);

  // Finds the i64 tensor `name` of the stage of this rank, which need not have it. Null: there is none.
  Status findHere(const Session &session, const char *name);

  // Finds the tensor `name`, f32 or f64, of the first stage that has it. Null: there is none.
  Status findFirst(const Session &session, const char *name);

  // The stage whose tensor was found.
  uint32_t stage() const { return ofStage; }

  // Whether find() found it, and its dtype.
  bool exists() const { return tensor != nullptr; }
  uint32_t dtype() const { return tensor->buffer.dtype; }

  // Executor::note() of it, and its value from there; 0 on ranks of other stages.
  Status note(uint64_t microBatch, size_t place) const;
  Status recall(size_t place, double &value) const;

  // Reads it, as the run for a micro-batch left it. 0 on ranks of other stages.
  Status read(uint64_t microBatch, double &value) const;

private:
  double valueOf(const char *bytes) const;

  // Whether the runtime can read the tensor.
  Status check(bool integer) const;

  Executor *executor = nullptr;
  const ashlar_rt_tensor *tensor = nullptr; // of the stage below, whatever this rank's is
  uint32_t ofStage = 0;
  bool isHere = false;
};

// Hands numbers to all ranks, value i from the stage stages[i], at most kLargestGather bytes of them. Every rank calls it; costs nothing
// without a pipeline.
Status fromStages(const Session &session, double *values, const std::vector<uint32_t> &stages);

// Hands numbers of the last stage to all ranks.
Status fromLastStage(const Session &session, double *values, size_t count);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_SCALAR_H
