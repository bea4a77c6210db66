// SPDX-License-Identifier: Apache-2.0
//
// The training run: init, epochs of steps, evaluation. The loop allocates nothing unless a line is due.

#include "runtime/base/clock.h"
#include "runtime/base/directories.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/execute/order.h"
#include "runtime/run/checkpoint/export_model.h"
#include "runtime/run/checkpoint/loader.h"
#include "runtime/run/checkpoint/output_tensors.h"
#include "runtime/run/checkpoint/saver.h"
#include "runtime/run/evaluation.h"
#include "runtime/run/log/step_work.h"
#include "runtime/run/log/training_log.h"
#include "runtime/run/nonfinite_watch.h"
#include "runtime/run/run_files.h"
#include "runtime/run/same_options.h"
#include "runtime/run/tracer.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

namespace ashlar::rt {
namespace {

// Steps that do not count for the host's time: first calls of libraries, the capture of the step.
constexpr uint64_t kWarmUpSteps = 10;

// Returns the files of a training, or of an export. Assumes that the loader is open.
FileRoles trainingFiles(const Session &session, const Loader &loader, const std::vector<OutputTensor> &parameters) {
  const Options &options = *session.options;
  const ashlar_rt_training &training = *session.image->training;
  FileRoles files = filesOf(session, loader, parameters, "--save-parameters of");
  for (const std::string &path : dataFiles(training.dataset, options.dataDirectory)) {
    path.back() == '/' ? files.addInputFolder("the folder of --data", path) : files.addInput("a file of --data", path);
  }
  const int rank = session.communicator->rank();
  for (int other = 0; other < session.communicator->processes() && !options.logDirectory.empty(); ++other) {
    files.addOutput("--log-dir", rank == 0 || rank == other ? TrainingLog::workerLog(options.logDirectory, other) : "");
  }
  if (rank != 0) { // it writes nothing else, and may be on another host
    return files;
  }
  files.addOutput("--metrics", options.metricsFile);
  for (const std::string &path : exportFiles(session)) {
    files.addOutput("--export", path);
  }
  for (const auto &[option, folder] : {std::pair("--log-dir", options.logDirectory), std::pair("--tensorboard", options.eventDirectory),
                                       std::pair("--save-parameters", options.parameterDirectory)}) {
    files.addOutputFolder(option, folder);
  }
  if (options.savesCheckpoints && options.trains) {
    const CheckpointFolder folder(options.checkpointDirectory, training.checkpoint_prefix);
    files.addOutputFolder("--checkpoint-dir", options.checkpointDirectory);
    std::vector<CheckpointName> names;
    (void)listNames(options.checkpointDirectory, names).ok(); // where there is no folder, there is no checkpoint
    for (const CheckpointName &each : names) {
      files.addInputFolder("a checkpoint of --checkpoint-dir,", folder.place(each.name));
    }
  }
  return files;
}

void printLines(const Session &session, const Loader &loader) {
  for (const std::string &line : loader.lines()) {
    if (session.communicator->rank() == 0) {
      std::fputs((line + "\n").c_str(), stdout);
    }
  }
}

class Trainer {
public:
  explicit Trainer(Session &session)
      : session(session), training(*session.image->training), executor(*session.executor), evaluation(session), saver(session),
        loader(session), watch(session) {
    if (session.recorder != nullptr) {
      tracer.emplace(session);
    }
  }

  // Finds the checkpoint to go on from. The run takes its seed.
  Status findCheckpoint() {
    ASHLAR_RETURN_IF_ERROR(loader.open());
    if (loader.resumes()) {
      options = *session.options;
      options.seed = loader.seed();
      session.options = &options;
    }
    return Status();
  }

