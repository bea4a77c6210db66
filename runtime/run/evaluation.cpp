// SPDX-License-Identifier: Apache-2.0
//
// Runs the evaluation program over a split. Nothing is gathered before the end, so the stages of a pipeline overlap.

#include "runtime/run/evaluation.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ashlar::rt {

Status Evaluation::prepare() {
  const Stages stages(*session.variant);
  for (uint32_t i = 0; i < session.variant->num_programs; ++i) {
    if (session.variant->programs[i].id.role == ASHLAR_RT_EVAL_STEP) {
      programs.push_back(&session.executor->at(i));
    }
  }
  const ashlar_rt_program *lastPrograms = stages.last().programs;
  if (std::none_of(lastPrograms, lastPrograms + stages.last().num_programs,
                   [](const auto &program) { return program.id.role == ASHLAR_RT_EVAL_STEP; })) {
    return invalid("--eval: {} was compiled without an evaluation program", session.image->model_name);
  }
  ASHLAR_RETURN_IF_ERROR(batches.create(session, Split::kEval));
  ASHLAR_RETURN_IF_ERROR(loss.find(session, training.loss_tensor, /*integer=*/false));
  auto find = [&](Scalar &scalar, const char *name, bool integer) {
    return name != nullptr ? scalar.find(session, name, integer) : Status();
  };
  ASHLAR_RETURN_IF_ERROR(find(weight, training.weight_tensor, /*integer=*/false));
  ASHLAR_RETURN_IF_ERROR(find(correct, training.correct_tensor, /*integer=*/true));
  ASHLAR_RETURN_IF_ERROR(find(rows, training.rows_tensor, /*integer=*/true));
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

Status Evaluation::run(std::string &text, Evaluated &result) {
  const uint64_t count = pipeline().stepsPerEpoch(), samples = pipeline().samples(), group = batchesOfGroup();
  Sums sums;
  for (uint64_t first = 0; first < count; first += group) {
    for (Program *program : programs) {
      for (uint64_t batch = first; batch < std::min(first + group, count); ++batch) {
        ASHLAR_RETURN_IF_ERROR(runBatch(*program, batch, sums));
      }
    }
  }
  double values[] = {sums.loss, sums.weight, sums.correct, sums.rows};
  ASHLAR_RETURN_IF_ERROR(fromLastStage(session, values, std::size(values)));
  sums = {values[0], values[1], values[2], values[3]};
  const double divisor = training.samples_tensor == nullptr  ? static_cast<double>(count)
                         : training.weight_tensor != nullptr ? std::max(sums.weight, training.least_weight)
                                                             : 1;
  result.loss = sums.loss / divisor;
  text = fmt::format("eval: loss is {:.4f}", result.loss);
  if (correct.exists()) {
    const double labels = rows.exists() ? sums.rows : static_cast<double>(samples * labelsOfSample());
    result.accuracy = sums.correct / labels;
    text += fmt::format(", accuracy is {:.4f} ({:.0f} of {:.0f})", *result.accuracy, sums.correct, labels);
  }
  return Status();
}

// The first program of a batch takes it, the last one has the results.
Status Evaluation::runBatch(Program &program, uint64_t batch, Sums &sums) {
  const bool isFirst = &program == programs.front();
  if (isFirst) {
    ASHLAR_RETURN_IF_ERROR(batches.feed->next(batch));
    ASHLAR_RETURN_IF_ERROR(tellSamples(batch));
  }
  ASHLAR_RETURN_IF_ERROR(session.executor->run(program, batch));
  if (isFirst && batch + 1 < pipeline().stepsPerEpoch()) {
    ASHLAR_RETURN_IF_ERROR(batches.feed->prefetch());
  }
  auto add = [&](const Scalar &scalar, double &sum) {
    double value = 0;
    Status status = scalar.exists() ? scalar.read(batch, value) : Status();
    sum += value;
    return status;
  };
  if (&program == programs.back()) {
    ASHLAR_RETURN_IF_ERROR(add(loss, sums.loss));
    ASHLAR_RETURN_IF_ERROR(add(weight, sums.weight));
    ASHLAR_RETURN_IF_ERROR(add(correct, sums.correct));
    ASHLAR_RETURN_IF_ERROR(add(rows, sums.rows));
  }
  return Status();
}

// As many batches as keep all stages busy. All have slots on every stage, and all ranks go by the same number, so that nobody waits for a
// slot of a batch behind it: what a run waits for always comes ahead of it by (group, program, batch, stage).
uint64_t Evaluation::batchesOfGroup() const {
  const Stages stages(*session.variant);
  uint64_t group = session.executor->messagesMeet() ? 1 : stages.size();
  for (const ashlar_rt_variant &stage : stages) {
    group = std::min(group, slotsOf(stage));
  }
  return group;
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
