// SPDX-License-Identifier: Apache-2.0
//
// Runs the evaluation program over a split. Nothing is gathered before the end, so the stages of a pipeline overlap.

#include "runtime/launch/evaluation.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {

Status Evaluation::prepare() {
  const Stages stages(*session.variant);
  if (findProgram(stages.last(), ASHLAR_RT_EVAL_STEP) == nullptr) {
    return invalid("--eval: {} was compiled without an evaluation program", session.image->model_name);
  }
  ASHLAR_RETURN_IF_ERROR(batches.create(session, Split::kEval));
  ASHLAR_RETURN_IF_ERROR(loss.find(session, training.loss_tensor, /*integer=*/false));
  if (training.correct_tensor != nullptr) {
    ASHLAR_RETURN_IF_ERROR(correct.find(session, training.correct_tensor, /*integer=*/true));
  }
  if (training.samples_tensor != nullptr) {
    samplesTensor = findTensor(*session.variant, training.samples_tensor); // in the stages that count
    const ashlar_rt_tensor *known = stages.find(training.samples_tensor);
    bool isGood = known != nullptr && known->rank == 0 && known->buffer.dtype == ASHLAR_RT_I64;
    return isGood ? Status() : internal("the image has no whole number {} of the samples that count", training.samples_tensor);
  }
  const uint64_t samples = pipeline().samples();
  if (samples % training.global_batch != 0) {
    return invalid("--eval: the model computes the loss of a whole batch itself, and the {} samples of the eval split are no whole batches "
                   "of {}; change global_batch or the samples, or let the job compute the loss",
                   samples, training.global_batch);
  }
  return Status();
}

Status Evaluation::run(std::string &text) {
  Program *program = session.executor->find(ASHLAR_RT_EVAL_STEP);
  const uint64_t count = pipeline().stepsPerEpoch(), samples = pipeline().samples();
  double sums[2] = {0, 0}; // loss, correct
  auto add = [](const Scalar &scalar, uint64_t batch, double &sum) {
    double value = 0;
    Status status = scalar.exists() ? scalar.read(batch, value) : Status();
    sum += value;
    return status;
  };
  for (uint64_t batch = 0; program != nullptr && batch < count; ++batch) {
    ASHLAR_RETURN_IF_ERROR(runBatch(program, batch));
    if (batch + 1 < count) {
      ASHLAR_RETURN_IF_ERROR(batches.feed->prefetch());
    }
    ASHLAR_RETURN_IF_ERROR(add(loss, batch, sums[0]));
    ASHLAR_RETURN_IF_ERROR(add(correct, batch, sums[1]));
  }
  ASHLAR_RETURN_IF_ERROR(fromLastStage(session, sums, /*count=*/2));
  text = fmt::format("eval: loss is {:.4f}", sums[0] / static_cast<double>(training.samples_tensor != nullptr ? samples : count));
  if (correct.exists()) {
    const uint64_t labels = samples * labelsOfSample();
    text += fmt::format(", accuracy is {:.4f} ({:.0f} of {})", sums[1] / static_cast<double>(labels), sums[1], labels);
  }
  return Status();
}

Status Evaluation::runBatch(Program *program, uint64_t batch) {
  ASHLAR_RETURN_IF_ERROR(batches.feed->next(batch));
  ASHLAR_RETURN_IF_ERROR(tellSamples(batch));
  return session.executor->run(*program, batch);
}

// Tells the program how many samples of the batch count.
Status Evaluation::tellSamples(uint64_t batch) {
  const uint64_t samples = std::min(training.global_batch, pipeline().samples() - batch * training.global_batch);
  for (int device = 0; samplesTensor != nullptr && device < session.communicator->mesh().devicesPerProcess(); ++device) {
    auto fill = [&](char *data) { std::memcpy(data, &samples, sizeof(samples)); };
    ASHLAR_RETURN_IF_ERROR(session.executor->write(*samplesTensor, device, fill, batch));
  }
  return Status();
}

// Number of class labels of one sample: 1, or one a token.
uint64_t Evaluation::labelsOfSample() const {
  uint64_t labels = 1;
  for (uint32_t i = 0; i < training.dataset.num_features; ++i) {
    const ashlar_rt_feature &feature = training.dataset.features[i];
    const ashlar_rt_tensor *tensor = feature.classes > 0 ? Stages(*session.variant).find(feature.tensor) : nullptr;
    for (uint32_t d = 1; tensor != nullptr && d < tensor->rank; ++d) {
      labels *= static_cast<uint64_t>(tensor->global_shape[d]);
    }
  }
  return labels;
}

} // namespace ashlar::rt