  // Everything that one rank can find wrong before the first step.
  Status prepare() {
    findParameters();
    ASHLAR_RETURN_IF_ERROR(checkFiles(trainingFiles(session, loader, parameters)));
    ASHLAR_RETURN_IF_ERROR(lossScalar.find(session, training.loss_tensor, /*integer=*/false));
    ASHLAR_RETURN_IF_ERROR(learningRate.findFirst(session, training.learning_rate_tensor));
    ASHLAR_RETURN_IF_ERROR(gradientNorm.findFirst(session, training.gradient_norm_tensor));
    batchesPerStep = std::max<uint64_t>(training.accumulate, 1);
    ASHLAR_RETURN_IF_ERROR(order.set(*session.variant, batchesPerStep));
    for (uint32_t i = 0; i < session.variant->num_programs; ++i) {
      programs.push_back(&executor.at(i));
    }
    ASHLAR_RETURN_IF_ERROR(batches.create(session, Split::kTrain));
    if (session.options->evaluate) {
      ASHLAR_RETURN_IF_ERROR(evaluation.prepare());
    }
    stepsPerEpoch = batches.pipeline.stepsPerEpoch() / batchesPerStep;
    ASHLAR_RETURN_IF_ERROR(watch.prepare(batchesPerStep, stepsPerEpoch));
    uint64_t all = session.options->epochs > UINT64_MAX / stepsPerEpoch ? UINT64_MAX : session.options->epochs * stepsPerEpoch;
    totalSteps = std::min(all, session.options->steps.value_or(all));
    const DataPosition position = {stepsPerEpoch, training.global_batch * batchesPerStep, batches.pipeline.samples()};
    ASHLAR_RETURN_IF_ERROR(loader.checkData(position));
    ASHLAR_RETURN_IF_ERROR(loader.checkTensors());
    ASHLAR_RETURN_IF_ERROR(checkExport(session));
    if (loader.resumes()) {
      firstStep = loader.stepsDone();
      batches.pipeline.goTo(firstStep * batchesPerStep);
    }
    totalSteps = std::max(totalSteps, firstStep);
    ASHLAR_RETURN_IF_ERROR(prepareTrace());
    ASHLAR_RETURN_IF_ERROR(saver.prepare(position, [this](const std::string &line) { log.line(line); }));
    ASHLAR_RETURN_IF_ERROR(executor.checkMemory(batches.pipeline.memoryBytes() + saver.bufferBytes() +
                                                (session.options->evaluate ? evaluation.pipeline().memoryBytes() : 0)));
    const std::string &folder = session.options->parameterDirectory;
    ASHLAR_RETURN_IF_ERROR(!folder.empty() && session.communicator->rank() == 0 ? makeDirectories(folder) : Status());
    return checkOutputTensors(session, parameters);
  }

  // Opens the folder of checkpoints, where some are written.
  Status openFolder() { return saver.openFolder(); }

  // Checks that all ranks have the same data.
  Status compareData() {
    std::vector<DataFacts> facts = {batches.pipeline.facts()};
    if (session.options->evaluate) {
      facts.push_back(evaluation.pipeline().facts());
    }
    return checkSameData(facts, *session.communicator);
  }

  // Opens the files that grow with the run. A run that goes on continues them, so this comes after resume().
  Status openLog() {
    const Options &options = *session.options;
    const bool hasLauncher = session.launcher != nullptr && session.launcher->endsWithParent;
    LogFacts facts{session.communicator->rank(), hasLauncher, loader.resumes(), firstStep, totalSteps, {}};
    ASHLAR_RETURN_IF_ERROR(findStepWork(training, *session.variant, session.threads, facts.work));
    ASHLAR_RETURN_IF_ERROR(log.open(options, facts));
    for (const std::string &line : loader.lines()) {
      log.line(line);
    }
    return tracer ? tracer->open() : Status();
  }

  // Takes over the state of the checkpoint to go on from. Where that fails, its lines go to standard output alone.
  Status resume() {
    Status status = loader.load();
    if (!status.ok()) {
      printLines(session, loader);
    }
    return status;
  }

