// SPDX-License-Identifier: Apache-2.0
//
// on_nonfinite: STOP checks the loss and the norm of the gradients after each step, and checkpoints; SKIP counts the steps that the program
// skipped.

#ifndef ASHLAR_RUNTIME_RUN_NONFINITE_WATCH_H
#define ASHLAR_RUNTIME_RUN_NONFINITE_WATCH_H

#include "runtime/run/checkpoint/saved_pieces.h"
#include "runtime/run/scalar.h"

#include <optional>

namespace ashlar::rt {

// The tensors that training writes, by place; frozen ones may hold any values.
class TrainedTensors {
public:
  explicit TrainedTensors(const ashlar_rt_variant &variant);

  // Fails when a piece of a saved tensor that training writes has an element that is infinite or NaN. `data`: the piece without padding.
  Status check(const SavedPiece &saved, const char *data) const;

private:
  std::vector<std::pair<uint64_t, uint64_t>> writes; // [begin, end) in the arena, apart and in order
};

// Used by the main thread of every rank, at the same places. Assumes that a failure of it ends the run.
class NonfiniteWatch {
public:
  explicit NonfiniteWatch(Session &session) : session(session), training(*session.image->training) {}

  // Finds the scalars. `batches`: of a step.
  Status prepare(uint64_t batches, uint64_t stepsOfEpoch);

  // Checks step number `number`, from 0 on, which was started. Where the host runs ahead of the devices it checks the step before, while
  // they compute this one, unless `now`. Fails with kNonfinite, on each rank that has the scalars.
  Status afterStep(uint64_t number, bool now);

  // Makes a failure of afterStep() one that every rank returns: the rank with the faulty input reports it. Every rank calls it.
  Status agreeOnFailure(const Status &mine);

  // Checks all tensors that training wrote. Every rank calls it.
  Status checkState();

  // Fails, on every rank, when the loss of an evaluation is not finite.
  Status checkEvaluation(double loss) const;

  // Returns how many updates of this run the program has left out. Every rank calls it.
  Status skippedSteps(uint64_t &count);

private:
  bool stops() const { return training.stops_on_nonfinite != 0; }
  Status check(uint64_t number);
  std::string inputFault();

  Session &session;
  const ashlar_rt_training &training;
  Scalar loss, badNorms, skipped;
  uint64_t batchesPerStep = 1, stepsPerEpoch = 1;
  std::optional<uint64_t> pending; // a step that was noted and not looked at
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_NONFINITE_WATCH_H
