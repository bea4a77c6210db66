// SPDX-License-Identifier: Apache-2.0
//
// The share of time that a run makes progress when ranks fail and it goes on from checkpoints.

#ifndef ASHLAR_RUNTIME_SIMULATE_GOODPUT_H
#define ASHLAR_RUNTIME_SIMULATE_GOODPUT_H

namespace ashlar::rt {

// Checkpoints and failures of a run, in seconds. Failures come independently of each other at a constant rate.
struct FailureModel {
  double saveSeconds = 0;    // that the run stands still for a checkpoint
  double restartSeconds = 0; // from a failure until steps run again
  double failuresPerDay = 0; // of the whole job

  // Mean seconds between two failures. Assumes that there are some.
  double meanSeconds() const { return 86400 / failuresPerDay; }
};

// Returns the share of useful time with a checkpoint every `interval` seconds of useful time: interval / (expected time of an interval and
// its checkpoint, with all failures and repetitions), the latter e^(restart / mean) * mean * (e^((interval + save) / mean) - 1). Failures
// during restarts count, too. Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 2006.
double goodput(const FailureModel &model, double interval);

// Returns the best interval by Young, sqrt(2 save mean), and by Daly's series; in seconds. Assume that there are failures.
double youngInterval(const FailureModel &model);
double dalyInterval(const FailureModel &model);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_SIMULATE_GOODPUT_H