  Status run() {
    saver.catchSignals();
    if (session.options->repeatsBatch) {
      log.line("ASHLAR_REPEAT_BATCH: every step takes the first batch, and nothing of this run is saved");
    }
    const double begin = seconds();
    double lineTime = begin;
    uint64_t lineStep = firstStep;
    uint64_t logEvery = session.options->logEveryEpoch ? stepsPerEpoch : session.options->logEvery;
    uint64_t untilLine = logEvery == 0 ? 0 : logEvery - firstStep % logEvery;
    double host = 0; // seconds in which the host was busy with steps after the first few
    const uint64_t mostSteps = totalSteps - firstStep;
    const bool timesHost = executor.runsAhead() && mostSteps > kWarmUpSteps; // reading the clock costs as long as a small kernel
    uint64_t done = firstStep;
    for (bool ends = false; done < totalSteps && !ends; ++done) {
      double before = timesHost ? seconds() : 0, waited = batches.feed->waitedSeconds;
      ASHLAR_RETURN_IF_ERROR(tracer ? runTraced(done) : runStep(done));
      host += !timesHost || done - firstStep < kWarmUpSteps ? 0 : seconds() - before - (batches.feed->waitedSeconds - waited);
      if (logEvery != 0 && --untilLine == 0) {
        untilLine = logEvery;
        LoggedStep step;
        ASHLAR_RETURN_IF_ERROR(readStep(done, step));
        const double now = seconds();
        step.elapsed = now - begin;
        step.stepSeconds = (now - lineTime) / static_cast<double>(done + 1 - lineStep);
        lineTime = now;
        lineStep = done + 1;
        log.step(step);
        ASHLAR_RETURN_IF_ERROR(tellSkipped());
      }
      log.progress(done + 1);
      ASHLAR_RETURN_IF_ERROR(endStep(done, /*wasRead=*/logEvery != 0 && untilLine == logEvery, ends));
    }
    ASHLAR_RETURN_IF_ERROR(executor.wait());
    ASHLAR_RETURN_IF_ERROR(tellSkipped());
    stepsDone = done;
    tellTimes(done - firstStep, seconds() - begin, timesHost ? host : -1);
    return Status();
  }

  // Saves the last step, where checkpoints are written. Fails when that could not be written.
  Status saveLast() { return saver.saves() ? saver.finish(stepsDone) : Status(); }

  // Whether a signal ended the run before its last step.
  bool wasCut() const { return isCut; }

  // Loss and accuracy over all samples of the evaluation split.
  Status evaluate() {
    std::string text;
    ASHLAR_RETURN_IF_ERROR(evaluation.run(text, evaluated));
    log.evaluated(stepsDone, evaluated, text);
    return Status();
  }

  // Fails when files are to be written of parameters that are not finite.
  Status checkState() {
    const Options &options = *session.options;
    return options.parameterDirectory.empty() && options.exportFile.empty() ? Status() : watch.checkState();
  }

  // Fails when that loss is not finite.
  Status checkEvaluation() { return watch.checkEvaluation(evaluated.loss); }

  // Writes the requested parameters. All ranks take part; only rank 0's status has errors of files.
  Status saveParameters() { return writeOutputTensors(session, parameters); }

  Status close() {
    Status status = log.close();
    status.update(tracer ? tracer->close() : Status());
    return status;
  }

private:
  // Runs step number `number`, from 0 on, by its order.
  Status runStep(uint64_t number) {
    uint64_t batch = 0;
    ashlar_rt_run run;
    for (order.restart(); order.next(run);) {
      const uint64_t microBatch = number * batchesPerStep + run.micro_batch;
      if (run.takes_batch != 0) {
        ASHLAR_RETURN_IF_ERROR(nextBatch(run.program, microBatch));
        ++batch;
      }
      ASHLAR_RETURN_IF_ERROR(executor.run(*programs[run.program], microBatch));
      // After the last step of an epoch comes the first of the following one.
      if (run.takes_batch != 0 && (number + 1 < totalSteps || batch < order.batches())) {
        ASHLAR_RETURN_IF_ERROR(batches.feed->prefetch());
      }
    }
    return Status();
  }

  // Checks the numbers of a step that was started, and saves due checkpoints. `wasRead`: the devices are through with it.
  Status endStep(uint64_t number, bool wasRead, bool &ends) {
    const bool now =
        wasRead || number + 1 == totalSteps || (session.options->saveEvery != 0 && (number + 1) % session.options->saveEvery == 0);
    const Status seen = watch.afterStep(number, now);
    if (seen.code() != StatusCode::kOk && seen.code() != StatusCode::kNonfinite) {
      return seen;
    }
    bool allKnow = Stages(*session.variant).size() == 1 && !seen.ok(); // all hold the loss
    if (saver.saves()) {
      ASHLAR_RETURN_IF_ERROR(saver.afterStep(number + 1, !seen.ok(), ends));
      allKnow = saver.isStopped();
      isCut = ends;
    }
    return allKnow ? watch.agreeOnFailure(seen) : seen;
  }

