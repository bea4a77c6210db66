// SPDX-License-Identifier: Apache-2.0
//
// The training run: init, epochs of steps, evaluation. The loop allocates nothing unless a line is due.

#include "runtime/base/clock.h"
#include "runtime/base/directories.h"
#include "runtime/data/pipeline.h"
#include "runtime/launch/output_tensors.h"
#include "runtime/launch/same_options.h"
#include "runtime/launch/session.h"
#include "runtime/launch/training_log.h"

#include <cmath>
#include <cstring>

namespace ashlar::rt {
namespace {

// Steps that do not count for the host's time: first calls of libraries, the capture of the step.
constexpr uint64_t kWarmUpSteps = 10;

// A pipeline together with the feed that brings its batches to the devices.
struct Source {
  Status create(Session &session, Split split) {
    PipelineOptions options;
    options.training = session.image->training;
    options.variant = session.variant;
    options.firstDevice = static_cast<uint32_t>(session.communicator->firstDevice());
    options.numDevices = static_cast<uint32_t>(session.communicator->mesh().devicesPerProcess());
    options.split = split;
    options.directory = session.options->dataDirectory;
    options.seed = session.options->seed;
    ASHLAR_RETURN_IF_ERROR(Pipeline::create(options, pipeline));
    return session.executor->createFeed(pipeline, feed);
  }

  Pipeline pipeline;
  std::unique_ptr<Feed> feed;
};

// Reads a scalar tensor of this process' first device.
Status readScalar(Executor &executor, const ashlar_rt_tensor &tensor, double &value) {
  char bytes[sizeof(double)] = {};
  ASHLAR_RETURN_IF_ERROR(executor.read(tensor, /*device=*/0, bytes));
  auto as = [&](auto number) {
    std::memcpy(&number, bytes, sizeof(number));
    return static_cast<double>(number);
  };
  value = tensor.buffer.dtype == ASHLAR_RT_F64 ? as(double{}) : tensor.buffer.dtype == ASHLAR_RT_I64 ? as(int64_t{}) : as(float{});
  return Status();
}

// Finds a scalar tensor that the image names, and checks that the runtime can read it.
Status findScalar(const Session &session, const char *name, bool integer, const ashlar_rt_tensor *&tensor) {
  tensor = session.executor->tensor(name);
  if (tensor == nullptr) {
    return internal("the image names the tensor {} but has none of that name", name);
  }
  uint32_t dtype = tensor->buffer.dtype;
  bool fits = integer ? dtype == ASHLAR_RT_I64 : dtype == ASHLAR_RT_F32 || dtype == ASHLAR_RT_F64;
  return tensor->rank == 0 && fits ? Status()
                                   : internal("tensor {} has rank {} and dtype {}, not a scalar loss or count", name, tensor->rank, dtype);
}

class Trainer {
public:
  explicit Trainer(Session &session) : session(session), training(*session.image->training), executor(*session.executor) {}

  // Everything that one rank can find wrong before the first step.
  Status prepare() {
    ASHLAR_RETURN_IF_ERROR(findScalar(session, training.loss_tensor, /*integer=*/false, lossTensor));
    step = executor.find(ASHLAR_RT_TRAIN_STEP);
    if (step == nullptr) {
      return internal("the image has no program train_step");
    }
    update = executor.find(ASHLAR_RT_UPDATE);
    batchesPerStep = std::max<uint64_t>(training.accumulate, 1);
    if (batchesPerStep > 1 && update == nullptr) {
      return internal("the image adds up {} micro-batches but has no program update", batchesPerStep);
    }
    if (session.options->evaluate && executor.find(ASHLAR_RT_EVAL_STEP) == nullptr) {
      return invalid("--eval: {} was compiled without an evaluation program", session.image->model_name);
    }
    ASHLAR_RETURN_IF_ERROR(batches.create(session, Split::kTrain));
    if (session.options->evaluate) {
      ASHLAR_RETURN_IF_ERROR(evaluation.create(session, Split::kEval));
      ASHLAR_RETURN_IF_ERROR(checkEvaluation());
    }
    ASHLAR_RETURN_IF_ERROR(
        executor.checkMemory(batches.pipeline.memoryBytes() + (session.options->evaluate ? evaluation.pipeline.memoryBytes() : 0)));
    ASHLAR_RETURN_IF_ERROR(findParameters());
    stepsPerEpoch = batches.pipeline.stepsPerEpoch() / batchesPerStep;
    uint64_t all = session.options->epochs > UINT64_MAX / stepsPerEpoch ? UINT64_MAX : session.options->epochs * stepsPerEpoch;
    totalSteps = std::min(all, session.options->steps.value_or(all));
    return Status();
  }

