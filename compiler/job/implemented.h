// SPDX-License-Identifier: Apache-2.0
//
// Refuses by name fields and values of a job that job.proto marks as planned.

#ifndef ASHLAR_COMPILER_JOB_IMPLEMENTED_H
#define ASHLAR_COMPILER_JOB_IMPLEMENTED_H

#include "compiler/job/job.pb.h"

#include <google/protobuf/text_format.h>

#include <optional>
#include <string>

namespace ashlar::job {

// A field, or a value of a field, that is set but not implemented.
struct Unimplemented {
  std::string what; // "field pipeline.micro_batches", "value AUTO of field mode"
  int line = -1;    // zero based; -1: not known
  int column = -1;  // zero based
};

// Returns the first field in `job`, in the order of job.proto, that is set but not implemented. `positions`, when given, is the tree that
// the parser of the text filled.
std::optional<Unimplemented> findUnimplemented(const Job &job, const google::protobuf::TextFormat::ParseInfoTree *positions = nullptr);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_IMPLEMENTED_H