  // Reports skipped updates, when there are unreported ones. Every rank calls it.
  Status tellSkipped() {
    uint64_t count = 0;
    ASHLAR_RETURN_IF_ERROR(watch.skippedSteps(count));
    if (count != skippedSteps) {
      log.line(fmt::format("{} {} left out so far: the loss or a gradient was infinite or nan", count, count == 1 ? "update" : "updates"));
      skippedSteps = count;
    }
    return Status();
  }

  // Reports the time of the steps, the part that the host was busy for, unless `host` is negative, and the waits for data.
  void tellTimes(uint64_t steps, double elapsed, double host) {
    const double each = steps == 0 ? 0 : 1e6 / static_cast<double>(steps);
    const double waited = batches.pipeline.waitedSeconds();
    std::string parts;
    if (host >= 0) {
      parts = fmt::format(", {:.1f} us of the host", 1e6 * host / static_cast<double>(steps - std::min(steps, kWarmUpSteps)));
    }
    if (executor.runsAhead()) {
      parts += fmt::format(", {:.1f} us waiting for data", waited * each);
    }
    parts += session.options->repeatsBatch ? ", the first batch in every step" : "";
    log.line(fmt::format("trained {} steps in {:.3f} s ({:.1f} us a step{})", steps, elapsed, elapsed * each, parts));
    if (session.options->profile && steps != 0) {
      log.line(fmt::format("data wait: {:.1f} us a step, {:.2f} % of the time", waited * each, 100 * waited / elapsed));
    }
  }

  Status nextBatch(uint32_t program, uint64_t microBatch) {
    Recorder *const recorder = session.recorder != nullptr && !executor.runsAhead() ? session.recorder : nullptr; // else no device waits
    if (recorder != nullptr && recorder->records()) {
      recorder->setMicroBatch(microBatch);
    }
    return Stopwatch{nullptr, recorder, SpanKind::kBatch, static_cast<uint16_t>(program)}.time(
        [&] { return batches.feed->next(microBatch); });
  }

  // A step with its part of --trace.
  Status runTraced(uint64_t number) {
    std::string line;
    ASHLAR_RETURN_IF_ERROR(tracer->beginStep(number));
    ASHLAR_RETURN_IF_ERROR(runStep(number));
    ASHLAR_RETURN_IF_ERROR(tracer->endStep(number, line));
    if (!line.empty()) {
      log.line(line);
    }
    return Status();
  }

  // Lays the order of a step out for each stage.
  Status prepareTrace() {
    if (!tracer) {
      return Status();
    }
    StepRuns runs;
    for (const ashlar_rt_variant &stage : Stages(*session.variant)) {
      StepOrder steps;
      ASHLAR_RETURN_IF_ERROR(steps.set(stage, batchesPerStep));
      runs.emplace_back();
      for (ashlar_rt_run run; steps.next(run);) {
        runs.back().push_back(run);
      }
    }
    return tracer->prepare(firstStep, totalSteps, batchesPerStep, std::move(runs));
  }

  // Reads the numbers that step number `number` computed, for all ranks. Every rank calls it.
  Status readStep(uint64_t number, LoggedStep &step) {
    double values[] = {0, training.learning_rate, 0};
    ASHLAR_RETURN_IF_ERROR(lossScalar.read((number + 1) * batchesPerStep - 1, values[0]));
    ASHLAR_RETURN_IF_ERROR(learningRate.exists() ? learningRate.read(/*microBatch=*/0, values[1]) : Status());
    ASHLAR_RETURN_IF_ERROR(gradientNorm.exists() ? gradientNorm.read(/*microBatch=*/0, values[2]) : Status());
    ASHLAR_RETURN_IF_ERROR(fromStages(session, values, {lossScalar.stage(), learningRate.stage(), gradientNorm.stage()}));
    step.epoch = number / stepsPerEpoch + 1;
    step.step = number % stepsPerEpoch + 1;
    step.number = number + 1;
    step.loss = values[0];
    step.dtype = lossScalar.dtype();
    step.learningRate = values[1];
    step.gradientNorm = gradientNorm.exists() ? std::optional(values[2]) : std::nullopt;
    return Status();
  }

