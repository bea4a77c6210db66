// SPDX-License-Identifier: Apache-2.0
//
// The one table of the ranges of a job's numbers, and the walk that compares a job with it. A number in a file outside of its range cannot
// be meant; constraints between numbers are checked separately.

#ifndef ASHLAR_COMPILER_JOB_RANGES_H
#define ASHLAR_COMPILER_JOB_RANGES_H

#include "compiler/job/check_training.h"
#include "compiler/job/job.pb.h"

#include "llvm/ADT/StringRef.h"

namespace ashlar::job {

// The range of a number: from `least` to `most`; one of them may be excluded. With `inF32` it becomes an f32 of the program: there it has
// to be finite, in the range too, and other than 0 unless it is 0.
struct NumberRange {
  llvm::StringLiteral path; // of a field, "optimizer.learning_rate"
  double least, most;
  bool excludesLeast = false, excludesMost = false;
  bool inF32 = false;
};

// Returns the range of a field, null for one without (which is then no number, or not implemented).
const NumberRange *findRange(llvm::StringRef path);

// Returns the error of the first number in the job that is out of its range: "optimizer.learning_rate 0 is not in (0, 3.4e+38]".
Fault checkRanges(const Job &job);

} // namespace ashlar::job

#endif // ASHLAR_COMPILER_JOB_RANGES_H
