// SPDX-License-Identifier: Apache-2.0
//
// A loss or a count that the runtime reads. In a pipeline the last stage has it, and rank 0, which prints it, belongs to the first.

#ifndef ASHLAR_RUNTIME_RUN_SCALAR_H
#define ASHLAR_RUNTIME_RUN_SCALAR_H

#include "runtime/run/session.h"

#include <vector>

namespace ashlar::rt {

// A scalar tensor of the last stage, or of this rank's.
class Scalar {
public:
  // Finds the tensor `name` and checks that the runtime can read it: an i64 when `integer`, else f32 or f64.
  Status find(const Session &session, const char *name, bool integer);

  // Finds the i64 tensor `name` of the stage of this rank, which need not have it. Null: there is none.
  Status findHere(const Session &session, const char *name);

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
  const ashlar_rt_tensor *tensor = nullptr; // of the last stage, whatever this rank's is
  bool isHere = false;
};

// Hands numbers of the last stage to all ranks, at most kLargestGather bytes of them. Every rank calls it; costs nothing without a
// pipeline.
Status fromLastStage(const Session &session, double *values, size_t count);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_SCALAR_H