  // Lists the parameters that --save-parameters writes.
  void findParameters() {
    const std::string &directory = session.options->parameterDirectory;
    if (directory.empty()) {
      return;
    }
    std::set<std::string> names; // copies on several stages are equal
    for (const ashlar_rt_variant &stage : Stages(*session.variant)) {
      for (uint32_t i = 0; i < stage.num_tensors; ++i) {
        const ashlar_rt_tensor &tensor = stage.tensors[i];
        if (tensor.role == ASHLAR_RT_VARIABLE && names.insert(tensor.name).second) {
          parameters.push_back(OutputTensor{&tensor, directory + "/" + outputFileName(tensor.name), stage.stage});
        }
      }
    }
  }

  Session &session;
  const ashlar_rt_training &training;
  Executor &executor;
  Source batches;
  Evaluation evaluation;                // only with --eval
  std::vector<OutputTensor> parameters; // only with --save-parameters
  TrainingLog log;
  std::optional<Tracer> tracer; // only with --trace
  Options options;              // with the seed of a checkpoint
  Saver saver;
  Loader loader;
  NonfiniteWatch watch;
  StepOrder order;
  std::vector<Program *> programs; // as the order numbers them
  uint64_t batchesPerStep = 1;
  Scalar lossScalar, learningRate, gradientNorm; // the last two where each step has its own
  uint64_t stepsPerEpoch = 1;
  uint64_t firstStep = 0; // done in earlier runs
  uint64_t totalSteps = 0, stepsDone = 0;
  uint64_t skippedSteps = 0; // reported so far
  Evaluated evaluated;
  bool isCut = false;
};

// Writes the model with the parameters of a checkpoint, without data.
Status exportCheckpoint(Session &session) {
  Communicator &seat = *session.communicator;
  Loader loader(session);
  ASHLAR_RETURN_IF_ERROR(loader.open());
  ASHLAR_RETURN_IF_ERROR(seat.agree(loader.resumes() ? loader.checkTensors() : invalid("--export: there is no checkpoint to export")));
  ASHLAR_RETURN_IF_ERROR(seat.agree(checkFiles(trainingFiles(session, loader, {}))));
  ASHLAR_RETURN_IF_ERROR(seat.agree(checkExport(session)));
  ASHLAR_RETURN_IF_ERROR(initialise(session));
  ASHLAR_RETURN_IF_ERROR(seat.agree(loader.load()));
  printLines(session, loader);
  ASHLAR_RETURN_IF_ERROR(seat.barrier());
  return seat.agree(exportModel(session));
}

} // namespace

Status train(Session &session) {
  if (!session.options->trains) {
    return exportCheckpoint(session);
  }
  Trainer trainer(session);
  Communicator &seat = *session.communicator;
  ASHLAR_RETURN_IF_ERROR(trainer.findCheckpoint());
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.prepare()));
  ASHLAR_RETURN_IF_ERROR(trainer.openFolder());
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.compareData()));
  ASHLAR_RETURN_IF_ERROR(initialise(session));
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.resume()));
  ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.openLog()));
  ASHLAR_RETURN_IF_ERROR(trainer.run());
  const Status saved = trainer.saveLast();
  if (!saved.ok() && (!saved.isShared() || saved.code() == StatusCode::kNonfinite)) {
    return saved;
  }
  ASHLAR_RETURN_IF_ERROR(trainer.checkState());
  if (session.options->evaluate && !trainer.wasCut()) {
    ASHLAR_RETURN_IF_ERROR(trainer.evaluate());
  }
  if (!session.options->parameterDirectory.empty()) {
    ASHLAR_RETURN_IF_ERROR(seat.barrier());
    ASHLAR_RETURN_IF_ERROR(seat.agree(trainer.saveParameters()));
  }
  if (!session.options->exportFile.empty()) {
    ASHLAR_RETURN_IF_ERROR(seat.barrier());
    ASHLAR_RETURN_IF_ERROR(seat.agree(exportModel(session)));
  }
  Status status = trainer.close();
  status.update(saved);
  status.update(trainer.checkEvaluation());
  return status;
}

} // namespace ashlar::rt