  // Checks that all ranks have the same data.
  Status compareData() {
    std::vector<DataFacts> facts = {batches.pipeline.facts()};
    if (session.options->evaluate) {
      facts.push_back(evaluation.pipeline.facts());
    }
    return checkSameData(facts, *session.communicator);
  }

  Status openLog() {
    return log.open(*session.options, session.communicator->rank(), session.underMpirun, totalSteps,
                    training.global_batch * batchesPerStep);
  }

  Status run() {
    double begin = seconds();
    uint64_t logEvery = session.options->logEveryEpoch ? stepsPerEpoch : session.options->logEvery;
    uint64_t untilLine = logEvery;
    double host = 0; // seconds in which the host was busy with steps after the first few
    const bool timesHost = executor.runsAhead() && totalSteps > kWarmUpSteps; // a look at the clock costs as much as a small kernel
    for (uint64_t done = 0; done < totalSteps; ++done) {
      double before = timesHost ? seconds() : 0, waited = batches.feed->waitedSeconds;
      ASHLAR_RETURN_IF_ERROR(runStep(done + 1 == totalSteps));
      host += !timesHost || done < kWarmUpSteps ? 0 : seconds() - before - (batches.feed->waitedSeconds - waited);
      if (logEvery != 0 && --untilLine == 0) {
        untilLine = logEvery;
        double loss = 0;
        ASHLAR_RETURN_IF_ERROR(readScalar(executor, *lossTensor, loss));
        log.loss(done / stepsPerEpoch + 1, done % stepsPerEpoch + 1, loss, lossTensor->buffer.dtype, seconds() - begin);
      }
      log.progress(done + 1);
    }
    ASHLAR_RETURN_IF_ERROR(executor.wait());
    double elapsed = seconds() - begin;
    double each = totalSteps == 0 ? 0 : 1e6 * elapsed / static_cast<double>(totalSteps);
    std::string ofHost;
    if (timesHost) {
      ofHost = fmt::format(", {:.1f} us of the host", 1e6 * host / static_cast<double>(totalSteps - kWarmUpSteps));
    }
    log.line(fmt::format("trained {} steps in {:.3f} s ({:.1f} us a step{})", totalSteps, elapsed, each, ofHost));
    return Status();
  }

  // Loss and accuracy over all samples of the evaluation split.
  Status evaluate() {
    Program &program = *executor.find(ASHLAR_RT_EVAL_STEP);
    const uint64_t count = evaluation.pipeline.stepsPerEpoch(), samples = evaluation.pipeline.samples();
    double loss = 0;
    double correct = 0;
    auto add = [&](const ashlar_rt_tensor &tensor, double &sum) {
      double value = 0;
      Status status = readScalar(executor, tensor, value);
      sum += value;
      return status;
    };
    for (uint64_t i = 0; i < count; ++i) {
      ASHLAR_RETURN_IF_ERROR(evaluation.feed->next());
      ASHLAR_RETURN_IF_ERROR(tellSamples(std::min(training.global_batch, samples - i * training.global_batch)));
      ASHLAR_RETURN_IF_ERROR(executor.run(program));
      if (i + 1 < count) {
        ASHLAR_RETURN_IF_ERROR(evaluation.feed->prefetch());
      }
      ASHLAR_RETURN_IF_ERROR(add(*lossTensor, loss));
      if (correctTensor != nullptr) {
        ASHLAR_RETURN_IF_ERROR(add(*correctTensor, correct));
      }
    }
    std::string text = fmt::format("eval: loss is {:.4f}", loss / static_cast<double>(samplesTensor != nullptr ? samples : count));
    if (correctTensor != nullptr) {
      uint64_t labels = samples * labelsOfSample();
      text += fmt::format(", accuracy is {:.4f} ({:.0f} of {})", correct / static_cast<double>(labels), correct, labels);
    }
    log.line(text);
    return Status();
  }

  // Writes the parameters where they are wanted. All ranks take part; only rank 0's status can tell of a file.
  Status saveParameters() { return writeOutputTensors(session, parameters); }

