// SPDX-License-Identifier: Apache-2.0
//
// The work of a training step, by which the log turns times into rates.

#ifndef ASHLAR_RUNTIME_RUN_LOG_STEP_WORK_H
#define ASHLAR_RUNTIME_RUN_LOG_STEP_WORK_H

#include "runtime/abi/ashlar_rt.h"
#include "runtime/base/status.h"

namespace ashlar::rt {

// Of one step, on all devices together.
struct StepWork {
  double samples = 0;
  double tokens = 0;      // 0: samples are no sequences
  double operations = 0;  // of library calls, also in rematerialization
  double peakSeconds = 0; // that these take at the peak of each device; 0: the peak is unknown
};

// Finds the work of a step. `variant`: of any stage. `threads`: by which the peak of a rank is multiplied. Samples are sequences where the
// class labels are a matrix, (samples, tokens). Fails for a wrong image.
Status findStepWork(const ashlar_rt_training &training, const ashlar_rt_variant &variant, int threads, StepWork &work);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_LOG_STEP_WORK_H
