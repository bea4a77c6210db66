// SPDX-License-Identifier: Apache-2.0
//
// --eval: loss and accuracy over all samples of the evaluation split.

#ifndef ASHLAR_RUNTIME_RUN_EVALUATION_H
#define ASHLAR_RUNTIME_RUN_EVALUATION_H

#include "runtime/run/log/training_log.h"
#include "runtime/run/scalar.h"
#include "runtime/run/source.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// One evaluation. The stages of a pipeline each run their part of the program, batch by batch; the last one adds up. Where a batch goes
// several times through the stages, a group of batches does before the next one, so that stages have work while a batch is elsewhere.
class Evaluation {
public:
  explicit Evaluation(Session &session) : session(session), training(*session.image->training) {}

  // Opens the split and checks that the program can give its numbers.
  Status prepare();

  // Where the batches come from.
  const Pipeline &pipeline() const { return batches.pipeline; }

  // Runs over the split. Every rank calls it; `text` becomes the line of rank 0, `result` its numbers, on every rank.
  Status run(std::string &text, Evaluated &result);

private:
  // The sums over batches.
  struct Sums {
    double loss = 0, weight = 0, correct = 0, rows = 0;
  };
  Status runBatch(Program &program, uint64_t batch, Sums &sums);
  Status tellSamples(uint64_t batch);
  uint64_t batchesOfGroup() const;
  uint64_t labelsOfSample() const;

  Session &session;
  const ashlar_rt_training &training;
  Source batches;
  std::vector<Program *> programs; // in their order; none on a stage that has nothing to do
  Scalar loss, weight, correct, rows;
  const ashlar_rt_tensor *samplesTensor = nullptr; // of this stage, where it has one
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_RUN_EVALUATION_H
