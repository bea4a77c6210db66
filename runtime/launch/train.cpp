// SPDX-License-Identifier: Apache-2.0
//
// The training run: init, epochs of steps, evaluation. The loop allocates nothing unless a line is due.

#include "runtime/base/clock.h"
#include "runtime/data/pipeline.h"
#include "runtime/launch/session.h"
#include "runtime/launch/training_log.h"

#include <cmath>
#include <cstring>

namespace ashlar::rt {
namespace {

// A program together with the pipeline that feeds it.
class Feed {
public:
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
    for (uint32_t device = 0; device < options.numDevices; ++device) {
      for (uint32_t feature = 0; feature < pipeline.numFeatures(); ++feature) {
        const ashlar_rt_tensor &tensor = session.variant->tensors[pipeline.featureTensor(feature)];
        targets.push_back(
            Target{device, feature, session.executor->address(tensor, static_cast<int>(device)), pipeline.featureBytes(feature)});
      }
    }
    return Status();
  }

  // Puts the next batch into the input tensors of all devices of this process.
  void next() {
    const Batch &batch = pipeline.next();
    for (const Target &target : targets) {
      std::memcpy(target.address, batch.data(target.device, target.feature), target.bytes);
    }
  }

  Pipeline pipeline;

private:
  struct Target {
    uint32_t device;
    uint32_t feature;
    char *address;
    size_t bytes;
  };

  std::vector<Target> targets;
};

// Reads a scalar tensor of this process' first device.
double readScalar(const Executor &executor, const ashlar_rt_tensor &tensor) {
  const char *address = executor.address(tensor, /*device=*/0);
  switch (tensor.buffer.dtype) {
  case ASHLAR_RT_F64: {
    double value;
    std::memcpy(&value, address, sizeof(value));
    return value;
  }
  case ASHLAR_RT_I64: {
    int64_t value;
    std::memcpy(&value, address, sizeof(value));
    return static_cast<double>(value);
  }
  default: {
    float value;
    std::memcpy(&value, address, sizeof(value));
    return value;
  }
  }
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

  // Everything that can be found wrong before the first step.
  Status prepare() {
    ASHLAR_RETURN_IF_ERROR(findScalar(session, training.loss_tensor, /*integer=*/false, lossTensor));
    step = executor.find("train_step");
    if (step == nullptr) {
      return internal("the image has no program train_step");
    }
    if (session.options->evaluate && executor.find("eval_step") == nullptr) {
      return invalid("--eval: {} was compiled without an evaluation program", session.image->model_name);
    }
    ASHLAR_RETURN_IF_ERROR(feed.create(session, Split::kTrain));
    if (session.options->evaluate) {
      ASHLAR_RETURN_IF_ERROR(evaluation.create(session, Split::kEval));
    }
    stepsPerEpoch = feed.pipeline.stepsPerEpoch();
    uint64_t all = session.options->epochs > UINT64_MAX / stepsPerEpoch ? UINT64_MAX : session.options->epochs * stepsPerEpoch;
    totalSteps = std::min(all, session.options->steps.value_or(all));
    return log.open(*session.options, session.communicator->rank(), session.underMpirun, totalSteps, training.global_batch);
  }

  Status run() {
    double begin = seconds();
    uint64_t logEvery = session.options->logEveryEpoch ? stepsPerEpoch : session.options->logEvery;
    uint64_t untilLine = logEvery;
    for (uint64_t done = 0; done < totalSteps; ++done) {
      uint64_t inEpoch = done % stepsPerEpoch;
      if (inEpoch == 0) {
        feed.pipeline.startEpoch(done / stepsPerEpoch);
      }
      feed.next();
      ASHLAR_RETURN_IF_ERROR(executor.run(*step));
      if (logEvery != 0 && --untilLine == 0) {
        untilLine = logEvery;
        log.loss(done / stepsPerEpoch + 1, inEpoch + 1, readScalar(executor, *lossTensor), lossTensor->buffer.dtype, seconds() - begin);
      }
      log.progress(done + 1);
    }
    double elapsed = seconds() - begin;
    double each = totalSteps == 0 ? 0 : 1e6 * elapsed / static_cast<double>(totalSteps);
    log.line(fmt::format("trained {} steps in {:.3f} s ({:.1f} us a step)", totalSteps, elapsed, each));
    return Status();
  }

  // Loss and accuracy over the evaluation split.
  Status evaluate() {
    const ashlar_rt_tensor *correctTensor = nullptr;
    if (training.correct_tensor != nullptr) {
      ASHLAR_RETURN_IF_ERROR(findScalar(session, training.correct_tensor, /*integer=*/true, correctTensor));
    }
    Program &program = *executor.find("eval_step");
    uint64_t batches = evaluation.pipeline.stepsPerEpoch();
    evaluation.pipeline.startEpoch(0);
    double loss = 0;
    double correct = 0;
    for (uint64_t i = 0; i < batches; ++i) {
      evaluation.next();
      ASHLAR_RETURN_IF_ERROR(executor.run(program));
      loss += readScalar(executor, *lossTensor);
      correct += correctTensor != nullptr ? readScalar(executor, *correctTensor) : 0;
    }
    std::string text = fmt::format("eval: loss is {:.4f}", loss / static_cast<double>(batches));
    if (correctTensor != nullptr) {
      uint64_t labels = evaluation.pipeline.samplesPerEpoch() * labelsOfSample();
      text += fmt::format(", accuracy is {:.4f} ({:.0f} of {})", correct / static_cast<double>(labels), correct, labels);
    }
    log.line(text);
    return Status();
  }

  Status close() { return log.close(); }

private:
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
  Feed feed;
  Feed evaluation; // only with --eval
  TrainingLog log;
  Program *step = nullptr;
  const ashlar_rt_tensor *lossTensor = nullptr;
  uint64_t stepsPerEpoch = 1;
  uint64_t totalSteps = 0;
};

} // namespace

Status train(Session &session, bool &known) {
  Trainer trainer(session);
  Status prepared = session.communicator->agree(trainer.prepare());
  if (!prepared.ok()) {
    known = true;
    return prepared;
  }
  ASHLAR_RETURN_IF_ERROR(initialise(session));
  ASHLAR_RETURN_IF_ERROR(trainer.run());
  if (session.options->evaluate) {
    ASHLAR_RETURN_IF_ERROR(trainer.evaluate());
  }
  return trainer.close();
}

} // namespace ashlar::rt