  Status close() { return log.close(); }

private:
  // Runs a step: all its micro-batches, then the update.
  Status runStep(bool isLast) {
    for (uint64_t i = 0; i < batchesPerStep; ++i) {
      ASHLAR_RETURN_IF_ERROR(batches.feed->next());
      ASHLAR_RETURN_IF_ERROR(executor.run(*step));
      if (!isLast || i + 1 < batchesPerStep) { // after the last step of an epoch comes the first of the following one
        ASHLAR_RETURN_IF_ERROR(batches.feed->prefetch());
      }
    }
    return update == nullptr ? Status() : executor.run(*update);
  }

  // Checks that the evaluation program can give the numbers of the evaluation split.
  Status checkEvaluation() {
    if (training.correct_tensor != nullptr) {
      ASHLAR_RETURN_IF_ERROR(findScalar(session, training.correct_tensor, /*integer=*/true, correctTensor));
    }
    if (training.samples_tensor != nullptr) {
      return findScalar(session, training.samples_tensor, /*integer=*/true, samplesTensor);
    }
    const uint64_t samples = evaluation.pipeline.samples();
    if (samples % training.global_batch != 0) {
      return invalid(
          "--eval: the model computes the loss of a whole batch itself, and the {} samples of the eval split are no whole batches "
          "of {}; change global_batch or the samples, or let the job compute the loss",
          samples, training.global_batch);
    }
    return Status();
  }

  // Tells the evaluation program how many samples of the batch count.
  Status tellSamples(uint64_t samples) {
    for (int device = 0; samplesTensor != nullptr && device < session.communicator->mesh().devicesPerProcess(); ++device) {
      auto fill = [&](char *data) { std::memcpy(data, &samples, sizeof(samples)); };
      ASHLAR_RETURN_IF_ERROR(executor.write(*samplesTensor, device, fill));
    }
    return Status();
  }

  // The parameters that --save-parameters writes, and their folder.
  Status findParameters() {
    const std::string &directory = session.options->parameterDirectory;
    if (directory.empty()) {
      return Status();
    }
    for (uint32_t i = 0; i < session.variant->num_tensors; ++i) {
      const ashlar_rt_tensor &tensor = session.variant->tensors[i];
      if (tensor.role == ASHLAR_RT_VARIABLE) {
        parameters.push_back(OutputTensor{&tensor, directory + "/" + outputFileName(tensor.name)});
      }
    }
    ASHLAR_RETURN_IF_ERROR(checkOutputTensors(parameters, "parameter", "rename one of them in the model"));
    return session.communicator->rank() == 0 ? makeDirectories(directory) : Status();
  }

  // Number of class labels of one sample: 1, or one a token.
  uint64_t labelsOfSample() const {
    const ashlar_rt_variant &variant = *session.variant;
    uint64_t labels = 1;
    for (uint32_t i = 0; i < training.dataset.num_features; ++i) {
      const ashlar_rt_feature &feature = training.dataset.features[i];
      for (uint32_t j = 0; j < variant.num_tensors && feature.classes > 0; ++j) {
        const ashlar_rt_tensor &tensor = variant.tensors[j];
        for (uint32_t d = 1; d < tensor.rank && std::strcmp(tensor.name, feature.tensor) == 0; ++d) {
          labels *= static_cast<uint64_t>(tensor.global_shape[d]);
        }
      }
    }
    return labels;
  }

  Session &session;
  const ashlar_rt_training &training;
  Executor &executor;
  Source batches;
  Source evaluation;                    // only with --eval
  std::vector<OutputTensor> parameters; // only with --save-parameters
  TrainingLog log;
  Program *step = nullptr;
  Program *update = nullptr; // null: part of the step
  uint64_t batchesPerStep = 1;
  const ashlar_rt_tensor *lossTensor = nullptr;
  const ashlar_rt_tensor *correctTensor = nullptr; // only with --eval, as the next one
  const ashlar_rt_tensor *samplesTensor = nullptr;
  uint64_t stepsPerEpoch = 1;
  uint64_t totalSteps = 0;
};

} // namespace

Status train(Session &session) {
  Trainer trainer(session);
  Communicator &seat = *session.communicator;
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.prepare()));
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.compareData()));
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.openLog()));
  ASHLAR_RETURN_IF_ERROR(initialise(session));
  ASHLAR_RETURN_IF_ERROR(trainer.run());
  if (session.options->evaluate) {
    ASHLAR_RETURN_IF_ERROR(trainer.evaluate());
  }
  if (!session.options->parameterDirectory.empty()) {
    ASHLAR_RETURN_IF_ERROR(seat.barrier());
    ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.saveParameters()));
  }
  return trainer.close();
}

} // namespace ashlar::rt
